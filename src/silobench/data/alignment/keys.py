"""Keys in the form in which they are compared."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Places: TypeAlias = NDArray[np.int64]
_ARTICLES = {"the", "a", "an", "il", "la", "le", "les", "l", "el", "los", "las", "der", "die", "das", "un", "une"}
_YEAR = re.compile(r"\((\d{4})\)")


def title_key(title: str) -> str:
    """Return a title as lower-case letters and digits, for comparisons.

    >>> title_key("Half-Life 2: Episode One")
    'halflife2episodeone'
    """
    return re.sub(r"[^a-z0-9]", "", title.lower())


def film_key(title: str) -> str:
    """Return a film's title for comparisons: without parentheses, accents and punctuation, the article in front.

    >>> film_key("Postino, Il (1994)"), film_key("Il Postino")
    ('ilpostino', 'ilpostino')
    """
    return title_key(_with_article_first(re.sub(r"\([^)]*\)", "", unicodedata.normalize("NFKD", title)).strip()))


def text_words(text: str) -> str:
    """Return the words of a text without case, accents and punctuation, the article in front.

    Letters of all alphabets stay. A text without letters and digits stays as it is.

    >>> text_words("Misérables, Les"), text_words("L.A. Confidential"), text_words("!!!")
    ('les miserables', 'l a confidential', '!!!')
    """
    plain = _with_article_first(unicodedata.normalize("NFKD", text).strip())
    letters = "".join(letter if _is_letter(letter) else " " for letter in plain.casefold() if not _is_accent(letter))
    return " ".join(letters.split()) or text.strip()


def text_key(text: str) -> str:
    """Return `text_words` without spaces.

    >>> text_key("Half-Life: Source") == text_key("half life source")
    True
    """
    return text_words(text).replace(" ", "")


def year_in(text: str) -> float:
    """Return the last year in parentheses in a text, or NaN.

    >>> year_in("Twelve Monkeys (1995)"), year_in("1984")
    (1995.0, nan)
    """
    return float((_YEAR.findall(text) or ["nan"])[-1])


def without_year(text: str) -> str:
    """Return a text without years in parentheses.

    >>> without_year("Misérables, Les (1995)")
    'Misérables, Les'
    """
    return _YEAR.sub("", text).strip()


def places_of(keys: Sequence[Any], known: Sequence[Any]) -> Places:
    """Return the first position of each key among the known keys, or -1."""
    first = {key: place for place, key in reversed(list(enumerate(known)))}
    return np.array([first.get(key, -1) for key in keys], dtype=np.int64)


def _with_article_first(title: str) -> str:
    turned = re.fullmatch(r"(.*), (\w+)'?", title)
    return f"{turned[2]} {turned[1]}" if turned and turned[2].lower() in _ARTICLES else title


def _is_accent(letter: str) -> bool:
    """Whether a mark is above or below a letter. Other marks are letters of their own, as in Devanagari and Thai."""
    return unicodedata.combining(letter) >= 200


def _is_letter(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")
