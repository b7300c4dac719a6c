"""Sentences for wrong command lines: an unknown command or option, a missing or wrong value."""

import difflib
import re
from typing import Any

import typer

# Typer does not export the base of its errors about command lines; BadParameter is one of them.
UsageError: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")

_VERBS = {"read": "read", "writ": "write", "execut": "execute"}  # by how typer's sentences about a path end


def sentence(error: Any) -> str:
    """Return one sentence that says what was given, what was needed and what to do."""
    context = error.ctx
    command = f"`{context.command_path}`" if context else "`silobench`"
    kind, message = type(error).__name__, str(error.format_message())
    if kind == "NoSuchOption":
        return _no_such_option(error.option_name, context, command)
    if unknown := re.match(r"No such command '(.*?)'", message, re.DOTALL):
        return _no_such_command(unknown[1], context, command)
    if kind == "MissingParameter":
        return _missing(error.param, context, command)
    if kind == "BadParameter" and error.param is not None:
        return _bad_value(error)
    if extra := re.match(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message, re.DOTALL):
        return _extra(extra[1], context, command)
    if lacking := re.match(r"Option '(.*)' requires (?:an|\d+) argument", message):
        return f"{lacking[1]} needs a value: write {lacking[1]} VALUE."
    if flag := re.match(r"Option '(.*)' does not take a value", message):
        return f"{flag[1]} is a switch and takes no value: write {flag[1]} without one."
    return f"{command} cannot be read: {message.rstrip('.')}; {command[:-1]} --help` shows what it takes."


def _no_such_option(name: str, context: Any, command: str) -> str:
    options = [text for param in context.command.params for text in param.opts if text.startswith("-")]
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    tail = f"did you mean {close[0]}?" if close else f"{command[:-1]} --help` lists its options."
    return f"{command} has no option {_short(name)}: {tail}"


def _no_such_command(name: str, context: Any, command: str) -> str:
    names = context.command.list_commands(context)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    tail = f"did you mean {close[0]}?" if close else f"choose from {', '.join(names)}."
    return f"{command} has no command '{_short(name)}': {tail}"


def _missing(param: Any, context: Any, command: str) -> str:
    if param is None:
        return f"{command} needs one more value: {command[:-1]} --help` shows what it takes."
    about = str(param.help or "").partition(". ")[0].rstrip(".")
    what = f": {about[:1].lower()}{about[1:]}" if about else ""
    return f"{command} needs {_name(param)}{what}; write {_usage(context)}."


def _bad_value(error: Any) -> str:
    """Return the sentence about a value that cannot be read, which typer's versions report in different words."""
    name, message = _name(error.param), str(error.message).rstrip(".")
    if closed := re.fullmatch(r"\w+ '(.*)' is not (read|writ|execut)able", message, re.IGNORECASE | re.DOTALL):
        return f"{name} is '{_short(closed[1])}', which this user may not {_VERBS[closed[2]]}: check its permissions."
    problems = error.__cause__.errors() if hasattr(error.__cause__, "errors") else []
    value = re.match(r"'?(.*?)'? is not ", message, re.DOTALL)
    shown = str(problems[0]["input"]) if problems else value[1] if value else ""
    limits = error.param if hasattr(error.param, "min") else getattr(error.param, "type", error.param)
    low, high = getattr(limits, "min", None), getattr(limits, "max", None)
    is_float = isinstance(low, float) or isinstance(high, float) or re.search("float|valid number", message)
    number = "a number" if is_float else "a whole number"
    bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    of = f" of {' and '.join(bounds)}" if bounds else ""
    return f"{name} must be {number}{of}, but '{_short(shown)}' was given."


def _extra(values: str, context: Any, command: str) -> str:
    names = [_name(param) for param in context.command.params if param.param_type_name == "argument"]
    takes = " and ".join(names) if names else "no values without an option"
    return (
        f"{command} takes {takes}, but '{_short(values)}' was also given: leave it out, or put quotation marks "
        "around a value with spaces."
    )


def _usage(context: Any) -> str:
    """Return a command with its arguments, and the options that it cannot do without."""
    params = context.command.params
    words = [_name(param) for param in params if param.param_type_name == "argument"]
    for param in params:
        if param.param_type_name == "option" and param.required:
            words += [_name(param), str(param.metavar or param.name.upper())]
    return f"`{' '.join((context.command_path, *words))}`"


def _name(param: Any) -> str:
    """Return how a user writes a parameter: --out of --output and --out, or an argument in capitals."""
    if param.param_type_name == "option":
        return str(min((name for name in param.opts if name.startswith("--")), key=len))
    return str(param.metavar or param.name.upper())


def _short(value: str) -> str:
    shown = value if value.isprintable() else value.encode("unicode_escape").decode()
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
