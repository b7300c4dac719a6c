"""The colours of methods: in all charts of a study, a method has the same one."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import by_metric
from silobench.analysis.methods import settings


def colours_of(cells: Sequence[CellResult]) -> dict[str, int]:
    """Return a place in the palette for each method and each algorithm of a study, by its name.

    Methods have other names among the cells of one metric if they differ in fewer choices there.
    """
    methods = [name for group in (cells, *by_metric(cells)) for setting in settings(group) for name in setting.cells]
    algorithms = [cell.label.text("algorithm") for cell in cells]
    return {name: place for place, name in enumerate(dict.fromkeys((*methods, *algorithms)))}
