"""The formats of figures as files. Nothing here loads matplotlib."""

from silobench.errors import ConfigError, suggest

FORMS = ("pdf", "svg", "png")


def check_form(form: str) -> None:
    """Refuse a format that is not PDF, SVG or PNG."""
    if form not in FORMS:
        raise ConfigError(f"there is no format '{form}' of figures: {suggest(form, FORMS)}")
