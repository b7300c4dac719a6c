"""The checkpoint of a run: a state and what it commits as one safetensors file, and back, bit for bit."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.numpy import save

from silobench.errors import RecordError
from silobench.method.types import Server, Vector
from silobench.runs.stored import checkpoint_file, damaged_checkpoint, read_header
from silobench.training.state import PartyMemory, State


def arrays(state: State) -> dict[str, Any]:
    """Every tensor of a state by name, in the order of names."""
    server = state.server
    tensors = {"server/params": server.params, "server/buffers": server.buffers}
    tensors |= {f"server/extras/{name}": value for name, value in server.extras.items()}
    tensors |= {f"server/optimizer/{name}": value for name, value in server.optimizer.items()}
    for party, owners in state.memory.items():
        for owner, kept in owners.items():
            tensors |= {f"party/{party}/{owner}/{name}": value for name, value in kept.items()}
    tensors |= {f"controller/{name}": value for name, value in state.controller.items()}
    for measure, kept in state.measures.items():
        tensors |= {f"measure/{measure}/{name}": value for name, value in kept.items()}
    return {name: tensor.contiguous().numpy() for name, tensor in sorted(tensors.items())}


def pack(state: State, commit: Mapping[str, Any]) -> bytes:
    tensors = arrays(state)
    header = {
        **commit,
        "round": state.server.round,
        "parties": state.server.parties,
        "knobs": dict(state.server.knobs),
        "clock": state.clock,
        "spent": state.spent,
        "crc": _crc(tensors),
    }
    return save(tensors, {"silobench": json.dumps(header)})


def unpack(path: Path) -> State | None:
    header = read_header(path)
    if header is None:
        return None
    file = checkpoint_file(path)
    with safe_open(file, "numpy") as content:
        found = {name: content.get_tensor(name) for name in sorted(content.keys())}
    if _crc(found) != header["crc"]:
        raise damaged_checkpoint(file)
    server: dict[str, dict[str, Vector]] = {"extras": {}, "optimizer": {}}
    memory: dict[int, dict[str, dict[str, Vector]]] = {}
    measures: dict[str, dict[str, Vector]] = {}
    controller: dict[str, Vector] = {}
    for name, array in found.items():
        place, _, rest = name.partition("/")
        if place == "server" and "/" in rest:
            kind, key = rest.split("/", 1)
            server[kind][key] = torch.from_numpy(array)
        elif place == "party":
            party, owner, key = rest.split("/", 2)  # a name may have slashes of its own
            memory.setdefault(int(party), {}).setdefault(owner, {})[key] = torch.from_numpy(array)
        elif place == "controller":
            controller[rest] = torch.from_numpy(array)
        elif place == "measure":
            measure, key = rest.split("/", 1)
            measures.setdefault(measure, {})[key] = torch.from_numpy(array)
    return State(
        Server(
            torch.from_numpy(found["server/params"]),
            server["extras"],
            server["optimizer"],
            header["round"],
            header["parties"],
            header["knobs"],
            torch.from_numpy(found["server/buffers"]),
        ),
        dict[int, PartyMemory](memory),
        header["clock"],
        header.get("spent", 0),  # older ones do not say, and had no controller to ask
        controller,
        measures,
    )


def load_state(path: Path) -> State:
    """Return the last committed state of a run."""
    state = unpack(path)
    if state is None:
        raise RecordError(f"{path} has no checkpoint: it was never begun, or its checkpoint was removed.")
    return state


def _crc(arrays: Mapping[str, Any]) -> int:
    total = 0
    for name, array in arrays.items():
        total = zlib.crc32(array.tobytes(), zlib.crc32(name.encode(), total))
    return total
