"""From what a user gives as a model, such as a module, a class, a function or an estimator, to a `Model`."""

import copy
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from silobench.errors import ConfigError, SilobenchError, suggest
from silobench.models.estimators import is_estimator, of_estimator
from silobench.models.model import Model, Sizes
from silobench.spec.contract import Origin, described, last_line, position

SIZE_NAMES = ("inputs", "outputs", "shape", "classes", "vocabulary", "sizes")  # arguments that silobench provides


def as_model(source: Any, arguments: Mapping[str, Any] | None = None) -> Model:
    """Return a `Model` for a module, a class of modules, a function that returns a module, or an estimator.

    A class or a function is called with the sizes that it asks for by name and with `arguments`. A module is where
    training starts, whatever the seed; the others are called anew for each seed.
    """
    if isinstance(source, type) and is_estimator(source):
        source, arguments = _instance(source, arguments or {}), {}
    if callable(source) and not isinstance(source, nn.Module):
        return _of_function(source, dict(arguments or {}))
    if arguments:
        raise ConfigError(
            f"{_name(source)} is not a class or a function, so it takes no argument {next(iter(arguments))}: leave it "
            "out."
        )
    if isinstance(source, Model):
        return source
    if isinstance(source, nn.Module):
        return Model(lambda sizes: _copy(source), None, _name(source))
    if is_estimator(source):
        return of_estimator(source)
    raise ConfigError(
        f"{described(source)} is not a model: give the text of a spec, a torch.nn.Module, a class or a function "
        "that returns one, or a linear estimator of scikit-learn."
    )


def _of_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Model:
    signature = signature_of(function)
    _check_arguments(function, arguments, signature)

    def build(sizes: Sizes | None) -> Any:
        return _called(function, signature, arguments, sizes)

    asks = any(name in signature.parameters and name not in arguments for name in SIZE_NAMES)
    if not asks and not _is_module_class(function):  # it may return a model of another kind
        product = build(None)
        if not isinstance(product, nn.Module):
            return as_model(_needed(product, function))
    needs_words = "sizes" in signature.parameters
    return Model(lambda sizes: _module(build(sizes), sizes), None, _name(function), needs_words=needs_words)


def _needed(product: Any, function: Callable[..., Any]) -> Any:
    """Return what a function returned, if it may be a model."""
    if isinstance(product, Model) or is_estimator(product) or (callable(product) and product is not function):
        return product
    raise ConfigError(
        f"{Origin.of(function, 'model', _name(function))} returned {described(product)}, but a model is needed: return "
        "a torch.nn.Module, a function that returns one, or an sb.Model."
    )


def _module(product: Any, sizes: Sizes) -> nn.Module:
    return product.module(sizes) if isinstance(product, Model) else product


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function or of a class's constructor."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{_name(function)} does not state its arguments: wrap it in a function of yours.") from error


def _check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any], signature: inspect.Signature) -> None:
    """Refuse arguments that a function does not have, and a function that needs more than it gets."""
    parameters = signature.parameters
    takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
    for name in arguments:
        if name not in parameters and not takes_any:
            known = [each for each in parameters if each not in SIZE_NAMES]
            tail = suggest(name, known) if known else "it takes none besides sizes."
            raise ConfigError(f"{_name(function)} has no argument '{name}': {tail}")
    for name, p in parameters.items():
        is_needed = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if is_needed and name not in arguments and name not in SIZE_NAMES:
            raise ConfigError(
                f"{_name(function)} needs the argument '{name}', which silobench does not know: give it a default, "
                f"or a value as in module(path=..., {name}=...); silobench knows {', '.join(SIZE_NAMES[:-1])}."
            )


def _called(
    function: Callable[..., Any], signature: inspect.Signature, arguments: Mapping[str, Any], sizes: Sizes | None
) -> Any:
    """Call a function with its arguments and the sizes that it asks for."""
    provided = {name: sizes if name == "sizes" else getattr(sizes, name) for name in SIZE_NAMES} if sizes else {}
    values = {**provided, **arguments}
    known = {name: values[name] for name in signature.parameters if name in values}
    extra = next((p.name for p in signature.parameters.values() if p.kind == p.VAR_KEYWORD), None)
    others = {name: value for name, value in arguments.items() if name not in signature.parameters}
    if extra is not None and others:
        known[extra] = {**known.get(extra, {}), **others}
    bound = inspect.BoundArguments(signature, known)
    try:
        return function(*bound.args, **bound.kwargs)
    except SilobenchError:
        raise
    except Exception as error:
        rows = f" for rows of shape {sizes.shape} and {sizes.outputs} outputs" if sizes else ""
        raise ConfigError(
            f"{_name(function)}{_place(function, error)} fails when it is called{rows}: {type(error).__name__}: "
            f"{error}."
        ) from error


def _place(function: Callable[..., Any], error: Exception) -> str:
    """Return the file of a function and the line of it that failed; empty if the error came before the first line."""
    file = position(function)[0]
    line = last_line(error.__traceback__, file)
    return f" ({Path(file).name}, line {line})" if line else ""


def _instance(kind: type[Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ConfigError(f"{kind.__name__} does not take these arguments: {error}.") from error


def _copy(module: nn.Module) -> nn.Module:
    """Copy a user's module, which training would change."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise not_copyable(type(module).__name__, error) from error


def not_copyable(name: str, error: Exception) -> ConfigError:
    """Return the error about a module that cannot be copied, which workers and tests need."""
    return ConfigError(
        f"the network {name} cannot be copied ({type(error).__name__}: {error}): keep only parameters, buffers and "
        "plain values in it, and use torch.nn.utils.parametrizations in place of torch.nn.utils.weight_norm."
    )


def _is_module_class(function: Any) -> bool:
    return isinstance(function, type) and issubclass(function, nn.Module)


def _name(source: Any) -> str:
    return str(getattr(source, "__name__", type(source).__name__))
