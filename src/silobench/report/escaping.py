"""Text on pages: no name in it can become markup, and none can turn the order of letters."""

import html
import json
from typing import Any

from silobench.safety.texts import visible, visible_in_json


def escape(text: str, quote: bool = True) -> str:
    """Return text for the content or an attribute of an element.

    >>> escape("<b>\u202e")
    '&lt;b&gt;\\\\u202e'
    """
    return html.escape(visible(text), quote)


def json_of_script(data: Any) -> str:
    """Return data as JSON for a script element, which no text in it can end.

    >>> json_of_script({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    >>> json.loads(json_of_script({"a": "don\x92t \u202e"}))
    {'a': 'don\\\\x92t \\\\u202e'}
    """
    text = visible_in_json(json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
