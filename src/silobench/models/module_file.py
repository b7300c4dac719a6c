"""A network in a file of the user's: ``module(path=model.py:Net)``."""

import functools
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from silobench.errors import ConfigError, SilobenchError, suggest
from silobench.models.estimators import is_estimator
from silobench.models.model import Model
from silobench.models.registry import MODELS
from silobench.models.sources import as_model
from silobench.spec import parse

_NAME = "silobench_model_file"  # of the module while its file runs; it cannot be imported, so workers get its classes


@MODELS.register
def module(path: str, **arguments: Any) -> Model:
    """A network in your own file, as module(path=model.py:Net): a class, a function, a module or an estimator.

    It is called with those of inputs, outputs, shape, classes and vocabulary that it asks for by name, and with the
    other arguments of the spec, as in module(path=model.py:Net, width=64). The name may be left out if the file has
    one class of modules. The content of the file is part of a run's identity.
    """
    file, name = file_and_name(path)
    content = read_text(Path(file))
    names = _loaded(file, content)
    target = name or _only_class(file, names)
    if target not in names:
        known = [each for each, value in names.items() if _may_be_model(value)]
        raise ConfigError(f"{file} has no '{target}': {suggest(target, known) if known else 'define it there.'}")
    return replace(as_model(names[target], arguments), name=f"{target} of {file}", content=content)


def file_and_name(path: str) -> tuple[str, str]:
    """Return the file and the name in it that a path means; the name is empty if it is left out.

    >>> file_and_name("model.py:Net"), file_and_name("model.py")
    (('model.py', 'Net'), ('model.py', ''))
    """
    file, _, name = path.rpartition(":") if ":" in path and not path.endswith(".py") else (path, "", "")
    return file, name


def code_file(model: str) -> str:
    """Return the file that building a model's spec would execute, without executing it; empty if there is none.

    No other spec runs a file, so this is what to ask before a spec of somebody else is built.

    >>> code_file("module(path=model.py:Net)"), code_file("Module(model.py)"), code_file("cnn")
    ('model.py', 'model.py', '')
    """
    if parse(model).name != module.__name__:
        return ""
    return file_and_name(str(dict(MODELS.bind(model).full.kwargs)["path"]))[0]


def read_text(file: Path) -> str:
    """Read the text of a model file; it is not executed."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(
            f"the model file {file} cannot be read ({reason}): give the path of a Python file, as in "
            "module(path=model.py:Net)."
        ) from error


@functools.lru_cache(maxsize=32)
def _loaded(file: str, content: str) -> Mapping[str, Any]:
    """Run a file and return its names. The content is an argument, so that a changed file is run again."""
    space = ModuleType(_NAME)
    space.__file__ = file
    before = sys.modules.get(_NAME)
    sys.modules[_NAME] = space  # dataclasses look for it
    try:
        exec(compile(content, file, "exec"), vars(space))
    except SilobenchError:
        raise
    except (Exception, SystemExit) as error:
        remedy = "import only installed packages in it" if isinstance(error, ImportError) else "correct it"
        raise ConfigError(
            f"the model file {file} fails when it is loaded: {type(error).__name__}: {error}; {remedy}."
        ) from error
    finally:
        sys.modules.pop(_NAME)
        if before is not None:
            sys.modules[_NAME] = before
    return {name: value for name, value in vars(space).items() if not name.startswith("__")}


def _only_class(file: str, names: Mapping[str, Any]) -> str:
    """Return the name of the one class of modules that a file defines."""
    classes = [
        name
        for name, value in names.items()
        if isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == _NAME
    ]
    if len(classes) != 1:
        known = classes or [name for name, value in names.items() if _may_be_model(value)] or ["Net"]
        raise ConfigError(
            f"{file} has {len(classes)} classes of modules: name the model, as in module(path={file}:{known[0]})."
        )
    return classes[0]


def _may_be_model(value: Any) -> bool:
    """Whether a name of a file can be meant as its model: it is defined there, or is an object of a known kind."""
    if isinstance(value, nn.Module | Model):
        return True
    if callable(value):
        return getattr(value, "__module__", "") == _NAME
    return is_estimator(value)
