"""Tables inside a page: each is between two comments that name it, and is replaced there."""

import re
from collections.abc import Mapping

_TABLE = re.compile(r"(<!-- table: (?P<name>[\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with its tables replaced. A table without a place on the page is an error, and the reverse."""
    places = {match["name"] for match in _TABLE.finditer(page)}
    if places != set(tables):
        raise ValueError(f"the page has places for {sorted(places)}, but the tables are {sorted(tables)}.")
    return _TABLE.sub(lambda match: f"{match[1]}\n{tables[match['name']]}\n\n{match[3]}", page)
