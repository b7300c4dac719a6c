"""Runs between three silos by Flower on this machine, in a process of the environment that has Flower.

`python deployment.py FOLDER` starts a SuperLink with TLS and node authentication, and three SuperNodes, each with a
table of its own. It writes what happened to FOLDER/facts.json, and run directories beside it.
`tests/silos/flower/test_deployment.py` judges.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from consortia import EXPERIMENT, NAMES, toml, write_tables
from silobench.data.agreed import columns_of
from silobench.silos import keys
from silobench.silos.consortium import Consortium, Waits
from silobench.silos.flower import certificates, folders
from silobench.silos.flower.app_files import write_app
from silobench.silos.flower.desk import answer_letters, opened_desk
from silobench.silos.flower.environment import flower_environment
from silobench.silos.flower.folders import Folders
from silobench.silos.flower.serving import Link, Office, superlink
from silobench.silos.flower.starting import supernode_command
from silobench.silos.flower.supervision import supervised
from silobench.silos.letters import Letter
from silobench.silos.server import plan_of
from silobench.silos.silo import Silo
from silobench.silos.silo_file import accept, write_silo_file

# What crosses in all ways at once: silos that remember, two parts of a message, and sums that take several letters.
# tests/silos has each by itself without Flower, and docs/first-silos.md plain messages with it.
METHODS: dict[str, dict[str, Any]] = {
    "masked-scaffold": {
        "algorithm": "scaffold",
        "transforms": "rand_k(fraction=0.5) | secure_sum(protocol=pairwise, range=100)",
    },
}
ROUNDS, REJOINING_ROUNDS = 3, 6
HELD = 3  # from this round on, counted from 0, the others wait until the silo that was killed is back
REJOINING = "rejoining"
WAITS = Waits(join=300.0, round=300.0, grace=300.0)
SHORT_GRACE = Waits(join=300.0, round=300.0, grace=5.0)


@cache
def flower_python() -> str | None:
    """Return a Python that has Flower: the one that a variable names, that of the project, or this one."""
    named = os.environ.get("SILOBENCH_FLOWER_PYTHON")
    for python in (named, str(Path(__file__).parents[1] / ".venv" / "flower" / "bin" / "python"), sys.executable):
        if python and Path(python).exists():
            probe = [python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('flwr') is None)"]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return python
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Relay:
    """A TCP relay that records all bytes of both directions, as somebody on the wire would."""

    target: int
    recorded: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            near, _ = self._socket.accept()
            far = socket.create_connection(("127.0.0.1", self.target))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while content := source.recv(1 << 16):
                self.recorded += content
                sink.sendall(content)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()


@dataclass
class Stage:
    """Three silos with their keys and tables, and the consortia that they accept."""

    root: Path
    lines: dict[str, str] = field(default_factory=dict)  # public keys
    ids: dict[str, str] = field(default_factory=dict)  # of the runs of consortia
    silos: dict[str, dict[str, Silo]] = field(default_factory=dict)  # silo -> digest -> Silo
    crossed: bytearray = field(default_factory=bytearray)  # letters and answers at the desks, without TLS
    lock: Any = field(default_factory=threading.Lock)  # one silo at a time: they share the threads of torch
    may_train: Callable[[int], bool] = lambda number: True  # whether a silo may train in a round now

    def prepare(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        write_tables(self.root)
        self.lines = {name: keys.new_key(self.root / name / "key") for name in NAMES}
        self.columns = columns_of(str(self.root / "north.csv"), "answer").text()
        (self.root / "columns.toml").write_text(self.columns)

    def found(self, name: str, choices: Mapping[str, Any], waits: Waits = WAITS) -> Folders:
        """Write a consortium that all three silos accept."""
        stated = toml({**EXPERIMENT, "rounds": ROUNDS, **choices})
        root = self.root / f"lead-{name}"
        options: dict[str, Any] = {"engine": "inline", "waits": waits, "quorum": 2}
        consortium = folders.write_folders(root, name, self.lines, stated, self.columns, ["127.0.0.1"], **options)
        for silo in NAMES:
            self._accept(silo, name, consortium)
        return Folders(root)

    def silo_file(self, silo: str, consortium: str) -> Path:
        return self.root / silo / f"{consortium}.toml"

    def _accept(self, silo: str, name: str, consortium: Consortium) -> None:
        path = self.silo_file(silo, name)
        write_silo_file(path, silo, str(self.root / f"{silo}.csv"), consortium.folder.resolve(), Path("key"))
        path.write_text(path.read_text().replace('"state"', f'"state-{name}"'))  # limits are those of a folder
        accept(path, consortium.digest)
        self.silos.setdefault(silo, {})[consortium.digest] = Silo.open(path)
        self.ids[name] = plan_of(consortium).id

    def answer(self, silo: str, content: bytes) -> bytes:
        letter = Letter.of(content)
        limit = time.monotonic() + WAITS.round / 2
        while letter.kind == "train" and not self.may_train(letter.round) and time.monotonic() < limit:
            time.sleep(0.2)
        with self.lock:
            answer = self.silos[silo][letter.consortium].answer(content)
            self.crossed += content + answer
        return answer

    @contextmanager
    def node(self, silo: str, port: int, authority: Path) -> Iterator[None]:
        """Run a desk and a SuperNode of a silo."""
        with opened_desk() as (desk, listener):
            answer = (listener, lambda content: self.answer(silo, content))
            threading.Thread(target=answer_letters, args=answer, daemon=True).start()
            command = supernode_command(f"127.0.0.1:{port}", self.root / silo / "key", authority, desk)
            log = self.root / silo / "supernode.log"
            with supervised(silo, command, flower_environment(self.root / silo / "flower"), log):
                yield


def failed_node(stage: Stage, port: int, name: str, key: Path, authority: Path) -> "subprocess.Popen[bytes]":
    """Start a SuperNode that should not get in; it gives up soon."""
    command = supernode_command(f"127.0.0.1:{port}", key, authority, stage.root)
    place = command.index("--max-wait-time") + 1
    command[place] = "3"
    output = (stage.root / f"{name}.log").open("wb")
    return subprocess.Popen(command, env=flower_environment(stage.root / name), stdout=output, stderr=output)


def foreign_app(stage: Stage, link: Link) -> dict[str, Any]:
    """Start an app of somebody else, whose code at a silo would write a file."""
    folder, trace, answers = stage.root / "foreign", stage.root / "executed", stage.root / "foreign.txt"
    folder.mkdir()
    write_app(folder)
    with (folder / "client_app.py").open("a") as file:
        file.write(f"\nopen({str(trace)!r}, 'w').write('executed')\n")
    (folder / "server_app.py").write_text(FOREIGN_SERVER.format(str(answers)))
    link.start(folder)
    log = stage.root / "south" / "supernode.log"
    wait_until(answers.exists)
    return {"executed": trace.exists(), "refused": "refused the app" in log.read_text(), "answers": answers.read_text()}


FOREIGN_SERVER = """
import pathlib

