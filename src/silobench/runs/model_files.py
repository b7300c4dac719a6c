"""Trained networks as files of other tools: torch, safetensors and ONNX."""

import io
import json
import logging
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from silobench.atomic import replace_atomically
from silobench.errors import ConfigError, RecordError
from silobench.runs.trained_model import TrainedModel
from silobench.safety.replacing import head_of, need_own
from silobench.tasks.objectives.regression import Regression


def write_model(model: TrainedModel, form: str, path: Path) -> tuple[str, ...]:
    """Write a trained network to a file; return lines of Python that load it and use it for `rows`.

    Only a model in this format is replaced.
    """
    _check_columns(model, form)
    need_own(path, _RECOGNISED[form], f"a model in the format {form}")
    try:
        replace_atomically(path, FORMATS[form](model))
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror}): choose another --out.") from error
    return _usage(model, form, path)


def _check_columns(model: TrainedModel, form: str) -> None:
    """Refuse a model of parties that hold columns in a format that cannot state it."""
    if model.sizes is not None:
        return
    if model.unwritable:
        place = model.run.path if model.run else "this run"
        raise ConfigError(f"the model of {place} cannot be written, because {model.unwritable}: use {_instead(model)}.")
    if form != "onnx":
        raise ConfigError(
            f"the network {model.spec} reads columns of parties, and a file of weights does not state which: use "
            "--format onnx."
        )


def _instead(model: TrainedModel) -> str:
    """Return what works for a model that ONNX cannot express."""
    return "--format torch" if model.sizes is not None else "`silobench predict`"


def _tensors(model: TrainedModel) -> dict[str, Tensor]:
    """Return the state of the network, each tensor in memory of its own: the network has views of one vector."""
    return {name: tensor.detach().clone().contiguous() for name, tensor in model.network.module.state_dict().items()}


def _torch(model: TrainedModel) -> bytes:
    content = io.BytesIO()
    torch.save(_tensors(model), content)
    return content.getvalue()


def _safetensors(model: TrainedModel) -> bytes:
    from safetensors.torch import save

    return save(_tensors(model), {"model": model.spec})


def _onnx(model: TrainedModel) -> bytes:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError("ONNX needs more packages: install them with pip install 'silobench[onnx]'.") from error
    rows = _example(model)
    try:
        with _silence(), torch.no_grad():
            program = torch.onnx.export(
                _Answers(model).eval(),
                (rows,),
                input_names=["rows"],
                output_names=["outputs"],
                dynamic_shapes={"rows": {0: torch.export.Dim("n")}},
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            content = program.model_proto
    except Exception as error:
        cause = error.__cause__ or error
        first = (str(cause).strip().splitlines() or [""])[0]
        raise ConfigError(
            f"the network {model.spec} cannot be written as ONNX ({type(cause).__name__}: {first}): "
            f"use {_instead(model)}."
        ) from error

    if content.graph.input[0].type.tensor_type.shape.dim[0].HasField("dim_value"):
        raise ConfigError(
            f"the network {model.spec} would answer {len(rows)} rows at a time as ONNX, because its forward fixes "
            f"the number of rows: use x.shape[0] in place of len(x) in it, or {_instead(model)}."
        )
    return bytes(content.SerializeToString())


@contextmanager
def _silence() -> Iterator[None]:
    """Leave out what torch's exporter prints, logs and warns of."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(nowhere), redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class _Answers(nn.Module):
    """The network as others use it: a numeric target is answered in its own units."""

    def __init__(self, model: TrainedModel):
        super().__init__()
        self.module, objective = model.network.module, model.objective
        self.reads_words = model.rows.vocabulary > 0  # ONNX's embeddings need one type of integers
        self.units = (objective.mean, objective.scale) if isinstance(objective, Regression) else None

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.module(rows.long() if self.reads_words else rows)
        return outputs if self.units is None else outputs * self.units[1] + self.units[0]


def _example(model: TrainedModel) -> Tensor:
    """Return rows of zeros as the network reads them."""
    rows = np.zeros((2, *model.rows.shape), model.rows.dtype if model.rows.vocabulary else np.float32)
    return torch.from_numpy(rows)


_HEAD = 1 << 24  # bytes of a safetensors file that have its header; real ones have some thousands
FORMATS: dict[str, Callable[[TrainedModel], bytes]] = {"torch": _torch, "safetensors": _safetensors, "onnx": _onnx}


def _is_torch(path: Path) -> bool:
    """Whether a file is an archive of torch.save. Documents of other programs are archives, too."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return False


def _is_safetensors(path: Path) -> bool:
    """Whether a file has the header of `_safetensors`. Checkpoints of runs have another one."""
    head = head_of(path, 8 + _HEAD)
    size = int.from_bytes(head[:8], "little")
    try:
        header = json.loads(head[8 : 8 + size])
        return "model" in header["__metadata__"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _is_onnx(path: Path) -> bool:
    """Whether a file begins as torch writes ONNX: the version of the format, and its own name as the producer."""
    return re.match(rb"\x08[\x01-\x7f]\x12\x07pytorch", head_of(path, 16), re.DOTALL) is not None


_RECOGNISED = {"torch": _is_torch, "safetensors": _is_safetensors, "onnx": _is_onnx}


def _usage(model: TrainedModel, form: str, path: Path) -> tuple[str, ...]:
    """Return three lines of Python that load a file and compute the outputs for `rows`, a float32 array."""
    if form == "onnx":
        return (
            "import onnxruntime",
            f"session = onnxruntime.InferenceSession({str(path)!r})",
            "outputs = session.run(None, {'rows': rows})[0]",
        )
    built = f"net = sb.MODELS.build({model.spec!r}).build(sb.{_sizes(model)}, seed={model.seed})"
    if form == "torch":
        imports, state = "import silobench as sb, torch", f"torch.load({str(path)!r}, weights_only=True)"
    else:
        imports, state = (
            "import silobench as sb, torch, safetensors.torch",
            f"safetensors.torch.load_file({str(path)!r})",
        )
    return imports, built, f"net.load_state_dict({state}); outputs = net.eval()(torch.as_tensor(rows))"


def _sizes(model: TrainedModel) -> str:
    """Return the sizes of a network as Python; its words, if it needs them, are read from the dataset again."""
    sizes = repr(model.sizes)
    if model.sizes is None or not model.sizes.words or model.run is None:
        return sizes
    return f"{sizes.removesuffix(')')}, words=sb.load({str(model.run.config['dataset'])!r}).vocabulary)"
