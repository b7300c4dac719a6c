"""From run directories to statements: cells, tables, the papers' numbers. Reads run directories only."""

from silobench.analysis import export
from silobench.analysis.cells import CellResult, collect
from silobench.analysis.details import details_table
from silobench.analysis.profile import profile_table
from silobench.analysis.ranking import ranking, ranking_table
from silobench.analysis.tables import Table, accuracy_table, cost_table
from silobench.papers.tables import skew_json, skew_tables

__all__ = [
    "CellResult",
    "Table",
    "accuracy_table",
    "collect",
    "cost_table",
    "details_table",
    "export",
    "profile_table",
    "ranking",
    "ranking_table",
    "skew_json",
    "skew_tables",
]