from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    from silobench.silos.flower.post import FlowerPost

    post = FlowerPost(grid, 0.0)
    answers = list(post.ask(dict.fromkeys(post.silos(), b"letter"), 5.0, lambda answered: False))
    pathlib.Path({!r}).write_text(str(len(answers)))
"""


def rejoined(stage: Stage, link: Link, place: Folders, port: int) -> dict[str, Any]:
    """Run a consortium in which the process of a silo is killed after the first round, and started again."""
    command = [sys.executable, "-m", "silobench", "silo", "start", str(stage.silo_file("west", REJOINING))]
    command += ["--superlink", f"127.0.0.1:{port}"]
    nodes, lines = (stage.root / "west" / name for name in (f"state-{REJOINING}/supernode.log", "start.log"))
    output = lines.open("ab")
    for silo_here in stage.silos["west"].values():
        silo_here.close()  # one process at a time has the folder of a silo

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def is_connected() -> bool:
        return nodes.exists() and "SuperNode ID" in nodes.read_text()

    def may_train(number: int) -> bool:
        if number == 0:
            return "round 1: train" in lines.read_text()
        return number < HELD or is_connected()

    facts: dict[str, Any] = {"news": []}
    silo = start()
    stage.may_train = may_train
    try:
        wait_until(is_connected)
        for line in link.run(place.shared, stage.root / "runs"):
            facts["news"].append(line)
            if line.startswith("round 1:"):
                nodes.unlink()
                os.killpg(silo.pid, signal.SIGKILL)  # with its SuperNode, as a power cut does
                facts["killed"] = silo.wait()
                silo = start()
    finally:
        silo.terminate()
        facts["code"] = silo.wait()
    return facts


def wait_until(condition: Callable[[], bool], seconds: float = 300) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError(f"waited {seconds:g} seconds in vain")
        time.sleep(0.2)


def main(root: Path) -> None:
    stage = Stage(root)
    stage.prepare()
    places = {name: stage.found(name, choices) for name, choices in METHODS.items()}
    choices = {"rounds": REJOINING_ROUNDS, "eval_every": REJOINING_ROUNDS}  # a test takes a time of grace
    rejoining = stage.found(REJOINING, choices, SHORT_GRACE)
    other = stage.found("other", {})
    first, facts = (
        rejoining,
        dict[str, Any](ids=stage.ids),
    )  # a silo's own process knows the certificate of its consortium
    authority = first.shared / certificates.AUTHORITY
    port = free_port()
    with superlink(Office(first.shared, first.private, "127.0.0.1", port)) as link, ExitStack() as nodes:
        for line in stage.lines.values():
            link.register(line)
        relay = Relay(port)
        keys.new_key(root / "stranger")
        refused = {
            "unregistered": failed_node(stage, port, "unregistered", root / "stranger", authority),
            "certificate": failed_node(
                stage, port, "certificate", root / "west" / "key", other.shared / certificates.AUTHORITY
            ),
        }
        for silo in ("north", "south"):
            nodes.enter_context(stage.node(silo, relay.port if silo == "north" else port, authority))
        with stage.node("west", port, authority):
            facts["news"] = {name: list(link.run(place.shared, root / "runs")) for name, place in places.items()}
        facts[REJOINING] = rejoined(stage, link, rejoining, port)
        facts["exit"] = {name: process.wait(120) for name, process in refused.items()}
        facts["foreign"] = foreign_app(stage, link)
    (root / "wire.bin").write_bytes(relay.recorded)
    (root / "desks.bin").write_bytes(stage.crossed)
    (root / "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]).resolve())
