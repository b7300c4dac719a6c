"""The native step is compiled once, checked, cached, and replaced by PyTorch where it is missing."""

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from silobench.data import digits
from silobench.engines import Engine
from silobench.engines.kernel import Kernel, NoNativeError, build, native
from silobench.engines.kernel.check import failure
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.task import task

_PLAIN = ("-O0", *(flag for flag in build.FLAGS if flag != "-O2"))  # compiled in a quarter of the time


@pytest.mark.parametrize("flags", [["-mavx2", "-mfma"], ["-mno-avx"]])
def test_narrower_vectors_are_right_too(compiler: list[str], tmp_path: Path, flags: list[str]) -> None:
    features = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if "avx2" not in features:
        pytest.skip("a processor with AVX2 is needed to run these")
    library = tmp_path / "step.so"
    command = [*compiler, *_PLAIN, *flags, "-o", str(library), str(build.SOURCE), "-lm"]
    subprocess.run(command, check=True)
    kernel = Kernel(library)
    assert kernel.lanes == (8 if "-mavx2" in flags else 4)
    assert failure(kernel) is None


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """As in a new process with an empty cache."""
    monkeypatch.setenv("SILOBENCH_KERNELS", str(tmp_path))
    for cached in (build._native_or_error, build.warn_if_missing):
        cached.cache_clear()
    yield tmp_path
    for cached in (build._native_or_error, build.warn_if_missing):
        cached.cache_clear()


def test_the_library_is_built_once_checked_and_cached(
    compiler: list[str], fresh: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FLAGS", _PLAIN)
    caplog.set_level(logging.INFO, "silobench")
    first = native()
    assert first.path == fresh / f"{first.key}.so"
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "compiling the native step for this processor"
    ]
    assert sorted(path.suffix for path in fresh.iterdir()) == [".lock", ".sha256", ".so"]
    caplog.clear()
    before = first.path.stat().st_mtime_ns
    build._native_or_error.cache_clear()
    assert native().key == first.key
    assert first.path.stat().st_mtime_ns == before
    assert not caplog.records
    (fresh / "copy.sha256").write_bytes(first.path.with_suffix(".sha256").read_bytes())
    _check_damage(fresh / "copy.so", first.path.read_bytes())  # a copy: this process has mapped the library itself


def _check_damage(library: Path, content: bytes) -> None:
    """A library with one wrong bit may crash or compute wrong numbers, so it is not even loaded."""
    library.write_bytes(content)
    assert build._is_whole(library)
    place = len(content) // 2
    library.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert not build._is_whole(library)
    library.write_bytes(content)
    library.with_suffix(".sha256").unlink()  # as earlier versions left it
    assert not build._is_whole(library)


def test_the_processor_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SILOBENCH_MARCH", raising=False)
    assert build._target().endswith("=native")
    monkeypatch.setenv("SILOBENCH_MARCH", "x86-64-v2")
    assert build._target().endswith("=x86-64-v2")


