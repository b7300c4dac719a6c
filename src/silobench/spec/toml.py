"""Values as TOML text; the standard library only reads TOML."""

import json
from collections.abc import Mapping
from typing import Any


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
    return json.dumps(value)


def toml_key(key: str) -> str:
    """Return a key in TOML, with quotation marks where it needs them.

    >>> print(toml_key("age"), toml_key("days in bed"))
    age "days in bed"
    """
    is_bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if is_bare else toml_value(key)
