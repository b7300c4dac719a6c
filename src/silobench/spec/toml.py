"""Values as TOML text, which the standard library only reads, and TOML text that nobody vouches for."""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any


def read_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; raise `tomllib.TOMLDecodeError` for every text that cannot be used.

    The standard library fails in other ways for deep nesting and for integers of thousands of digits, which Python does
    not even write into an error message.
    """
    try:
        facts = tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError("brackets are nested too deeply") from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        raise tomllib.TOMLDecodeError("an integer has too many digits") from error
    values: list[Any] = [facts]
    while values:
        value = values.pop()
        if isinstance(value, int) and value.bit_length() > 64:
            raise tomllib.TOMLDecodeError("an integer has more than 64 bits")
        values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return facts


def toml_text(choices: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    r"""Return choices as the text of a TOML file, one per line below some lines of comments.

    >>> print(toml_text({"dataset": 'csv(path="a.csv")', "seed": 0, "measure": ["norms"]}, ["A study."]), end="")
    # A study.
    dataset = "csv(path=\"a.csv\")"
    seed = 0
    measure = ["norms"]
    """
    lines = [*(f"# {comment}" for comment in comments), *(f"{key} = {toml_value(choices[key])}" for key in choices)]
    return "".join(f"{line}\n" for line in lines)


def toml_value(value: Any) -> str:
    """Return a value in TOML. Texts, numbers and lists are written as in JSON.

    >>> print(toml_value({"mean": 54.5, "colours": ["red", "blue"]}))
    { mean = 54.5, colours = ["red", "blue"] }
    """
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(key)} = {toml_value(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)


def toml_key(key: str) -> str:
    """Return a key in TOML, with quotation marks where it needs them.

    >>> print(toml_key("age"), toml_key("days in bed"))
    age "days in bed"
    """
    is_bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if is_bare else toml_value(key)
