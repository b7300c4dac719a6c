"""What silos agreed on, in lines for the people of a silo."""

from silobench.data.agreed.columns import Columns
from silobench.data.agreed.summary import LEAST_ROWS
from silobench.data.encoder import CategoryColumn, DateColumn, FeatureColumn, NumberColumn
from silobench.errors import listed

_SHOWN = 5  # names that a line lists


def describe(columns: Columns) -> list[str]:
    """Return lines about the rows that a silo needs, and about the numbers that it sends before training."""
    label = columns.label
    unit = f" in {label.unit}" if label.unit else ""
    target = (
        f"one of {len(label.classes)} classes ({listed(label.classes, _SHOWN)})" if label.classes else f"a number{unit}"
    )
    lines = [f"label {label.name}: {target}"]
    if columns.pictures:
        pictures = columns.pictures
        colour = "in colour" if pictures.colour == "rgb" else "in grey"
        lines.append(f"pictures: {pictures.size} x {pictures.size} pixels, {colour}")
    lines += [f"column {part.name}: {_kind(part)}" for part in columns.parts]
    rows = "rows of each class" if label.classes else "rows"
    lines.append(f"{100 * columns.test:.3g}% of the {rows} are held out for tests, inside the silo")
    return [*lines, *leaving(columns)]


def leaving(columns: Columns) -> list[str]:
    """Return lines about the numbers that a silo sends before training."""
    names = columns.summed_features
    target = () if columns.label.classes else (columns.label.name,)
    if not names and not target:
        return ["before training, the silo sends the number of its training rows, and no sums"]
    needs_squares = columns.scale == "standard" or target
    sums = "sums and sums of squared differences from the mean" if needs_squares else "sums"
    return [
        "before training, the silo sends the number of its training rows, and counts of known cells, "
        f"{sums} of {listed([*names, *target], _SHOWN)}",
        f"a feature with fewer than {LEAST_ROWS} known cells is sent as empty; these sums have no noise, so no epsilon "
        "covers them",
    ]


def _kind(part: FeatureColumn) -> str:
    if isinstance(part, NumberColumn):
        return "a number" if part.decimal == "." else "a number with a decimal comma"
    if isinstance(part, DateColumn):
        return "a date, as days, month and weekday"
    if isinstance(part, CategoryColumn):
        return f"one of {len(part.categories)} categories ({listed(part.categories, _SHOWN)})"
    what = "a category" if part.kind == "hash" else "a text by its words"
    return f"{what}, hashed into {part.width} features"
