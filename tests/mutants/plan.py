"""Which files are mutated, and which tests may notice."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "silobench"


@dataclass(frozen=True)
class Folder:
    """Files of the product that are mutated together, and the test files that are asked; both as patterns."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> list[Path]:
        """Return the source files in a fixed order."""
        return _matches(SOURCE, self.sources)

    def test_files(self) -> list[Path]:
        """Return the test files, and the source files themselves for their doctests."""
        doctests = [file for file in self.files() if ">>> " in file.read_text("utf-8")]
        return [*_matches(ROOT / "tests", self.tests), *doctests]


_METHOD = (
    "method/test_laws.py", "method/test_personal.py", "method/test_moon_fedrs_fedbn.py", "method/test_decentralised.py",
    "method/test_dials.py", "method/test_hooks.py", "method/test_steps.py",
)  # fmt: skip
_MESSAGES = ("method/test_transforms.py", "method/test_compression_*.py", "method/test_codecs.py")

FOLDERS = {
    folder.name: folder
    for folder in (
        Folder("algorithms", ("method/algorithms/*.py",), _METHOD),
        Folder(
            "transforms",
            ("method/transforms/*.py",),
            (
                *_MESSAGES, "method/test_dials.py", "method/test_noise_by_hand.py", "method/test_secure_scale.py",
                "method/test_secure_sum.py", "method/test_skellam.py", "method/test_party_noise.py",
            ),
        ),
        Folder("partitions", ("partitions/*.py",), ("partitions/*.py", "test_own_test_rows.py")),
        Folder(
            "privacy",
            ("privacy/**/*.py",),
            ("privacy/*.py", "loop/test_ledger.py", "measures/test_canaries.py", "method/test_skellam.py"),
        ),
        Folder("codecs", ("method/codecs/*.py",), _MESSAGES),
        Folder(
            "claims",
            ("analysis/claims.py", "analysis/evidence.py", "analysis/answers.py", "papers/*/findings.py"),
            (
                "papers/test_verdicts.py", "papers/test_papers.py", "papers/test_zhao2018.py",
                "papers/test_hsieh2020.py", "papers/test_evidence_of_claims.py", "analysis/test_answer*.py",
                "analysis/test_evidence.py", "analysis/test_analysis.py", "analysis/test_statistics.py",
            ),
        ),
    )
}  # fmt: skip


def targets() -> list[Path]:
    """Return every file that is mutated."""
    return sorted({file for folder in FOLDERS.values() for file in folder.files()})


def _matches(base: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted({file for pattern in patterns for file in base.glob(pattern) if file.name != "conftest.py"})
