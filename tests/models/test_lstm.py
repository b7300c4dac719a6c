"""The LSTM on frozen word vectors: torch's numbers from a layer of our own, rows of any length, and whole runs."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import silobench as sb
from laws import bits
from silobench.data import word_vectors
from silobench.data.dataset import Dataset, Split
from silobench.data.word_vectors import WordVectors
from silobench.errors import ConfigError
from silobench.method.solvers import SOLVERS
from silobench.models import MODELS, Classifier, Network, Sizes
from silobench.models.layers import dropout
from silobench.models.lstm import row_lengths
from silobench.models.lstm_layer import Lines, lstm_layer

WORDS = 30
EXACT = "lstm(hidden=7, layers=3, vectors=random-5d, dropout=0.0, last_dropout=0.0)"


def build(spec: str = EXACT, length: int = 9, classes: int = 2) -> Any:
    module = MODELS.build(spec).build(Sizes((length,), classes, WORDS), 0)
    assert isinstance(module, Classifier)
    return module


def texts(rows: int = 11, length: int = 9, seed: int = 0) -> Tensor:
    """Return rows of several lengths, one of them without words and one with padding between its words."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, WORDS, (rows, length), generator=generator, dtype=torch.int32)
    ends = torch.randint(1, length + 1, (rows,), generator=generator)
    x[torch.arange(length) >= ends[:, None]] = 0
    x[0], x[1], x[1, 2], x[2] = 0, 3, 0, 4
    return x


def torchs(module: Any, x: Tensor) -> Tensor:
    """Return what torch's layers answer at the last word of each row."""
    states, _ = module.lstm(F.embedding(x, module.vectors))
    answers: Tensor = module.out(states[torch.arange(len(x)), row_lengths(x) - 1])
    return answers


def bound(module: Any, x: Tensor) -> float:
    """Return how far rounding may move a number of the size of 1.

    Each step of each layer adds up as many products as a gate has weights, and about ten roundings follow. All numbers
    are at most about 1, and a state passes at most 1 of an error on, because gates are below 1; so errors add up.
    """
    gate = module.vectors.shape[1] + module.lstm.hidden_size + 10
    return float(2 * torch.finfo(module.vectors.dtype).eps * gate * x.shape[1] * module.lstm.num_layers)


