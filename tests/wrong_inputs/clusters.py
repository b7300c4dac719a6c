"""Clusters that are not there, and options for them that cannot be."""

from wrong_inputs.case import Case
from wrong_inputs.lines import TINY, one

RUN = ("run", "tiny.toml")

CASES: list[Case] = [
    one(*RUN, "--ray-address", "auto", expected="--ray-address is for the engine ray", files=TINY),
    one(*RUN, "--engine", "pool", "--cpus-per-party", "2", expected="but the engine is pool", files=TINY),
    one(*RUN, "--engine", "ray", "--ray-address", "my-head", expected="is auto, local or HOST:PORT", files=TINY),
    one(*RUN, "--engine", "ray", "--ray-address", "127.0.0.1:99999", expected="or HOST:PORT", files=TINY),
    one(*RUN, "--engine", "ray", "--ray-address", "127.0.0.1:1", expected="no Ray cluster answers at", files=TINY),
    one(*RUN, "--engine", "ray", "--cpus-per-party", "0", expected="cpus must be greater than 0", files=TINY),
    one(*RUN, "--engine", "ray", "--gpus-per-party", "-1", expected="gpus must be greater than or equal", files=TINY),
]
