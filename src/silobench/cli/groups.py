"""Groups of commands whose first word may be left out."""

import difflib
import re
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from silobench.cli.usage import UsageError
from silobench.errors import SilobenchError


class FirstByDefault(TyperGroup):
    """A group that takes its first command where none is named: `advise FILE.csv` is `advise measure FILE.csv`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        is_named = first in self.commands or first in ctx.help_option_names
        ctx.meta[__name__] = "" if is_named else first
        return super().parse_args(ctx, args if is_named or not args else [next(iter(self.commands)), *args])

    def invoke(self, ctx: Any) -> Any:
        """Run the command. If it fails and its first word is nearly the name of another command, name that one."""
        try:
            return super().invoke(ctx)
        except (SilobenchError, UsageError) as error:
            first = ctx.meta[__name__]
            is_word = re.fullmatch(r"[a-z]+", first) and not Path(first).exists()
            if is_word and difflib.get_close_matches(first, self.commands, n=1, cutoff=0.75):
                raise UsageError(f"No such command {first!r}.", ctx) from error
            raise