@pytest.mark.parametrize("way", ["_packed", "_whole"])
@pytest.mark.parametrize("seed", range(3))
def test_answers_and_gradients_are_torchs(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = build().double(), texts(seed=seed)
    monkeypatch.setattr(module, "features", lambda x: getattr(module, way)(x, row_lengths(x)))
    answers, expected = module(x), torchs(module, x)
    parameters = list(module.parameters())
    near = bound(module, x)
    assert (answers - expected).abs().max() < near
    pairs = zip(*(torch.autograd.grad(a.sin().sum(), parameters) for a in (answers, expected)), strict=True)
    for gradient, torchs_gradient in pairs:  # sums over all lines
        assert torchs_gradient.abs().max() > 1e6 * near
        assert (gradient - torchs_gradient).abs().max() < near * x.numel()


def test_a_test_answers_as_training_does_without_dropout() -> None:
    for dtype in (torch.float32, torch.float64):
        module, x = build().to(dtype), texts(300)
        with torch.no_grad():
            trained, tested = module(x), module.eval()(x)
        assert (trained - tested).abs().max() < bound(module, x)


@pytest.mark.parametrize(
    ("hidden", "padding", "way"), [(7, 3, "_whole"), (7, 6, "_packed"), (129, 0, "_packed"), (128, 0, "_whole")]
)
def test_layers_are_chosen_by_the_padding_and_the_size(
    hidden: int, padding: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x = build(f"lstm(hidden={hidden}, vectors=random-5d)"), torch.ones(2, 12, dtype=torch.int32)
    x[0, 12 - padding :] = 0
    calls = []
    for name in ("_packed", "_whole"):
        monkeypatch.setattr(module, name, lambda x, lengths, name=name: calls.append(name) or torch.zeros(2, hidden))
    module(F.pad(x, (0, 5)))
    assert calls == [way]


@pytest.mark.parametrize("shares_inputs", [False, True])
def test_the_gradients_of_a_layer_are_differences_of_its_states(shares_inputs: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    counts, hidden = (5, 5, 4, 2, 2, 1), 3

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    inputs = torch.randint(0, 8, (sum(counts),), generator=generator) if shares_inputs else None
    x = numbers(9 if shares_inputs else sum(counts), 2)  # of nine inputs, at least one is not read
    lines = Lines(counts, inputs)
    weights = numbers(4 * hidden, 2), numbers(4 * hidden, hidden), numbers(4 * hidden)
    assert torch.autograd.gradcheck(lambda x, *weights: lstm_layer(x, lines, *weights), (x, *weights))


@pytest.mark.parametrize("training", [True, False])
def test_padding_does_not_matter(training: bool) -> None:
    module, x = build().train(training), texts()
    longer = F.pad(x, (0, 6))
    assert torch.equal(module(x), module(longer))
    gradients = [torch.autograd.grad(module(rows).sum(), list(module.parameters())) for rows in (x, longer)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_a_row_is_answered_alone_as_among_others() -> None:
    module, x = build().double(), texts()
    alone = torch.cat([module(row[None]) for row in x])
    assert (alone - module(x)).abs().max() < bound(module, x)
    with torch.no_grad():
        module.vectors[0] = 5.0  # of the padding, which is a word only between words and in a row without any
        changed = (module(x) - alone).abs().amax(1) > bound(module, x)
    assert changed.tolist() == [True, True] + [False] * 9


def test_lengths_end_at_the_last_word() -> None:
    assert row_lengths(torch.tensor([[5, 0, 7, 0], [0, 0, 0, 0], [1, 2, 3, 4]], dtype=torch.int32)).tolist() == [
        3,
        1,
        4,
    ]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("lstm(hidden=200, vectors=random-300d)", 723_602),  # OARF's: 2.89 MB
        ("lstm(vectors=random-50d)", 4 * 64 * (50 + 64 + 2) + 4 * 64 * (64 + 64 + 2) + 64 * 2 + 2),
        ("lstm(hidden=3, layers=1, vectors=random-5d)", 4 * 3 * (5 + 3 + 2) + 3 * 2 + 2),
    ],
)
def test_numbers_of_parameters(spec: str, count: int) -> None:
    network = Network(build(spec))
    assert (len(network.params), len(network.buffers)) == (count, 0)


def test_vectors_are_constants_of_every_seed() -> None:
    first, second = (MODELS.build(EXACT).build(Sizes((9,), 2, WORDS), seed) for seed in (0, 1))
    assert torch.equal(first.get_buffer("vectors"), second.get_buffer("vectors"))
    assert not torch.equal(Network(first).params, Network(second).params)
    assert "vectors" not in first.state_dict()
    copy = Network(first).copy().module
    assert torch.equal(copy.get_buffer("vectors"), first.get_buffer("vectors"))


def test_weights_start_as_torchs() -> None:
    module = build("lstm(hidden=100, vectors=random-5d)")
    weights = torch.cat([weight.flatten() for weight in module.lstm.parameters()]).detach()
    assert weights.abs().max() <= 0.1
    assert abs(weights.std() - 0.1 / 3**0.5) < 0.001  # 122,000 draws from U(-0.1, 0.1)


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        (Sizes((3,), 2), "cannot read rows of numbers"),
        (Sizes((3, 4), 2, WORDS), r"rows have shape \(3, 4\): use bag"),
    ],
)
def test_rows_that_are_not_lines_of_words_are_refused(sizes: Sizes, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        MODELS.build(EXACT).build(sizes, 0)


def test_vectors_of_a_file_need_the_words() -> None:
    with pytest.raises(ConfigError, match=r"needs the words .* words=dataset\.vocabulary"):
        MODELS.build("lstm(vectors=glove-50d)").build(Sizes((3,), 2, WORDS), 0)


# --- dropout -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9])
def test_dropout_is_torchs_up_to_its_random_numbers(share: float) -> None:
    x = torch.ones(200, 501)
    torch.manual_seed(0)
    values, counts = dropout(x, share, True).unique(return_counts=True)
    kept = counts[-1].item() / x.numel()
    assert abs(kept - (1 - share)) < 5 * (0.25 / x.numel()) ** 0.5
    assert values[-1].item() == pytest.approx(1 / (1 - share), rel=1e-4)
    assert values[:-1].tolist() == ([0.0] if share else [])
    assert dropout(x, share, False) is x


def test_a_dropout_close_to_1_keeps_numbers_finite() -> None:
    assert dropout(torch.ones(1000), 1 - 1e-9, True).isfinite().all()


def test_dropout_is_between_the_layers_and_before_the_last_one() -> None:
    x = texts()
    answers = {}
    for between, last in ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5)):
        module = build(f"lstm(hidden=7, vectors=random-5d, dropout={between}, last_dropout={last})")
        torch.manual_seed(0)
        answers[between, last] = module.features(x), module(x), module.eval()(x)
    (states, outputs, tested), (dropped, _, same), (also, fewer, still) = answers.values()
    assert torch.equal(states, also)
    assert not torch.equal(states, dropped)
    assert not torch.equal(outputs, fewer)
    assert torch.equal(tested, same)
    assert torch.equal(tested, still)


