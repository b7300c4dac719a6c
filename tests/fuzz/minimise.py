"""Make the input of a finding smaller, as long as it breaks the same promise."""

from pathlib import Path

from fuzz.guard import Finding, check, empty
from fuzz.target import Target

_MOST = 800  # inputs that are tried


def minimised(target: Target, finding: Finding) -> bytes:
    """Return a smaller input with the same finding: pieces are left out, the longest first."""
    data, tries = finding.data, 0
    length = max(1, len(data) // 2)
    while length and tries < _MOST:
        start = 0
        while start < len(data) and tries < _MOST:
            shorter, tries = data[:start] + data[start + length :], tries + 1
            if _breaks(target, shorter, finding):
                data = shorter
            else:
                start += length
        length //= 2
    return data


def _breaks(target: Target, data: bytes, finding: Finding) -> bool:
    outcome = check(target, data)
    empty(Path.cwd())
    return outcome.finding is not None and outcome.finding.key == finding.key
