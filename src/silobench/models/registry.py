"""`MODELS`, the registry of models. It also takes classes of modules, and functions that return a module."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints, overload

from torch import nn

from silobench.errors import ConfigError
from silobench.models.model import Model
from silobench.models.sources import SIZE_NAMES, as_model, signature_of
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, expects

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN = (bool, int, float, str, tuple, type(None))  # values that a spec can state


class ModelRegistry(Registry[Model]):
    """A registry whose factories may return, or be, anything that is a model.

    >>> from torch import nn
    >>> models = ModelRegistry("model")
    >>> @models.register
    ... def net(inputs: int, outputs: int, width: int = 8) -> nn.Module:
    ...     return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))
    >>> str(models.bind("net(width=4)").full)
    'net(width=4)'
    """

    @overload
    def register(self, factory: F) -> F: ...
    @overload
    def register(self, **options: Any) -> Callable[[F], F]: ...

    def register(self, factory: Any = None, **options: Any) -> Any:
        """Register a function that returns a `Model`, a module or a function of sizes, or a class of modules.

        Arguments that are named as sizes are left out of the spec: silobench provides them.
        """
        if factory is None:
            return functools.partial(self.register, **options)
        if not callable(factory):
            raise ConfigError(
                f"MODELS.register got a {type(factory).__name__}, but a function or a class is needed: register a "
                "function that returns it."
            )
        stated = _without_sizes(signature_of(factory))
        checked = super().register(_factory(factory, stated), **options)
        is_whole = len(stated.parameters) == len(signature_of(factory).parameters) and not isinstance(factory, type)
        return checked if is_whole else factory


def _without_sizes(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature without the arguments that silobench provides, and without those that no spec can state."""
    parameters = signature.parameters.values()
    stated = [
        p for p in parameters if p.name not in SIZE_NAMES and (p.default is p.empty or isinstance(p.default, _PLAIN))
    ]
    return signature.replace(parameters=stated)


def _factory(source: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Model]:
    """Return a function with these arguments that returns a `Model`."""

    def factory(*args: Any, **kwargs: Any) -> Model:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return as_model(source, bound.arguments)

    factory.__name__, factory.__doc__ = source.__name__, source.__doc__
    factory.__module__ = source.__module__
    factory.__annotations__ = _hints(source)
    vars(factory).update(__signature__=signature, func=source)  # `func`: messages name the file of the source
    return factory


def _hints(source: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's arguments; none if they cannot be resolved."""
    try:
        return get_type_hints(source.__init__ if isinstance(source, type) else source, include_extras=True)  # type: ignore[misc]
    except Exception:  # any code may be in an annotation
        return {}


MODELS = ModelRegistry(
    "model",
    Contract(
        Model,
        "an sb.Model(module) or a torch.nn.Module",
        {"module": Form("sizes", expects(nn.Module, "a torch.nn.Module"))},
    ),
)
