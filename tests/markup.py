"""Reading pages in tests: elements, texts and links, by the standard parser."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Element:
    """An element with its attributes and children."""

    tag: str
    attributes: dict[str, str]
    children: "list[Element | str]" = field(default_factory=list)

    def each(self, tag: str) -> "Iterator[Element]":
        """Yield the elements below with a tag, in the order of the page."""
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag:
                    yield child
                yield from child.each(tag)

    def everything(self) -> "Iterator[Element]":
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.everything()

    @property
    def text(self) -> str:
        """The words inside, with single spaces."""
        return " ".join(" ".join(child if isinstance(child, str) else child.text for child in self.children).split())

    def of_class(self, name: str) -> "list[Element]":
        return [one for one in self.everything() if name in one.attributes.get("class", "").split()]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("document", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(html: str) -> Element:
    """Return a page; a tag that is not closed where it should be fails the test."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], f"not closed: {[one.tag for one in reader.open[1:]]}"
    return reader.root


def table_texts(table: Element) -> list[dict[str, str]]:
    """Return the rows of a table by column."""
    columns = [head.text for head in next(table.each("thead")).each("th")]
    rows = [
        [cell.text for cell in row.children if isinstance(cell, Element)]
        for row in next(table.each("tbody")).each("tr")
    ]
    return [dict(zip(columns, row, strict=True)) for row in rows]
