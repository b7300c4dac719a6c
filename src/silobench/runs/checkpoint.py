"""Checkpoints: the state of a run and the length of its records as one safetensors file, and back, bit for bit."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from silobench.errors import RecordError
from silobench.method.types import Server, Vector
from silobench.runs.stored import checkpoint_file, damaged_checkpoint, header_crc, read_header
from silobench.training.state import PartyMemory, State


def arrays(state: State) -> dict[str, Any]:
    """Return every tensor of a state by name, sorted by name."""
    server = state.server
    tensors = {"server/params": server.params, "server/buffers": server.buffers}
    tensors |= {f"server/extras/{name}": value for name, value in server.extras.items()}
    tensors |= {f"server/optimizer/{name}": value for name, value in server.optimizer.items()}
    for party, owners in state.memory.items():
        for owner, memory in owners.items():
            tensors |= {f"party/{party}/{owner}/{name}": value for name, value in memory.items()}
    tensors |= {f"controller/{name}": value for name, value in state.controller.items()}
    for measure, memory in state.measures.items():
        tensors |= {f"measure/{measure}/{name}": value for name, value in memory.items()}
    for owner, memory in state.extra.items():
        tensors |= {f"extra/{owner}/{name}": value for name, value in memory.items()}
    return {name: tensor.contiguous().numpy() for name, tensor in sorted(tensors.items())}


def pack(state: State, commit: Mapping[str, Any]) -> bytes:
    """Return the file of a checkpoint; `commit` is the length and the digest of the records that it counts."""
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
    return save(tensors, {"silobench": json.dumps({**header, "header_crc": header_crc(header)})})


def unpack(path: Path) -> State | None:
    """Read the state of a run directory; None where there is no checkpoint."""
    header = read_header(path)
    if header is None:
        return None
    file = checkpoint_file(path)
    try:
        with safe_open(file, "numpy") as content:
            arrays = {name: content.get_tensor(name) for name in sorted(content.keys())}
        if _crc(arrays) != header["crc"]:
            raise damaged_checkpoint(file)
        return _state(header, _grouped({name: torch.from_numpy(array) for name, array in arrays.items()}))
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:  # not as silobench writes it
        raise damaged_checkpoint(file) from error


def _state(header: Mapping[str, Any], parts: Mapping[str, Mapping[str, Vector]]) -> State:
    """Return the state of a checkpoint from its header and its tensors, grouped by owner."""
    server = parts["server"]
    memory: dict[int, PartyMemory] = {
        int(party): _grouped(tensors) for party, tensors in _grouped(parts.get("party", {})).items()
    }
    return State(
        Server(
            server["params"],
            _grouped(server).get("extras", {}),
            _grouped(server).get("optimizer", {}),
            header["round"],
            header["parties"],
            header["knobs"],
            server["buffers"],
        ),
        memory,
        header["clock"],
        header.get("spent", 0),  # older checkpoints lack it, and had no controller to use it
        parts.get("controller", {}),
        _grouped(parts.get("measure", {})),
        _grouped(parts.get("extra", {})),
    )


def _grouped(tensors: Mapping[str, Vector]) -> dict[str, dict[str, Vector]]:
    """Group tensors by their names up to the first slash; the rest of a name may have slashes too."""
    groups: dict[str, dict[str, Vector]] = {}
    for name, tensor in tensors.items():
        group, slash, rest = name.partition("/")
        if slash:
            groups.setdefault(group, {})[rest] = tensor
    return groups


def load_state(path: Path) -> State:
    """Return the last committed state of a run."""
    state = unpack(path)
    if state is None:
        raise RecordError(f"{path} has no checkpoint: it was never started, or its checkpoint was deleted.")
    return state


def _crc(arrays: Mapping[str, Any]) -> int:
    total = 0
    for name, array in arrays.items():
        total = zlib.crc32(array.tobytes(), zlib.crc32(name.encode(), total))
    return total
