"""The native step: threads, interrupted rounds, wrong arguments, and memory safety."""

import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from natives import needs_native
from silobench.data import Dataset, Split
from silobench.engines import Engine
from silobench.engines.kernel import KernelError, Rows, Rule, Shape, Walk, native
from silobench.engines.kernel import parties as compiled
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.task import task


@needs_native
@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fedprox", "feddyn"])
@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_any_number_of_threads_gives_the_same_bits_also_after_a_resume(spec: str, augment: str) -> None:
    rng = np.random.default_rng(0)
    halves = (Split(rng.integers(0, 256, (n, 3, 16, 16), dtype=np.uint8), np.arange(n) % 4) for n in (300, 90))
    data = Dataset("pictures", *halves, tuple("abcd"), "none", augment=augment)
    federation, its_task = federate(data, "quantity-dirichlet(beta=0.5)", 7, seed=3), task("cnn", data)
    method = Method(ALGORITHMS.build(spec), sgd(lr=0.05, epochs=2, batch=16, keep_momentum=True))

    def run(threads: int, state: Any = None) -> list[Any]:
        options = {"rounds": 4, "participation": 5, "engine": Engine(("native",), workers=threads), "state": state}
        return list(rounds(method, federation, its_task, **options))

    alone = run(0)
    for threads in (2, 4):
        others = run(threads)
        assert {record.workers for record in others} == {threads}
        for one, other in zip(alone, others, strict=True):
            assert torch.equal(one.state.server.params, other.state.server.params)
            assert (one.accuracy, one.loss, one.train_loss) == (other.accuracy, other.loss, other.train_loss)
    resumed = run(2, alone[1].state)
    assert torch.equal(resumed[-1].state.server.params, alone[-1].state.server.params)


def test_an_early_stop_does_not_wait_for_parties_that_have_not_started() -> None:
    begun: list[int] = []

    def run(job: int) -> int:
        begun.append(job)
        time.sleep(0.05)
        return job

    finished = compiled._finished(range(100), run, 2)
    assert [next(finished) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    finished.close()
    ended = len(begun)
    time.sleep(0.3)
    assert ended <= len(begun) <= ended + 2  # those that a thread had just taken


def test_an_error_in_a_thread_is_raised_and_ends_the_rest() -> None:
    def run(job: int) -> int:
        if job == 2:
            raise KernelError("no")
        return job

    finished = compiled._finished(range(50), run, 2)
    assert [next(finished)[0] for _ in range(2)] == [0, 1]
    with pytest.raises(KernelError, match="no"):
        next(finished)


@needs_native
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"order": np.array([9])}, "row number"),
        ({"order": np.array([-1])}, "row number"),
        ({"labels": np.array([3, 1, 2, 0, 0])}, "label"),
        ({"order": np.array([0], np.int32)}, "int64"),
        ({"x": np.zeros((5, 4))}, "float64"),
        ({"x": np.zeros((5, 3), np.float32)}, r"shape \(5, 4\), but \(5, 3\)"),
        ({"size": 16}, "vector of 16"),
        ({"sizes": (2,)}, "add up"),
        ({"linear": np.zeros(3, np.float32)}, "vector of 3"),
        ({"windows": np.zeros((1, 3), np.int8)}, "pictures"),
        ({"widths": (4, 0, 3), "size": 3}, "shape"),
    ],
)
def test_wrong_calls_are_refused_in_one_sentence(wrong: dict[str, Any], match: str) -> None:
    given = {"order": np.array([0]), "labels": np.array([0, 1, 2, 1, 0]), "x": np.zeros((5, 4), np.float32), "size": 15}
    given |= {"sizes": (1,), "linear": None, "windows": None, "widths": (4, 3)} | wrong
    params = np.zeros(given["size"], np.float32)
    with pytest.raises(KernelError, match=match):
        native().kernel.train(
            Shape(given["widths"]),
            Rows(given["x"], given["labels"]),
            Walk(given["order"], given["sizes"], given["windows"]),
            Rule(0.1, linear=given["linear"]),
            params,
        )
    assert not params.any()


@pytest.mark.parametrize(
    ("processor", "calls", "sanitizers"),
    [(["-march=native"], 1_500, "address,undefined"), ([], 500, "address,alignment,bounds,shift")],
)
def test_random_calls_touch_nothing_that_is_not_theirs(
    compiler: list[str], tmp_path: Path, processor: list[str], calls: int, sanitizers: str
) -> None:
    """Many calls, a quarter of them wrong, under the address and undefined-behaviour sanitizers.

    The same with narrower vectors, where only what depends on their width is looked for: compiling takes longest.
    """
    program, source = tmp_path / "fuzz", Path(__file__).with_name("kernel_fuzz.cpp")
    checks = [
        f"-fsanitize={sanitizers}",
        "-fno-sanitize-recover=all",
        "-O0",
        "-g1",
        "-Wno-psabi",
        "-std=c++17",
        "-pthread",
    ]
    command = [*compiler, *checks, *processor, "-o", str(program), str(source), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "libasan" in built.stderr or "libubsan" in built.stderr:
        pytest.skip("this compiler comes without sanitizers")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program, str(calls), "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    fine, of = map(int, done.stdout.split(" of "))
    assert of == calls
    assert 0.5 * calls < fine < 0.9 * calls
