"""`Page`: a page of a site as a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from silobench.report.drawing import Section


@dataclass(frozen=True)
class Page:
    """A page: its file, its title in the navigation, and what it shows.

    `template` is a file of `templates/` that extends ``base.html``, and `content` are values for it besides the page.
    """

    file: str
    title: str
    sections: Sequence[Section] = ()
    lead: str = ""
    template: str = "page.html"
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Where the page is in a report of one file."""
        return self.file.removesuffix(".html")

    @property
    def is_empty(self) -> bool:
        return not self.sections and not self.content