def test_any_change_gives_another_key() -> None:
    keys = [
        build._key(*parts)
        for parts in (
            (b"source", ["c++", "-O2"], "gcc 12", "avx2"),
            (b"source!", ["c++", "-O2"], "gcc 12", "avx2"),
            (b"source", ["c++", "-O3"], "gcc 12", "avx2"),
            (b"source", ["c++", "-O2"], "gcc 13", "avx2"),
            (b"source", ["c++", "-O2"], "gcc 12", "avx2 avx512f"),
        )
    ]
    assert len(set(keys)) == 5
    assert "-ffast-math" not in build.FLAGS
    assert not any("finite" in flag for flag in build.FLAGS)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"CC": "/bin/false"}, "the compiler /bin/false ended with code 1"),
        ({"CXX": "/nowhere/c++"}, r"the compiler /nowhere/c\+\+ cannot be used \(No such file or directory\)"),
        ({"CXX": "/bin/true"}, r"/bin/true|cannot be written or loaded|self-test"),
        ({"PATH": "/nowhere"}, r"no C\+\+ compiler was found"),
    ],
)
def test_without_a_compiler_one_warning_is_logged_and_pytorch_is_used(
    fresh: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, str],
    reason: str,
) -> None:
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NoNativeError, match=reason):
        native()
    data = digits()
    federation, method = federate(data, "iid", 2), Method(ALGORITHMS.build("fedavg"), sgd(epochs=1))
    for model, way in (("linear", "stacked"), ("cnn", "inline")):
        engine = Engine(("native", "stacked", "inline"))
        (record,) = rounds(method, federation, task(model, data), rounds=1, engine=engine)
        assert record.engine == way
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert said[0].startswith("the native step is not available, because ")
    assert said[0].endswith(": PyTorch is used instead, which is slower.")
    assert not list(fresh.glob("*.so"))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("'c++", r"the command in CXX cannot be read \(No closing quotation\)"),
        (
            "sh -c 'printf \"error: caf\\351\" >&2; exit 1'",  # in Latin-1
            "the compiler sh ended with code 1 .error: caf\N{REPLACEMENT CHARACTER}.",
        ),
    ],
)
def test_any_text_of_or_about_a_compiler_is_shown(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    monkeypatch.setenv("CXX", command)
    with pytest.raises(NoNativeError, match=reason):
        native()


def test_a_blank_variable_names_no_compiler(compiler: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", " ")
    monkeypatch.setenv("CC", shlex.join(compiler))
    assert build._compiler() == compiler


def test_a_self_test_that_hangs_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "_SELF_TEST", "import time; time.sleep(1000)")
    monkeypatch.setattr(build, "_PATIENCE", 0.01)
    with pytest.raises(NoNativeError, match="the self-test of the compiled library did not end in"):
        build.check(tmp_path / "step.so")


def test_the_self_test_imports_nothing_from_the_working_directory(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('this numpy is a file of the user')")
    monkeypatch.chdir(tmp_path)
    build.check(library)


# It has every function that Python looks for in a library, and compiles quickly.
CRASHING = """
#include <stdint.h>
#define PUBLIC extern "C" __attribute__((visibility("default")))
PUBLIC int32_t silobench_lanes() { return 8; }
PUBLIC int64_t silobench_reorder() { return 0; }
PUBLIC int32_t silobench_train() { __builtin_trap(); }
PUBLIC int32_t silobench_score() { return 0; }
PUBLIC int32_t silobench_train_batch() { return 0; }
PUBLIC void silobench_order() {}
"""


def test_a_library_that_is_wrong_or_crashes_is_not_used(
    compiler: list[str], fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "FLAGS", _PLAIN)
    source = build.SOURCE.read_text()
    for number, (right, wrong, reason) in enumerate(
        [
            ("w -= rule.lr * v;", "w += rule.lr * v;", r"self-test \(.* has a relative error of"),
            ("top <= 0", "!(top > 0)", r"self-test \(NaN in a row does not reach"),
            (source, CRASHING, r"self-test \(signal \d+\)"),
        ]
    ):
        assert source.count(right) == 1, right
        changed = tmp_path / f"{number}.cpp"
        changed.write_text(source.replace(right, wrong))
        monkeypatch.setattr(build, "SOURCE", changed)
        build._native_or_error.cache_clear()
        with pytest.raises(NoNativeError, match=reason):
            native()
    assert not list(fresh.glob("*.so"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_cache_that_cannot_be_written_is_reported(fresh: Path) -> None:
    fresh.chmod(0o500)
    with pytest.raises(NoNativeError, match="set SILOBENCH_KERNELS to another folder"):
        native()


def test_a_cache_that_is_not_a_folder_is_reported(
    compiler: list[str], fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fresh / "file").write_text("")
    monkeypatch.setenv("SILOBENCH_KERNELS", str(fresh / "file"))
    with pytest.raises(NoNativeError, match="set SILOBENCH_KERNELS to another folder"):
        native()


@pytest.fixture(scope="module")
def library(compiler: list[str]) -> Path:
    """The compiled step that the other tests of this machine use."""
    return native().path


def test_many_processes_build_one(
    library: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The compiler writes down each of its calls, and copies a library instead of compiling one."""
    folder = tmp_path_factory.mktemp("compiler")
    compilations, script = folder / "compilations", folder / "c++"
    copy = f'echo once >> {compilations}; while [ "$1" != -o ]; do shift; done; sleep 1; cp {library} "$2"'
    script.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo 1; else {copy}; fi\n')
    script.chmod(0o700)
    monkeypatch.setenv("CXX", str(script))
    code = "from silobench.engines.kernel import native; print(native().key)"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    (key,) = {process.communicate()[0].strip() for process in started}
    assert [path.name for path in fresh.glob("*.so")] == [f"{key}.so"]
    assert compilations.read_text().split() == ["once"]