# --- notes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [26, 27])  # 27 of 30 words are 90%
def test_few_words_with_a_vector_are_a_note(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = WordVectors({f"w{row}": row for row in range(known)}, np.ones((known, 3), np.float32), np.zeros(3))
    monkeypatch.setattr(word_vectors, "load_vectors", lambda name: table)
    note = f"26 of 30 words of the vocabulary have a vector of some-{known}; the others get the mean vector"
    assert sb.task(f"lstm(hidden=2, vectors=some-{known})", reviews()).notes == ((note,) if known == 26 else ())
    assert sb.task("lstm(hidden=2, vectors=random-3d)", reviews()).notes == ()


# --- runs --------------------------------------------------------------------------------------------


def reviews() -> Dataset:
    """Return rows of words whose label is whether a word of the first half of the vocabulary is more frequent."""
    rng = np.random.default_rng(0)

    def split(rows: int) -> Split:
        y = rng.integers(0, 2, rows)
        x = np.where(rng.random((rows, 8)) < 0.8, 0, 14) + rng.integers(2, 16, (rows, 8))
        x = np.where((np.arange(8) < rng.integers(3, 9, (rows, 1))), np.where(y[:, None] == 1, x, 31 - x), 0)
        return Split(x.astype(np.int32), y)

    words = tuple(f"w{number}" for number in range(WORDS))
    return Dataset("reviews", split(200), split(100), ("negative", "positive"), vocabulary=words)


def run(data: Dataset, rounds: int = 7, **options: Any) -> list[Any]:
    solver = (
        "adam(lr=plateau(0.02, factor=0.5, patience=0, drops=9, threshold=0.05), epochs=2, batch=8, keep_moments=True)"
    )
    federation = sb.federate(data, "iid", parties=3, validation=0.1)
    task = sb.task("lstm(hidden=8, vectors=random-6d)", data)
    method = sb.Method(sb.fedavg(), SOLVERS.build(solver))
    return list(sb.rounds(method, federation, task, rounds=rounds, **options))


def test_a_run_learns_drops_its_rate_and_resumes_bit_for_bit() -> None:
    data = reviews()
    whole = run(data)
    assert whole[-1].accuracy > 0.7
    assert whole[-1].knobs["plateau"] < 0.02
    for done in (3, 6):
        rest = run(data, state=whole[done - 1].state)
        assert [bits(record) for record in rest] == [bits(record) for record in whole[done:]]


def test_the_number_of_workers_does_not_matter() -> None:
    data = reviews()
    inline, workers = run(data, 2), run(data, 2, engine=sb.auto(workers=2))
    assert [bits(record) for record in inline] == [bits(record) for record in workers]
