"""The list of all public names on docs/api.md, between two comments."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = DOCS / "api.md"
_BEGIN, _END = "<!-- names: `make api` writes this list -->\n", "<!-- end of names -->"


def renewed(page: str) -> str:
    """Return the page with the list of names as it is now."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{runpy.run_path(str(DOCS / 'api_names.py'))['listing']()}\n{_END}{after}"
