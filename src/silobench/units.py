"""Bytes and seconds for people."""


def size(count: float) -> str:
    """Bytes for people.

    >>> size(0), size(1_500_000)
    ('0', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.3g} {unit}" if count else "0"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0), duration(0.0821), duration(90)
    ('0', '82.1 ms', '90 s')
    """
    if seconds == 0:
        return "0"
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
