"""Checks of a user's module before round 0: what cannot be trained, averaged or stored is refused in one sentence."""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from silobench.errors import ConfigError, SilobenchError
from silobench.models.devices import seed_torch
from silobench.models.norms import accept_single_rows
from silobench.models.sources import not_copyable

Loss: TypeAlias = Callable[[nn.Module, Tensor, Tensor], Tensor]  # (module, rows, labels) -> the mean loss
_COUNTER = "num_batches_tracked"  # of BatchNorm: no result depends on it unless momentum is None, which is refused
_SEED = 0


def averageable(module: nn.Module, name: str) -> tuple[str, ...]:
    """Make a module ready for flat vectors, in place; return notes, and refuse what has no place in a vector."""
    tensors = dict(module.named_parameters())
    if not any(p.requires_grad for p in tensors.values()):
        frozen = "only frozen parameters" if tensors else "no parameters"
        raise ConfigError(
            f"the network {name} has {frozen}, so there is nothing to train: give it a layer with parameters that "
            "require gradients."
        )
    _refuse_values(module, name)
    _refuse_shared_memory(tensors, name)
    accept_single_rows(module)
    other = {t.dtype for t in tensors.values() if t.is_floating_point()} - {torch.float32}
    module.to("cpu", torch.float32)
    if not other:
        return ()
    kinds = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in other))
    return (f"the network {name} has parameters of type {kinds}: they are trained as float32",)


def _refuse_values(module: nn.Module, name: str) -> None:
    """Refuse tensors whose values cannot be averaged."""
    stored = module.state_dict(keep_vars=True)
    for key, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_meta:
            raise ConfigError(f"the tensor {key} of {name} has no values (its device is meta): initialise the network.")
        if tensor.is_complex():
            raise ConfigError(f"the tensor {key} of {name} is complex: give its real and imaginary parts as two.")
        if tensor.is_floating_point() and not torch.isfinite(tensor).all() and key in stored:
            raise ConfigError(
                f"the tensor {key} of {name} has NaN or infinite values at the start: initialise it, or register a "
                "constant buffer with persistent=False."
            )


def _refuse_shared_memory(tensors: Mapping[str, nn.Parameter], name: str) -> None:
    """Refuse two parameters in the same memory. One parameter under two names (tied weights) is fine."""
    names = defaultdict(list)
    for key, tensor in tensors.items():
        if tensor.numel():
            names[tensor.data_ptr()].append(key)
    for first, *others in names.values():
        if others:
            raise ConfigError(
                f"the parameters {first} and {others[0]} of {name} are two parameters in the same memory, which would "
                f"be trained apart: tie them by assignment, as in module.{others[0]} = module.{first}."
            )


def _refuse_cumulative_statistics(module: nn.Module, name: str) -> None:
    """Refuse running statistics that depend on the number of batches, which is in no vector and no checkpoint."""
    for key, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and layer.track_running_stats and layer.momentum is None:
            raise ConfigError(
                f"the layer {key or type(layer).__name__} of {name} has momentum=None, so its statistics depend on the "
                f"number of batches, which is neither averaged nor stored: give it a number, as in momentum=0.1."
            )


