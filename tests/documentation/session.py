"""A reader who does all that a page says, in a folder of their own, from the first block to the last."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from commands import Result, call
from documentation.blocks import ILLUSTRATIONS, ROOT, Block, blocks_of
from documentation.console import Command, commands_of
from documentation.exceptions import BLOCKS, COMMANDS, OWN_PROCESSES, Exempt
from documentation.outputs import need_alike, need_printed
from documentation.planning import installable, make_target, parsed, planned, planned_text
from documentation.processes import Processes, needs_flower

_SHELL = re.compile(r"[|<>&`]|\$\(")  # what only a shell understands
_NO_FLOWER = "Flower is not installed, so neither this nor what follows can be executed"


@dataclass
class Session:
    """One page, done in the current folder: what became of each block, and what each command printed."""

    page: str
    capsys: pytest.CaptureFixture[str]
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    results: list[tuple[str, Result]] = field(default_factory=list)
    processes: Processes = field(default_factory=Processes)
    is_cut_short: bool = False  # at the first command that needs Flower, where it is not installed

    def run(self) -> dict[Block, str]:
        """Return what was done with each block of the page."""
        blocks = blocks_of(self.page)
        for name in ("docs", "examples", "benchmarks"):
            Path(name).symlink_to(ROOT / name)
        for block in blocks:
            if block.file and self.page not in BLOCKS:
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.text, encoding="utf-8")
        try:
            return {block: self._do(block) for block in blocks}
        finally:
            self.processes.end()

    def _do(self, block: Block) -> str:
        if self.page in BLOCKS and block.language != "console":
            reason, test = BLOCKS[self.page]
            assert (ROOT / test).is_file()
            assert self.page in (ROOT / test).read_text(encoding="utf-8")
            return f"executed by {test}: {reason}"
        if block.language == "python":
            return self._execute(block)
        if block.language == "toml":
            return f"planned {planned_text(block.text)} runs"
        if block.language == "console":
            commands = commands_of(block.text)
            assert commands, f"{block}: a console block without a command ($ ...)"
            return "; ".join(self._command(block, command) for command in commands)
        assert block.language in ILLUSTRATIONS, f"{block}: nothing executes a block of '{block.language}'"
        return "shown"

    def _execute(self, block: Block) -> str:
        self.capsys.readouterr()
        file = str(Path(block.file).resolve()) if block.file else str(block)
        exec(compile(block.text, file, "exec"), self.names)
        if block.output is not None:
            need_printed(block, self.capsys.readouterr().out)
        return "executed"

    def _command(self, block: Block, command: Command) -> str:
        program, *arguments = shlex.split(command.text, comments=True)
        rules = [rule for rule in COMMANDS if fnmatch(self.page, rule.pages) and fnmatch(command.text, rule.command)]
        rule = rules[0] if rules else None
        if rule is not None:
            if rule.check != "shorten":
                return self._check(rule, arguments)
            arguments += shlex.split(rule.more)
        self.is_cut_short = self.is_cut_short or (needs_flower(command.text) and self.processes.flower is None)
        if self.is_cut_short:
            if program == "silobench":
                parsed(arguments[: arguments.index(">")] if ">" in arguments else arguments)
            return f"not executed: {_NO_FLOWER}"
        result = self._result(command.text, program, arguments)
        self.results.append((command.text, result))
        code = 2 if command.output and command.output[0].startswith("error:") else 0
        assert result.code == code, f"{block}: {command.text}\n{result.out}{result.err}"
        if rule is None:
            need_alike(block, command, result)
        return f"executed, with {rule.more}" if rule else "executed"

    def _result(self, text: str, program: str, arguments: Sequence[str]) -> Result:
        """Run a command: here or in a fork, which have imported the package, or in a shell where it needs one."""
        is_plain = not _SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", text))
        is_ours = program == "silobench" and not needs_flower(text)
        if is_plain and is_ours and self.page not in OWN_PROCESSES:
            once = arguments[0] == "run" and "--workers" not in arguments
            return call(self.capsys, *arguments, *(("--workers", "1") if once else ()))
        if is_plain and (is_ours or (program == "python" and arguments[0].endswith(".py"))):
            return self.processes.fork(program, arguments)
        return self.processes.run(text)

    def _check(self, rule: Exempt, arguments: list[str]) -> str:
        if rule.check == "plan":
            return f"planned {planned(arguments)} runs: {rule.reason}"
        if rule.check == "parse":
            parsed(arguments)
        elif rule.check == "make":
            make_target(ROOT, arguments)
        elif rule.check == "pip":
            installable(ROOT, arguments)
        elif rule.check == "test":
            assert (ROOT / rule.more).is_file()
            assert arguments[0] in (ROOT / rule.more).read_text(encoding="utf-8")
        return f"not executed: {rule.reason}"
