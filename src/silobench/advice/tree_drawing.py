"""A decision tree as text, and as a picture in a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silobench.advice.tree import Branch, Leaf, Node
from silobench.errors import ConfigError

FORMATS = (".svg", ".png", ".pdf", ".txt")
_WIDTH, _HEIGHT = 2.3, 1.5  # inches of a leaf, and of a level


def check_format(path: Path) -> None:
    """Refuse a file whose name says no known format."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"--tree {path} has no known format: end the name in {', '.join(FORMATS)}, or write - for text."
        )


def tree_text(node: Node) -> str:
    """Return a tree as lines of text.

    >>> print(tree_text(Branch("size?", (("small", Leaf("fedavg", 0.0, 3)), ("large", Leaf("scaffold", 1.25, 4))))))
    size?
    ├─ small: fedavg (3 settings, 0.0 points below the best)
    └─ large: scaffold (4 settings, 1.2 points below the best)
    """
    return "\n".join(_lines(node))


def _lines(node: Node, first: str = "", rest: str = "") -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{first}{node.method} ({_note(node)})"
        return
    yield f"{first}{node.question}"
    for place, (answer, child) in enumerate(node.answers):
        is_last = place == len(node.answers) - 1
        below = rest + ("   " if is_last else "│  ")
        yield from _lines(child, f"{rest}{'└─' if is_last else '├─'} {answer}: ", below)


def _note(leaf: Leaf) -> str:
    if not leaf.settings:
        return leaf.reason
    return f"{leaf.settings} settings, {leaf.regret:.1f} points below the best"


# --- pictures -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    x: float
    y: float
    node: Node
    answer: str
    parent: "_Place | None"


def draw_tree(node: Node, path: Path, title: str) -> None:
    """Write a tree to a file: svg, png, pdf or txt, by its name."""
    check_format(path)
    if path.suffix.lower() == ".txt":
        path.write_text(f"{title}\n\n{tree_text(node)}\n", encoding="utf-8")
        return
    import matplotlib
    from matplotlib.figure import Figure

    places = list(_places(node))
    leaves, depth = _leaves(node), 1 + max(-place.y for place in places)
    with matplotlib.rc_context({"svg.hashsalt": "silobench", "svg.fonttype": "none"}):
        figure = Figure(figsize=(max(5.0, _WIDTH * leaves), _HEIGHT * depth + 0.6), layout="constrained")
        axes: Any = figure.add_subplot()
        axes.set_title(title, fontsize=11)
        axes.set_axis_off()
        axes.set_xlim(-0.6, leaves - 0.4)
        axes.set_ylim(0.5 - depth, 0.5)
        for place in places:
            _draw(axes, place)
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def _leaves(node: Node) -> int:
    return 1 if isinstance(node, Leaf) else sum(_leaves(child) for _, child in node.answers)


def _places(
    node: Node, left: float = 0.0, level: int = 0, answer: str = "", parent: _Place | None = None
) -> Iterator[_Place]:
    """Yield every node with its place: leaves side by side, and a branch in the middle above its answers."""
    width = _leaves(node)
    place = _Place(left + (width - 1) / 2, -float(level), node, answer, parent)
    yield place
    for text, child in node.answers if isinstance(node, Branch) else ():
        yield from _places(child, left, level + 1, text, place)
        left += _leaves(child)


def _draw(axes: Any, place: _Place) -> None:
    is_leaf = isinstance(place.node, Leaf)
    text = (
        f"{place.node.method}\n{_wrapped(_note(place.node))}" if isinstance(place.node, Leaf) else place.node.question
    )
    if place.parent is not None:
        axes.plot([place.parent.x, place.x], [place.parent.y, place.y], color="0.6", linewidth=1, zorder=1)
        middle = (place.parent.x + place.x) / 2, (place.parent.y + place.y) / 2
        axes.text(*middle, place.answer, ha="center", va="center", fontsize=8, color="0.25", backgroundcolor="white")
    box = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f1ea" if is_leaf else "#eef0f6", "edgecolor": "0.5"}
    axes.text(place.x, place.y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=2)


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, 24))
