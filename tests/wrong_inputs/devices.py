"""Devices that a machine does not have, or that nothing uses."""

from wrong_inputs.advice import ADVISE, TABLE
from wrong_inputs.case import Case, command

TINY = {"tiny.toml": 'dataset = "fcube"\nrounds = 1\n'}
_KNOWN = "device must be 'auto', 'cpu', 'cuda', 'cuda-nondeterministic' or 'mps', but 'gpu' was given"

CASES: list[Case] = [
    command("run tiny.toml --device gpu", _KNOWN, files=TINY),
    command("tune tiny.toml --device gpu", _KNOWN, files=TINY),
    command(f"{ADVISE} --try --device gpu", _KNOWN, files=TABLE),
    command(f"{ADVISE} --device cpu", "--device says where the runs of --try are trained: give --try too", files=TABLE),
    command(
        "run tiny.toml --engine vmap --set model=mlp --set solver=adam",
        "engine vmap cannot run this experiment: it has the steps of the solver sgd, but the solver is adam; use auto.",
        files=TINY,
    ),
    command(
        "run tiny.toml --engine vmap --set algorithm=moon",
        "it needs an algorithm without its own loss, gradient or trainings",
        files=TINY,
    ),
]