@dataclass(frozen=True)
class Trial:
    """A few rows that a user's network is tried on before the first round; nothing that it does there is kept."""

    name: str
    module: nn.Module
    x: Tensor
    y: Tensor
    outputs: int
    objective: str
    has_probabilities: bool  # whether the objective applies a softmax to the outputs

    def notes(self, loss: Loss) -> tuple[str, ...]:
        """Try the network in eval and in training mode; return notes, and raise `ConfigError` for what cannot work."""
        _refuse_cumulative_statistics(self.module, self.name)
        answers = self._in_eval_mode()
        return (*self._note_on_probabilities(answers), *self._in_training_mode(loss))

    def _twin(self) -> nn.Module:
        try:
            return copy.deepcopy(self.module)
        except Exception as error:
            raise not_copyable(self.name, error) from error

    def _in_eval_mode(self) -> Tensor:
        twin = self._twin().eval()
        with torch.no_grad():
            before = _attributes(twin)
            answers: Tensor = self._answers(twin)
            changed = _changed(before, _attributes(twin))
            self._check_answers(answers)
            if not torch.equal(answers, self._answers(twin)):
                raise self._history(changed, "in eval mode")
        return answers

    def _answers(self, module: nn.Module) -> Any:
        try:
            return module(self.x)
        except SilobenchError:
            raise
        except Exception as error:
            sparse = "; rows are sparse, so call x.to_dense() in forward" if self.x.is_sparse_csr else ""
            raise ConfigError(
                f"the network {self.name} fails on {self._rows}: {type(error).__name__}: {_first_line(error)}{sparse}."
            ) from error

    @property
    def _rows(self) -> str:
        return f"rows of shape {tuple(self.x.shape)} and type {str(self.x.dtype).removeprefix('torch.')}"

    def _check_answers(self, answers: Any) -> None:
        rows, needed = len(self.y), (len(self.y), self.outputs)
        if not isinstance(answers, Tensor):
            raise ConfigError(
                f"the network {self.name} answers a {type(answers).__name__} for {rows} rows, but the objective "
                f"{self.objective} needs a tensor of shape {needed}: return the tensor only."
            )
        if tuple(answers.shape) != needed:
            raise ConfigError(
                f"the network {self.name} answers shape {tuple(answers.shape)} for {rows} rows, but the objective "
                f"{self.objective} needs {needed}: give its last layer {self.outputs} outputs, and one line per row."
            )
        if not answers.is_floating_point():
            raise ConfigError(
                f"the network {self.name} answers numbers of type {answers.dtype}, which have no gradient: return "
                "the outputs of its last layer."
            )
        if not torch.isfinite(answers).all():
            raise ConfigError(
                f"the network {self.name} answers NaN or infinite numbers before any training: check its "
                "initialisation."
            )

    def _note_on_probabilities(self, answers: Tensor) -> Iterator[str]:
        sums_to_one = bool((answers.min() >= 0) & ((answers.sum(1) - 1).abs().max() < 1e-4))
        if self.has_probabilities and self.outputs > 1 and sums_to_one:
            yield (
                f"the outputs of {self.name} look like probabilities, and the objective {self.objective} applies a "
                "softmax to them: leave out the network's own softmax"
            )

    def _in_training_mode(self, loss: Loss) -> Iterator[str]:
        twin = self._twin().train()
        state, before = copy.deepcopy(twin.state_dict()), _attributes(twin)
        first = self._loss(twin, loss)
        changed = _changed(before, _attributes(twin))
        self._refuse_changed_integers(state, twin)
        without = [key for key, p in twin.named_parameters() if p.requires_grad and p.grad is None]
        twin.load_state_dict(state)
        between = _attributes(twin)
        if not torch.equal(first, self._loss(twin, loss)):
            raise self._history(changed, "in training, where torch is seeded")
        after = _attributes(twin)
        numbers = [key for key in changed if isinstance(after[key], int | float) and after[key] != between[key]]
        if numbers:  # a counter; a size that each call sets anew is the same after both
            yield (
                f"the network {self.name} changes its attribute {numbers[0]} in training, which is neither averaged "
                f"nor stored: register it as a float buffer if results depend on it"
            )
        if without:
            yield f"the parameters {', '.join(without)} of {self.name} get no gradient, so they are never trained"

    def _loss(self, twin: nn.Module, loss: Loss) -> Tensor:
        """Return the loss on the rows, and fill the gradients."""
        try:
            with torch.random.fork_rng(devices=[]):
                seed_torch(_SEED)
                twin.zero_grad(set_to_none=True)
                value = loss(twin, self.x, self.y)
                value.backward()
                return value.detach()
        except SilobenchError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the network {self.name} cannot be trained on {self._rows}: {type(error).__name__}: "
                f"{_first_line(error)}."
            ) from error

    def _refuse_changed_integers(self, before: Mapping[str, Tensor], twin: nn.Module) -> None:
        for key, buffer in twin.named_buffers():
            is_known = key in before and not buffer.is_floating_point() and not key.endswith(_COUNTER)
            if is_known and not torch.equal(buffer, before[key]):
                raise ConfigError(
                    f"the buffer {key} of {self.name} has type {str(buffer.dtype).removeprefix('torch.')} and changes "
                    "in training, but only buffers of floating-point numbers are averaged and stored: make it one."
                )

    def _history(self, changed: list[str], where: str) -> ConfigError:
        """Return the error about answers that depend on earlier calls, or on random numbers that have no seed."""
        if changed:
            return ConfigError(
                f"the network {self.name} answers the same rows differently {where}, and keeps {changed[0]} between "
                "calls, which a checkpoint would lose: start from it anew in each call of forward, or register it as a "
                "float buffer."
            )
        return ConfigError(
            f"the network {self.name} answers the same rows differently {where}, so that no run could be repeated: use "
            "nn.Dropout, or F.dropout(x, training=self.training), and only random numbers of torch."
        )


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return numbers and tensors that modules have as plain attributes, by name; tensors also in tuples."""
    values: dict[str, Any] = {}
    for prefix, each in module.named_modules():
        for key, value in vars(each).items():
            is_state = key != "training" and not key.startswith("_")
            if is_state and (value is None or isinstance(value, int | float | Tensor | tuple | list)):
                values[f"{prefix}.{key}".lstrip(".")] = list(value) if isinstance(value, list) else value
    return values


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of attributes that are new or have another value."""
    return [key for key, value in after.items() if not _same(before.get(key), value)]


def _same(before: Any, after: Any) -> bool:
    """Whether an attribute has its former value; tensors are the same if they are the same object."""
    if isinstance(after, Tensor) or isinstance(before, Tensor):
        return before is after
    if isinstance(after, tuple | list):
        is_like = isinstance(before, tuple | list) and len(before) == len(after)
        return is_like and all(_same(a, b) for a, b in zip(before, after, strict=True))
    return before is after or bool(before == after)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0].rstrip(".")
