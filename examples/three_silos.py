"""Three silos and a lead on one machine, as they would be on four: each has a folder and processes of its own.

    python examples/three_silos.py [FOLDER]

It needs Flower: pip install 'silobench[flower]'. The lead listens on 127.0.0.1 only. Everything is written into FOLDER,
default three_silos/. It ends with a report of the run, and with the same experiment on all rows in one place.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

NAMES = ("north", "south", "west")
EXPERIMENT = """\
model = "mlp"
algorithm = "fedavg"
solver = "sgd(lr=0.05, epochs=2, batch=16)"
rounds = 5
"""
OWN_THREADS = {"OMP_NUM_THREADS": "1"}  # four organisations share this machine


def silobench(*arguments: object, wait: bool = True) -> "subprocess.Popen[bytes]":
    """Run a command of silobench, and print it as its user would type it."""
    words = [str(argument) for argument in arguments]
    print("$ silobench", *words, flush=True)
    process = subprocess.Popen([sys.executable, "-m", "silobench", *words], env={**os.environ, **OWN_THREADS})
    if wait and process.wait():
        raise SystemExit(process.returncode)
    return process


def write_rows(folder: Path, place: int) -> Path:
    """Write the table of a silo: its patients are older, and its doses higher, than those of the silo before."""
    draw = np.random.default_rng(place)
    rows = 150 + 50 * place
    age, dose = draw.normal(50 + 5 * place, 12, rows).round(1), draw.gamma(2, 1 + place / 2, rows).round(2)
    ward = draw.choice(["a", "b"], rows)
    answer = np.where(age / 12 - dose + (ward == "a") + draw.normal(0, 0.7, rows) > 3, "yes", "no")
    lines = ["age,dose,ward,answer", *(f"{a},{d},{w},{y}" for a, d, w, y in zip(age, dose, ward, answer, strict=True))]
    file = folder / f"{NAMES[place]}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / name).mkdir()
    tables = [write_rows(folder / name, place) for place, name in enumerate(NAMES)]
    for name, table in zip(NAMES, tables, strict=True):  # each silo
        silobench("silo", "key", name, "--data", table, "--folder", folder / name / "private")

    lead, port = folder / "lead", free_port()  # the lead
    columns, experiment = folder / "columns.toml", folder / "experiment.toml"
    experiment.write_text(EXPERIMENT)
    silobench("silo", "columns", tables[0], "--label", "answer", "--output", columns)
    members = [word for name in NAMES for word in ("--silo", f"{name}={folder / name / 'private' / 'key.pub'}")]
    silobench("silo", "init", experiment, "--columns", columns, *members, "--host", "127.0.0.1", "--out", lead)

    silos = []
    for name in NAMES:  # each silo
        private = folder / name / "private"
        (private / "consortium").symlink_to((lead / "consortium").resolve())  # in earnest, the folder is sent
        silobench("silo", "check", private / "silo.toml", "--accept")
        silos.append(silobench("silo", "start", private / "silo.toml", "--superlink", f"127.0.0.1:{port}", wait=False))
    try:
        silobench("silo", "serve", lead, "--address", "127.0.0.1", "--port", port, "--out", folder / "runs")
    finally:
        for process in silos:
            process.terminate()
        for process in silos:
            process.wait()

    files = ", ".join(map(str, tables))
    dataset = f"dataset=silos(files=[{files}], columns={columns})"
    silobench("run", experiment, "--set", dataset, "--engine", "inline", "--out", folder / "rehearsal")
    silobench("report", folder / "runs")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "three_silos"))
