"""Disturbances from outside: a full disk, lost permissions, jumping clocks, other commands, signals and closed pipes.

Every disturbance hits the real command in a process of its own. Afterwards the same command, undisturbed, must end with
the bits of a run that was never disturbed.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from commands import PATIENCE
from gauntlet.outcome import Options, Outcome, Verdict
from gauntlet.results import bits_of
from silobench.runs.stored import run_paths

Process: TypeAlias = "subprocess.Popen[str]"
# A shell's background jobs ignore Ctrl-C, and those of nohup the end of the terminal; a user's command does not.
_LISTEN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
_MAIN = "from silobench.cli import main; main()"
_SHIFT = """
import time
true_time, start = time.time, time.monotonic()
time.time = lambda: true_time() + (0 if time.monotonic() - start < 1 else {seconds})
"""
_YEARS = 10 * 365 * 86400
_LIMIT = 9000  # bytes: a few rounds


def experiment(rounds: int = 400, algorithms: Sequence[str] = ("fedavg", "scaffold")) -> str:
    """Return an experiment of rounds that take milliseconds, and of enough of them to be disturbed before the last."""
    names = ", ".join(f'"{name}"' for name in algorithms)
    lines = ['dataset = "fcube"', 'partition = "octants"', 'solver = "sgd(epochs=1)"']
    return "\n".join([*lines, f"algorithm = [{names}]", f"rounds = {rounds}", ""])


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def is_refusal(self) -> bool:
        """Whether it said in one sentence what is wrong."""
        return self.code == 2 and "error: " in self.err and "Traceback" not in self.err


@dataclass(frozen=True)
class Scene:
    """A folder with an experiment, and the bits of its runs without a disturbance."""

    folder: Path
    expected: Mapping[str, Any]

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def start(self, *arguments: str, code: str = "", before: Sequence[str] = (), **options: Any) -> Process:
        """Start a command in a session of its own; `code` runs before the command, `before` is a program around it."""
        command = [*before, sys.executable, "-c", f"{_LISTEN}\n{code}\n{_MAIN}", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        return subprocess.Popen(command, cwd=self.folder, **{**pipes, **options})

    def run(self, workers: int = 1, file: str = "mine.toml", **options: Any) -> Process:
        """Start the experiment."""
        return self.start("run", file, "--out", "runs", "--workers", str(workers), **options)

    def interrupted(self, workers: int = 1, **options: Any) -> Process:
        """Start the experiment and return it once a few rounds are on disk."""
        process = self.run(workers, **options)
        while process.poll() is None and not _has_rounds(self.runs):
            time.sleep(0.01)
        return process

    def resumed(self, disturbed: Ended | None = None) -> tuple[Verdict, str]:
        """Run the experiment again, undisturbed, and judge it; `disturbed` is what ended before."""
        if disturbed and "Traceback" in disturbed.err:
            return "lost", f"a traceback: {disturbed.err[-300:]}"
        last = ended(self.run())
        if last.code:
            return "lost", f"the same command ended with {last.code}: {last.err[-300:]}"
        if {path.name: bits_of(path) for path in run_paths(self.runs)} != self.expected:
            return "lost", "the runs have other bits"
        refused = disturbed is not None and disturbed.is_refusal
        return ("refused" if refused else "survived"), (disturbed.err.strip()[-160:] if disturbed and refused else "")


def ended(process: Process) -> Ended:
    """Wait for a command."""
    out, err = process.communicate(timeout=PATIENCE)
    return Ended(process.returncode, out or "", err or "")


def _has_rounds(runs: Path, least: int = 3) -> bool:
    return sum(file.read_bytes().count(b"\n") for file in runs.glob("*/rounds.jsonl")) >= least


def remaining(session: int, patience: float = 10.0) -> list[int]:
    """Return the processes of a session that are still there after some seconds."""
    until, alive = time.monotonic() + patience, [session]
    while alive and time.monotonic() < until:
        alive = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _session(path) == session]
        time.sleep(0.05)
    return alive


def _session(process: Path) -> int:
    try:
        state, _, _, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else int(session)


# --- disk and permissions ----------------------------------------------------------------------------


def full_disk(scene: Scene) -> tuple[Verdict, str]:
    """Let no file grow beyond a few rounds, so that a write ends in the middle of a line."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LIMIT, _LIMIT))

    disturbed = ended(scene.run(preexec_fn=limit))
    if not disturbed.is_refusal:
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    return scene.resumed(disturbed)


