"""The pages of a site, in the order of its navigation. A new page is a new file and a line here.

A page is a function from the contents to a `Page`; a page without anything to show is left out.
"""

from collections.abc import Callable

from silobench.report.contents import Contents
from silobench.report.page import Page
from silobench.report.pages.claims import claims_page
from silobench.report.pages.classes import classes_page
from silobench.report.pages.cost import cost_page
from silobench.report.pages.curves import curves_page
from silobench.report.pages.decentralised import decentralised_page
from silobench.report.pages.overview import overview_page
from silobench.report.pages.partitions import partitions_page
from silobench.report.pages.privacy import privacy_page
from silobench.report.pages.runs import runs_page
from silobench.report.pages.statistics import statistics_page
from silobench.report.pages.vertical import vertical_page

FIRST: tuple[Callable[[Contents], Page], ...] = (
    overview_page, curves_page, partitions_page, cost_page, classes_page, privacy_page, decentralised_page,
    vertical_page, statistics_page, claims_page,
)  # fmt: skip
LAST: tuple[Callable[[Contents], Page], ...] = (runs_page,)  # after the pages of papers


def pages_of(contents: Contents) -> list[Page]:
    """Return all pages that have something to show."""
    built = [*(build(contents) for build in FIRST), *contents.more, *(build(contents) for build in LAST)]
    return [page for page in built if not page.is_empty]
