"""Compression: chains that are refused, knobs, and the page that lists what there is."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from chains import CONTEXT, chain, layout, sent
from laws import SOLVER
from silobench.errors import ConfigError, SpecError
from silobench.method.algorithms import fedavg
from silobench.method.chain import send
from silobench.method.method import Method
from silobench.method.transforms import TRANSFORMS, low_rank, quantize, rand_k, top_k
from silobench.method.types import Context, Transform, Update
from silobench.runs.experiment import plan


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("top_k | error_feedback", "error_feedback is the last transform, so nothing is lost after it: put it before"),
        (
            "error_feedback | top_k",
            "error-feedback keeps what later transforms leave out, and the transform top-k keeps",
        ),
        ("error_feedback | low_rank", "write feedback=false in one of them, or leave one out"),
        ("low_rank | top_k", "the transform low-rank and the transform top-k cannot both choose what is sent"),
        ("rand_k | low_rank(feedback=false)", "because low_rank needs whole matrices: leave one of them out"),
        ("low_rank(feedback=false) | low_rank(feedback=false)", "cannot both choose what is sent"),
        ("quantize | top_k", "the transform quantize rounds the values that are sent, so the transform top-k cannot"),
        ("sign | rand_k", "let it come last, and once"),
        ("quantize | clip | sign", "the transform sign cannot come after it"),
        ("error_feedback | error_feedback | sign", "so it would be sent twice"),
        ("rand_k(feedback=true)", "rand_k has scale=true and feedback=true, but scaled values make up for the rest"),
        ("error_feedback | rand_k", "the transform rand-k scales the values .*: write scale=false in it, or leave one"),
        ("rand_k(scale=false, feedback=true) | rand_k", "cannot both choose what is sent: leave one of them out"),
        ("top_k(feedback=false) | rand_k", "cannot both choose what is sent: leave one of them out"),
        ("rand_k | top_k(feedback=false)", "cannot both choose what is sent: leave one of them out"),
        ("error_feedback | clip | rand_k", "the transform error-feedback sends later what is left out now"),
        ("rand_k | error_feedback | quantize", "the transform rand-k scales the values .*: write scale=false in it"),
        ("quantize(bits=3)", "quantize: bits must be 2, 4, 8, 16 or 32, but 3 was given"),
    ],
)
def test_chains_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=problem):
        Method(fedavg(), SOLVER, chain(text))


def test_a_transform_that_states_nothing_may_come_anywhere() -> None:
    halves = Transform(lambda update, memory, context: (update.map(lambda part: part / 2), memory))
    for before, after in (("", "error_feedback | rand_k(scale=false)"), ("error_feedback", "sign"), ("rand_k", "")):
        Method(fedavg(), SOLVER, (*chain(before), halves, *chain(after)))


def test_error_feedback_needs_to_see_what_arrives() -> None:
    masks = Transform(lambda update, memory, context: (update, memory), decode=lambda update, context: update)
    with pytest.raises(
        ConfigError, match="needs to know what arrives, but this transform hides it until the server has"
    ):
        Method(fedavg(), SOLVER, (*chain("error_feedback"), masks))


@pytest.mark.parametrize("text", ["quantize | top_k", "sign | rand_k", "quantize | quantize", "quantize | sign"])
def test_the_one_that_rounds_comes_last(text: str) -> None:
    with pytest.raises(ConfigError, match=r"two transforms pack the values of delta, .* \(quantize, sign\) come last"):
        sent(Update.of(1.0, delta=torch.ones(3)), text)


@pytest.mark.parametrize("before", ["top_k(feedback=false)", "rand_k"])
def test_low_rank_comes_before_what_picks_entries(before: str) -> None:
    with pytest.raises(ConfigError, match="low_rank needs the whole of delta, but something before it sends only some"):
        sent(
            Update.of(1.0, delta=torch.ones(600)),
            f"{before} | low_rank",
            context=Context(0, 0, 0, layout((30, 20)), {}),
        )


# --- knobs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "knobs"),
    [
        (rand_k(), {"fraction": 0.5}),
        (low_rank(), {"rank": 1.0}),
        (quantize(), {"bits": 4.0}),
        (quantize(), {"bits": 32.0}),
    ],
)
def test_controllers_set_what_an_argument_sets(transform: Transform, knobs: dict[str, float]) -> None:
    assert {dial.name for dial in transform.dials} == set(knobs)
    ((name, value),) = knobs.items()
    update, context = Update.of(1.0, delta=torch.randn(600)), Context(0, 0, 0, layout((30, 20)), knobs)
    factories: dict[str, Any] = {"fraction": rand_k, "rank": low_rank, "bits": quantize}
    fixed = factories[name](**{name: value if name == "fraction" else int(value)})
    ours = send(update, (transform,), [{}], context)
    theirs = send(update, (fixed,), [{}], Context(0, 0, 0, layout((30, 20)), {}))
    assert (
        ours.message.nbytes == theirs.message.nbytes != send(update, (factories[name](),), [{}], CONTEXT).message.nbytes
    )
    assert torch.equal(ours.arrived.total["delta"], theirs.arrived.total["delta"])


def test_more_traffic_comes_first_on_every_dial() -> None:
    update, shapes = Update.of(1.0, delta=torch.randn(12_000)), layout((120, 100))
    for transform in (top_k(), rand_k(), low_rank(), quantize()):
        (dial,) = transform.dials
        lengths = [
            send(update, (transform,), [{}], Context(0, 0, 0, shapes, {dial.name: value})).message.nbytes
            for value in dial.grid
        ]
        assert lengths == sorted(lengths, reverse=True)
        assert len(set(lengths)) == len(lengths)


# --- the page -----------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "transforms.md").read_text(encoding="utf-8")


def test_the_page_has_every_transform_with_its_defaults() -> None:
    for row in TRANSFORMS.describe():
        arguments = row["signature"].removeprefix(row["name"]).replace("True", "true").replace("False", "false")
        text = row["name"].replace("-", "_") + arguments.removesuffix("()")
        assert f"| `{text}` |" in PAGE


def test_the_chains_of_the_page_can_be_run() -> None:
    cells = re.findall(r"^\| [^|]+ \| (`.+`) \|$", PAGE.partition("| as in |")[2].partition("\n\n")[0], re.MULTILINE)
    texts = [text.replace("\\|", "|") for cell in cells for text in re.findall("`([^`]+)`", cell)]
    assert len(texts) == 8
    for text in texts:
        Method(fedavg(), SOLVER, chain(text))
    (experiment,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(plan(tomllib.loads(experiment))) == 5


@pytest.mark.parametrize(("text", "knob", "settings_of_knob"), [("quantize", "bits", 5), ("low_rank", "rank", 6)])
def test_an_oracle_tries_the_settings_of_a_knob(text: str, knob: str, settings_of_knob: int) -> None:
    cell = {"dataset": "digits", "algorithm": "fedavg", "transforms": text, "controller": f"oracle(knob={knob})"}
    assert len(plan(cell)) == 1 + settings_of_knob
    assert len(plan({**cell, "controller": f"oracle(knob={knob}, grid=[8, 4])"})) == 3
