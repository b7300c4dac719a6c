"""Groups of commands whose first word may be left out."""

from typing import Any

from typer.core import TyperGroup


class FirstByDefault(TyperGroup):
    """A group that takes its first command where none is named: `advise FILE.csv` is `advise measure FILE.csv`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        is_named = first in self.commands or first in ctx.help_option_names
        return super().parse_args(ctx, args if is_named or not args else [next(iter(self.commands)), *args])