def small_file_system(scene: Scene) -> tuple[Verdict, str]:
    """Fill a file system of 64 kB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(scene.runs)]
    scene.runs.mkdir()
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise ImpossibleError("no file system can be mounted")
    try:
        disturbed = ended(scene.run())
        stored = Path(shutil.copytree(scene.runs, scene.folder / "copy"))
    finally:
        subprocess.run(["umount", str(scene.runs)], check=True)
    shutil.copytree(stored, scene.runs, dirs_exist_ok=True)
    if not disturbed.is_refusal:
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    return scene.resumed(disturbed)


def lost_permission(scene: Scene) -> tuple[Verdict, str]:
    """Take the right to write away during a run."""
    process = scene.interrupted(before=_powerless())
    for folder in scene.runs.glob("*/checkpoint"):
        folder.chmod(0o500)
    disturbed = ended(process)
    for folder in scene.runs.glob("*/checkpoint"):
        folder.chmod(0o700)
    if not disturbed.is_refusal:
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    return scene.resumed(disturbed)


def read_only_results(scene: Scene) -> tuple[Verdict, str]:
    """Show results that may only be read; an experiment that would write there is refused."""
    ended(scene.run())
    folders = [scene.runs, *(path for path in scene.runs.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    shown = ended(scene.start("show", "runs", before=_powerless()))
    other = ended(scene.run(file="other.toml", before=_powerless()))
    for folder in folders:
        folder.chmod(0o700)
    if shown.code or not other.is_refusal:
        return "lost", f"show ended with {shown.code}, run with {other.code}: {shown.err[-200:]} {other.err[-200:]}"
    return scene.resumed(other)


def _powerless() -> list[str]:
    """Return a program that makes the rights of files hold for root too."""
    if os.geteuid():
        return []
    if not shutil.which("setpriv"):
        raise ImpossibleError("root may write anywhere, and setpriv is not installed")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def removed_directory(scene: Scene) -> tuple[Verdict, str]:
    """Delete the results directory during a run."""
    process = scene.interrupted()
    shutil.rmtree(scene.runs.rename(scene.folder / "removed"))  # at once: the command replaces files all the time
    disturbed = ended(process)
    if not disturbed.is_refusal:
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    shutil.rmtree(scene.runs, ignore_errors=True)
    return scene.resumed(disturbed)


def no_home(scene: Scene) -> tuple[Verdict, str]:
    """Run as a user without an entry and without a home directory, as some clusters do."""
    if os.geteuid() or not shutil.which("setpriv"):
        raise ImpossibleError("only root can become another user, with setpriv")
    scene.folder.parent.chmod(0o711)  # nobody else may enter a temporary folder
    scene.folder.chmod(0o777)
    user = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "USER", "LOGNAME")}
    disturbed = ended(scene.run(before=user, env=environment))
    if (scene.folder / "~").exists():
        return "lost", "it made a folder called ~"
    if disturbed.code:
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    shutil.rmtree(scene.runs)  # a processor without a kernel cache may choose another engine
    return scene.resumed(disturbed)


# --- clocks ------------------------------------------------------------------------------------------


def clock_forward(scene: Scene) -> tuple[Verdict, str]:
    """Set the clock ten years forward, one second after the start."""
    return scene.resumed(_clock(scene, _YEARS))


def clock_back(scene: Scene) -> tuple[Verdict, str]:
    """Set the clock ten years back, one second after the start."""
    return scene.resumed(_clock(scene, -_YEARS))


def _clock(scene: Scene, seconds: int) -> Ended:
    process = scene.interrupted(code=_SHIFT.format(seconds=seconds))
    os.killpg(process.pid, signal.SIGINT)
    return ended(process)


# --- other commands ----------------------------------------------------------------------------------


def same_experiment_twice(scene: Scene) -> tuple[Verdict, str]:
    """Start the same experiment twice at once."""
    one, two = scene.run(), scene.run()
    outcomes = [ended(one), ended(two)]
    for each in outcomes:
        if each.code and not (each.is_refusal and "another process" in each.err):
            return "lost", f"one of them ended with {each.code}: {each.err[-300:]}"
    return scene.resumed(next((each for each in outcomes if each.code), None))


def other_experiment_beside(scene: Scene) -> tuple[Verdict, str]:
    """Start another experiment in the same directory."""
    one, two = scene.run(), scene.run(file="other.toml")
    codes = [ended(each).code for each in (one, two)]
    if any(codes):
        return "lost", f"they ended with {codes}"
    for path in run_paths(scene.runs):
        if path.name not in scene.expected:
            shutil.rmtree(path)
    return scene.resumed()


def readers_beside(scene: Scene) -> tuple[Verdict, str]:
    """Show and report a directory again and again while it is written, two reports at once."""
    process = scene.interrupted()
    for _ in range(2):
        readers = [scene.start(*line) for line in (("show", "runs"), ("report", "runs"), ("report", "runs"))]
        for each in map(ended, readers):
            if each.code and not (each.is_refusal and "is finished" in each.err):
                return "lost", f"a reader ended with {each.code}: {each.err[-300:]}"
    disturbed = ended(process)
    return scene.resumed(disturbed) if not disturbed.code else ("lost", f"the run ended with {disturbed.err[-300:]}")


# --- signals and pipes -------------------------------------------------------------------------------


def ctrl_c(scene: Scene) -> tuple[Verdict, str]:
    """Press Ctrl-C in a terminal: every process of the command gets it."""
    return _signalled(scene, signal.SIGINT, (130,))


def terminated(scene: Scene) -> tuple[Verdict, str]:
    """Send SIGTERM to the command alone, as a scheduler does."""
    return _signalled(scene, signal.SIGTERM, (143, -signal.SIGTERM), to_group=False)


def hung_up(scene: Scene) -> tuple[Verdict, str]:
    """Close the terminal."""
    return _signalled(scene, signal.SIGHUP, (129, -signal.SIGHUP))


def _signalled(
    scene: Scene, number: signal.Signals, codes: Sequence[int], to_group: bool = True
) -> tuple[Verdict, str]:
    process = scene.interrupted(workers=2)
    (os.killpg if to_group else os.kill)(process.pid, number)
    disturbed = ended(process)
    if disturbed.code not in codes:
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    if left := remaining(process.pid):
        for each in left:
            os.kill(each, signal.SIGKILL)
        return "lost", f"{len(left)} processes are left"
    return scene.resumed(disturbed)


def closed_stdout(scene: Scene) -> tuple[Verdict, str]:
    """Run the experiment into a pipe that nobody reads, as `silobench run | head -0` does."""
    reader, writer = os.pipe()
    process = scene.run(stdout=writer)
    os.close(reader)
    os.close(writer)
    disturbed = ended(process)
    if disturbed.code not in (0, 1) or "Error" in disturbed.err:  # 1 is usual where nobody reads the output
        return "lost", f"it ended with {disturbed.code}: {disturbed.err[-300:]}"
    return scene.resumed(disturbed)


class ImpossibleError(Exception):
    """A disturbance that cannot be made on this machine; the message is the reason."""


DISTURBANCES: Mapping[str, Callable[[Scene], tuple[Verdict, str]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        full_disk, small_file_system, lost_permission, read_only_results, removed_directory, no_home, clock_forward,
        clock_back, same_experiment_twice, other_experiment_beside, readers_beside, ctrl_c, terminated, hung_up,
        closed_stdout,
    )
}  # fmt: skip


def disturbed_runs(options: Options) -> Iterator[Outcome]:
    """Try every disturbance on a folder of its own."""
    whole = make_scene(options.folder / "undisturbed", {})
    expected: dict[str, Any] = {}
    for name, disturb in DISTURBANCES.items():
        if options.includes("disturbance", name):
            if not expected:
                ended(whole.run())
                expected = {path.name: bits_of(path) for path in run_paths(whole.runs)}
            yield from tried(name, disturb, make_scene(options.folder / name.replace(" ", "-"), expected))


def make_scene(folder: Path, expected: Mapping[str, Any]) -> Scene:
    """Write the experiment, and another one, into a new folder."""
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(experiment())
    (folder / "other.toml").write_text(experiment(5, ["fednova"]))
    return Scene(folder, expected)


def tried(name: str, disturb: Callable[[Scene], tuple[Verdict, str]], scene: Scene) -> Iterator[Outcome]:
    """Yield the outcome of a disturbance; nothing, but a line, where it cannot be made."""
    try:
        result, detail = disturb(scene)
    except ImpossibleError as reason:
        print(f"skipped   disturbance / {name}: {reason}", file=sys.stderr)
        return
    yield Outcome("disturbance", name, result, detail)
