"""From run directories to statements: cells, tables, the papers' numbers. Reads run directories only."""

from silobench.analysis import export
from silobench.analysis.cells import CellResult, collect
from silobench.analysis.profile import profile_table
from silobench.analysis.tables import Table, accuracy_table, cost_table

__all__ = ["CellResult", "Table", "accuracy_table", "collect", "cost_table", "export", "profile_table"]
