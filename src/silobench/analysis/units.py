"""Bytes, seconds, fractions and other numbers as text."""

import math
import re


def size(count: float) -> str:
    """Return bytes with a unit.

    >>> size(0), size(1_500_000), size(999_999), size(2.5e15)
    ('0', '1.5 MB', '1 MB', '2500 TB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            return f"{short(count)} {unit}" if count else "0"
        count /= 1000
    raise AssertionError


def bytes_of(text: str) -> float:
    """Return a number of bytes that a user writes; NaN if the text is none.

    >>> bytes_of("500kB"), bytes_of("1.5 GB"), bytes_of("800"), bytes_of("many")
    (500000.0, 1500000000.0, 800.0, nan)
    """
    match = re.fullmatch(r"([0-9]*\.?[0-9]+(?:e[0-9]+)?) *([kMGT]?)B?", text.strip())
    return float(match[1]) * 1000.0 ** "_kMGT".find(match[2] or "_") if match else math.nan


def duration(seconds: float) -> str:
    """Return seconds with a unit.

    >>> duration(0), duration(0.0821), duration(90)
    ('0', '82.1 ms', '90 s')
    >>> duration(0.9996), duration(599.6), duration(6250), duration(7199), duration(58800), duration(4e6)
    ('1 s', '9.99 min', '104 min', '2 h', '16.3 h', '1111 h')
    """
    if seconds == 0:
        return "0"
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 599.5 or not math.isfinite(seconds):
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7170 else f"{short(seconds / 3600)} h"


def percent(mean: float, std: float | None = None) -> str:
    """Return a fraction in percent, with its standard deviation if there is one.

    >>> percent(0.7125), percent(0.7125, 0.004), percent(-1e-6)
    ('71.2', '71.2 ± 0.4', '0.0')
    """
    return f"{100 * mean:z.1f}" + ("" if std is None else f" ± {100 * std:.1f}")


def short(number: float) -> str:
    """Return a positive number with three digits, or with all digits before the point.

    >>> short(33.324), short(1.0), short(3913.31)
    ('33.3', '1', '3913')
    """
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"
