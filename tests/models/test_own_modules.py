"""A user's own network: every form becomes the same task, and what cannot be averaged is refused in a sentence."""

import copy
import random
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import silobench as sb
from commands import call, write
from precision import bound
from silobench.errors import ConfigError
from silobench.models import MODELS, Network, Sizes
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_runs

DIGITS = sb.load("digits")


class Net(nn.Module):
    def __init__(self, inputs: int, outputs: int, width: int = 8):
        super().__init__()
        self.hidden, self.out = nn.Linear(inputs, width), nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.hidden(x.flatten(1))))  # type: ignore[no-any-return]


def plain(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))


@pytest.fixture
def registry_as_before() -> Any:
    before, later = dict(MODELS.factories), dict(MODELS.added_later)
    yield
    for mapping, content in ((MODELS.factories, before), (MODELS.added_later, later)):
        mapping.clear()
        mapping.update(content)


def trained(task: sb.Task, algorithm: Any = None, engine: Any = None, rounds: int = 2) -> list[sb.RoundRecord]:
    federation = sb.federate(DIGITS, "label-dirichlet(beta=0.5)", parties=4, seed=0)
    method = sb.Method(algorithm or sb.fedavg(), sb.sgd(lr=0.05, epochs=1))
    return list(sb.rounds(method, federation, task, rounds=rounds, engine=engine))


# --- forms -------------------------------------------------------------------------------------------


def test_a_class_a_function_and_a_spec_start_from_the_same_weights(registry_as_before: None) -> None:
    def net(inputs: int, outputs: int) -> nn.Module:
        return Net(inputs, outputs)

    def of_sizes(sizes: sb.Sizes) -> nn.Module:
        return Net(sizes.inputs, sizes.outputs)

    MODELS.register(Net)
    sources = (Net, net, of_sizes, sb.Model(of_sizes), "net", "net(width=8)")
    vectors = [sb.task(source, DIGITS, seed=3).initial for source in sources]
    assert all(torch.equal(vector, vectors[0]) for vector in vectors)
    assert not torch.equal(vectors[0], sb.task(Net, DIGITS, seed=4).initial)


def test_a_module_is_where_training_starts_and_is_not_changed() -> None:
    module = Net(64, 10)
    before = copy.deepcopy(module.state_dict())
    task = sb.task(module, DIGITS, seed=5)
    weights = torch.cat([tensor.flatten() for tensor in before.values()])
    assert torch.equal(task.initial, weights)
    assert trained(task)[-1].accuracy != trained(task)[0].accuracy
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_every_guess_at_registering_a_model_works(registry_as_before: None) -> None:
    @sb.MODELS.register
    def returns_module() -> nn.Module:
        return plain(64, 10)

    @sb.MODELS.register
    def returns_builder(width: int = 4) -> Callable[..., nn.Module]:
        return lambda inputs, outputs: Net(inputs, outputs, width)

    @sb.MODELS.register
    def returns_class() -> type[nn.Module]:
        return Net

    @sb.MODELS.register
    def takes_sizes(inputs: int, outputs: int, width: int = 4, activation: Any = nn.ReLU) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), activation(), nn.Linear(width, outputs))

    @sb.MODELS.register
    class Registered(Net):
        """A class."""

    for spec, count in (
        ("returns-module", 650), ("returns-builder", 310), ("returns-builder(width=8)", 610), ("returns-class", 610),
        ("takes-sizes(width=2)", 160), ("registered(width=2)", 160),
    ):  # fmt: skip
        first, again, other = (sb.task(spec, DIGITS, seed=seed).initial for seed in (0, 0, 1))
        assert len(first) == count
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
    assert str(MODELS.bind("takes-sizes").full) == "takes-sizes(width=4)"  # a class as a default has no text
    assert isinstance(Registered(4, 2), Net)
    assert isinstance(takes_sizes(4, 2), nn.Module)
    with pytest.raises(sb.SilobenchError, match="registered has no argument 'widht': did you mean width"):
        sb.task("registered(widht=2)", DIGITS)


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        (lambda: None, "returned None, but a model is needed: return a torch.nn.Module"),
        (lambda: 3, "returned 3, but a model is needed"),
        (lambda inputs, outputs: None, "returned None, but a torch.nn.Module is needed"),
        (lambda depth: nn.Linear(64, 10), "needs the argument 'depth', which silobench does not know"),
        (lambda inputs: nn.Linear(inputs, -1), "fails when it is called for rows of shape"),
    ],
)
def test_a_wrong_factory_is_one_sentence(factory: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        sb.task(factory, DIGITS)


@pytest.mark.parametrize("source", [3, [nn.Linear(2, 2)], object()])
def test_what_is_not_a_model_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not a model: give the text of a spec, a torch.nn.Module"):
        sb.task(source, DIGITS)


def test_only_a_function_or_a_class_is_registered() -> None:
    with pytest.raises(ConfigError, match="register a function that returns it"):
        sb.MODELS.register(3)  # type: ignore[call-overload]


# --- a file ------------------------------------------------------------------------------------------

FILE = """
import torch
from torch import nn
from sklearn.linear_model import SGDClassifier

class Net(nn.Module):
    def __init__(self, shape, outputs, width=8, *, bias=True):
        super().__init__()
        inputs = torch.Size(shape).numel()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, width, bias), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x):
        return self.layers(x)

def deep(inputs, classes, depth=2):
    layers = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(inputs, inputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(inputs, classes))

flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
clf = SGDClassifier(loss="log_loss")
"""


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    return write(tmp_path / "model.py", FILE)


def test_a_file_has_classes_functions_modules_and_estimators(model_file: Path) -> None:
    sizes = {
        f"module(path={model_file}:Net)": 65 * 8 + 90,
        f"module(path={model_file})": 65 * 8 + 90,
        f"module(path={model_file}:Net, width=4, bias=false)": 64 * 4 + 50,
        f"module({model_file}:deep, depth=1)": 65 * 64 + 650,
        f"module(path={model_file}:flat)": 650,
        f"module(path={model_file}:clf)": 650,
    }
    for spec, size in sizes.items():
        assert len(sb.task(spec, DIGITS).initial) == size


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("missing.py:Net", "the model file .*missing.py cannot be read .*: give the path of a Python file"),
        ("model.py:Nett", "has no 'Nett': choose from Net, clf, deep, flat"),
        ("model.py:Net, depth=2", "Net has no argument 'depth': did you mean width"),
        ("model.py:flat, width=2", "so it takes no argument width: leave it out"),
        ("syntax.py:Net", "fails when it is loaded: SyntaxError"),
        ("exits.py:Net", "fails when it is loaded: SystemExit"),
        ("imports.py:Net", "import only installed packages in it"),
        ("two.py", "has 2 classes of modules: name the model, as in module"),
        ("binary.py:Net", "cannot be read .it is not text."),
    ],
)
def test_a_wrong_file_is_one_sentence(model_file: Path, path: str, sentence: str) -> None:
    folder = model_file.parent
    write(folder / "syntax.py", "class Net(:\n")
    write(folder / "exits.py", "import sys\nsys.exit(3)\n")
    write(folder / "imports.py", "import layers_of_mine\n")
    write(folder / "two.py", "from torch import nn\nclass A(nn.Module): ...\nclass B(nn.Module): ...\n")
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=sentence):
        sb.task(f"module(path={folder / path})", DIGITS)


EXPERIMENT = """
dataset = "digits"
model = "module(path={file}:Net, width=6)"
partition = "label-dirichlet(beta=0.5)"
parties = 4
solver = "sgd(epochs=1)"
rounds = 3
"""


def test_a_changed_file_is_another_run(model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment, out = write(tmp_path / "e.toml", EXPERIMENT.format(file=model_file)), tmp_path / "runs"
    for text, count in ((FILE, 1), (FILE, 1), (FILE + "\n# a note\n", 2)):
        write(model_file, text)
        result = call(capsys, "run", experiment, "--workers", "1", "--out", out)
        assert result.code == 0, result.err
        assert len(read_runs(out)) == count
    first, second = read_runs(out)
    assert first.rounds[-1].loss == second.rounds[-1].loss
    swapped = write(tmp_path / "f.toml", EXPERIMENT.format(file=model_file).replace("width=6", "width=6, bias=true"))
    assert call(capsys, "run", swapped, "--workers", "1", "--out", out).code == 0
    assert len(read_runs(out)) == 3


def test_workers_train_it_with_the_same_bits(model_file: Path) -> None:
    task = sb.task(f"module(path={model_file}:Net)", DIGITS)
    here, there = trained(task), trained(task, engine=sb.pool(2))
    assert torch.equal(here[-1].state.server.params, there[-1].state.server.params)


def test_runs_side_by_side_have_the_same_bits(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXPERIMENT.format(file=model_file) + 'algorithm = ["fedavg", "scaffold"]\n'
    experiment = write(tmp_path / "e.toml", text)
    outs = [tmp_path / name for name in ("two", "one")]
    for out, workers in zip(outs, "21", strict=True):
        result = call(capsys, "run", experiment, "--workers", workers, "--out", out)
        assert result.code == 0, result.err
    digests = [[run.facts.model_sha256 for run in read_runs(out)] for out in outs]
    assert digests[0] == digests[1]


def test_an_interrupted_run_resumes_with_the_same_bits(model_file: Path, tmp_path: Path) -> None:
    choices = tomllib.loads(EXPERIMENT.format(file=model_file))
    for out, stops in (("whole", ()), ("parts", (1, 2))):
        for stop in (*stops, 3):
            (planned,) = plan(choices)
            with closing(execute(prepare(planned), tmp_path / out, "inline")) as records:
                for record in records:
                    if record.round == stop < 3:
                        break
    (whole,), (parts,) = (read_runs(tmp_path / out) for out in ("whole", "parts"))
    assert parts.complete
    assert whole.facts.state_sha256 == parts.facts.state_sha256


def test_a_network_of_a_plugin_is_trained_by_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registry_as_before: None
) -> None:
    code = FILE.replace("class Net", "import silobench as sb\n\n@sb.MODELS.register\nclass PluginNet")
    plugin = write(tmp_path / "plugin.py", code)
    text = EXPERIMENT.replace("module(path={file}:Net, width=6)", "pluginnet(width=6)")
    experiment = write(tmp_path / "e.toml", text)
    digests = []
    for engine in ("inline", "pool(workers=2)"):
        out = tmp_path / engine[:4]
        result = call(capsys, "run", experiment, "--plugin", plugin, "--engine", engine, "--out", out)
        assert result.code == 0, result.err
        digests += [run.facts.model_sha256 for run in read_runs(out)]
    assert digests[0] == digests[1]


def test_a_network_that_does_not_fit_is_one_line_on_the_command_line(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(model_file, FILE.replace("nn.Linear(width, outputs)", "nn.Linear(width, 3)"))
    experiment = write(tmp_path / "e.toml", EXPERIMENT.format(file=model_file))
    result = call(capsys, "run", experiment, "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith(f"error: the network Net of {model_file} answers shape (4, 3) for 4 rows, but the objective")
    assert not list((tmp_path / "runs").glob("*"))


# --- what averaging cannot handle --------------------------------------------------------------------


class Hidden(Net):
    """Keeps its state between batches, as some recurrent networks do."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.state: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        z = self.hidden(x.flatten(1))
        self.state = z.mean(0).detach() if self.state is None else 0.5 * self.state + z.mean(0).detach()
        return self.out(z + self.state)  # type: ignore[no-any-return]


class CountsCalls(Net):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls = self.calls + 1
        return super().forward(x)


class IntegerCounter(Net):
    steps: Tensor

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.steps += int(self.training)
        return super().forward(x)


class Forward(Net):
    """Changes the answers of `Net` by a function."""

    def __init__(self, inputs: int, outputs: int, change: Callable[[Tensor], Any]):
        super().__init__(inputs, outputs)
        self.change = change

    def forward(self, x: Tensor) -> Any:
        return self.change(super().forward(x))


class SharedMemory(Net):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.again = nn.Linear(inputs, 8)
        self.again.weight.data = self.hidden.weight.data


def _raises(answers: Tensor) -> Tensor:
    raise KeyError("layer3")


def _weight_norm(inputs: int, outputs: int) -> nn.Module:
    layer = torch.nn.utils.weight_norm(nn.Linear(inputs, outputs))  # type: ignore[no-untyped-call]
    return nn.Sequential(nn.Flatten(), layer)


def _frozen(inputs: int, outputs: int) -> nn.Module:
    return plain(inputs, outputs).requires_grad_(False)


def _with_nan(inputs: int, outputs: int) -> nn.Module:
    module = Net(inputs, outputs)
    nn.init.constant_(module.hidden.bias, float("nan"))
    return module


def _with_momentum(momentum: float | None, tracks: bool = True) -> nn.Module:
    norm = nn.BatchNorm1d(10, momentum=momentum, track_running_stats=tracks)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10), norm)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (nn.Flatten(), "has no parameters, so there is nothing to train"),
        (_frozen, "has only frozen parameters, so there is nothing to train"),
        (SharedMemory, "hidden.weight and again.weight of SharedMemory are two parameters in the same memory"),
        (_with_nan, "has NaN or infinite values at the start"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), r"answers shape \(4, 3\) for 4 rows, .* needs \(4, 10\)"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: z[:, 0]), r"answers shape \(4,\) for 4 rows"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: (z, z)), "answers a tuple for 4 rows"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: z.long()), "which have no gradient"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: z / 0), "NaN or infinite numbers before any train"),
        (lambda inputs, outputs: Forward(inputs, outputs, _raises), r"fails on rows of shape \(4, 1, 8, 8\) and type"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: z.detach()), "cannot be trained on rows of shape"),
        (lambda inputs, outputs: Forward(inputs, outputs, F.dropout), "differently in eval mode, so that no run could"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: z * random.random()), "only random numbers"),
        (Hidden, "differently in eval mode, and keeps state between calls, which a checkpoint would lose"),
        (IntegerCounter, "the buffer steps of IntegerCounter has type int64 and changes in training"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10, dtype=torch.complex64)), "is complex"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10, device="meta")), "its device is meta"),
        (_with_momentum(None), "the layer 2 of Sequential has momentum=None, so its statistics depend on"),
        (lambda: nn.Sequential(nn.LazyLinear(10)), r"answers shape \(4, 1, 8, 10\)"),
        (lambda: nn.Sequential(nn.LazyConv2d(4, 9)), "the lazy layers of Sequential cannot be sized"),
    ],
)  # fmt: skip
def test_what_cannot_be_averaged_is_refused_before_the_first_round(source: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refusal:
        sb.task(source, DIGITS)
    assert "\n" not in str(refusal.value)


def test_batchnorm_may_average_all_batches_only_where_it_tracks_none() -> None:
    assert len(sb.task(_with_momentum(None, tracks=False), DIGITS).buffers) == 0
    assert len(sb.task(_with_momentum(0.1), DIGITS).buffers) == 20


@pytest.mark.filterwarnings("ignore:.*weight_norm.*")
def test_a_module_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot be copied .*: keep only parameters, buffers and plain values"):
        sb.task(_weight_norm, DIGITS)


@pytest.mark.parametrize(
    ("source", "note"),
    [
        (lambda: plain(64, 10).double(), "has parameters of type float64: they are trained as float32"),
        (lambda: plain(64, 10).half(), "has parameters of type float16: they are trained as float32"),
        (lambda inputs, outputs: Forward(inputs, outputs, lambda z: z.softmax(1)), "look like probabilities"),
        (CountsCalls, "changes its attribute calls in training, which is neither averaged nor stored"),
    ],
)
def test_what_may_be_a_mistake_is_noted(source: Any, note: str) -> None:
    task = sb.task(source, DIGITS)
    assert [text for text in task.notes if note in text], task.notes
    assert task.initial.dtype == torch.float32


def test_parameters_without_a_gradient_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(
        tmp_path / "model.py", FILE.replace("self.layers =", "self.spare = nn.Linear(2, 2)\n        self.layers =")
    )
    experiment = write(tmp_path / "e.toml", EXPERIMENT.format(file=file))
    result = call(capsys, "run", experiment, "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    assert "the parameters spare.weight, spare.bias of Net of " in " ".join(result.err.split())


# --- what works --------------------------------------------------------------------------------------


class Backbone(Net):
    """A frozen first layer, as in transfer learning."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.hidden.requires_grad_(False)


def test_frozen_parameters_are_neither_trained_nor_sent() -> None:
    task = sb.task(Backbone, DIGITS, seed=1)
    assert len(task.initial) == 8 * 10 + 10
    before = copy.deepcopy(task.network.module.state_dict())
    records = trained(task)
    assert records[-1].bytes_up == 4 * 4 * len(task.initial)
    after = task.network.module.state_dict()
    assert torch.equal(before["hidden.weight"], after["hidden.weight"])
    assert not torch.equal(before["out.weight"], records[-1].state.server.params[:80].view(10, 8))
    whole = trained(task, engine=sb.pool(2))  # workers get the frozen weights too
    assert torch.equal(whole[-1].state.server.params, records[-1].state.server.params)


class Tied(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.first, self.second, self.out = (
            nn.Linear(inputs, inputs),
            nn.Linear(inputs, inputs),
            nn.Linear(inputs, outputs),
        )
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.second(F.relu(self.first(x.flatten(1))))))  # type: ignore[no-any-return]


def test_tied_weights_stay_tied() -> None:
    task = sb.task(Tied, DIGITS)
    assert len(task.initial) == 64 * 64 + 2 * 64 + 650
    trained(task)
    module = task.network.module
    assert isinstance(module, Tied)
    assert module.second.weight is module.first.weight
    assert isinstance(module.first.weight.grad, Tensor)


class Recurrent(nn.Module):
    def __init__(self, shape: tuple[int, ...], outputs: int):
        super().__init__()
        self.cells, self.out = nn.LSTM(shape[-1], 8, batch_first=True), nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cells(x.squeeze(1))[0][:, -1])  # type: ignore[no-any-return]


class Masked(Net):
    """A constant mask of booleans, and a table of infinite numbers that is not part of the state."""

    mask: Tensor
    table: Tensor

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.register_buffer("mask", torch.arange(inputs) % 2 == 0)
        self.register_buffer("table", torch.full((outputs,), float("inf")), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(1) * self.mask).minimum(self.table)


def _lazy() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))


@pytest.mark.parametrize("source", [Recurrent, Masked, _lazy, Tied, Backbone])
def test_unusual_networks_learn_in_this_process_and_in_workers(source: Any) -> None:
    task = sb.task(source, DIGITS)
    assert task.notes == ()
    here, there = trained(task, rounds=3), trained(task, engine=sb.pool(2), rounds=3)
    assert here[-1].loss is not None
    assert here[0].loss is not None
    assert here[-1].loss < here[0].loss
    for name in ("params", "buffers"):
        assert torch.equal(getattr(here[-1].state.server, name), getattr(there[-1].state.server, name))


def test_a_batch_of_one_row_does_not_stop_batchnorm() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 3)).astype(np.float32), np.arange(9) % 2
    data = sb.Dataset("nine", sb.Split(x, y), sb.Split(x, y), ("a", "b"), "none")

    def net(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, outputs))

    method = sb.Method(sb.fedavg(), sb.sgd(batch=4, epochs=1))  # 9 rows: batches of 4, 4 and 1
    (record,) = sb.rounds(method, sb.federate(data, "iid", parties=1), sb.task(net, data), rounds=1)
    assert record.steps == 3
    assert record.loss is not None
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(4)(torch.zeros(1, 4))


def test_a_flattened_module_answers_as_before() -> None:
    module = Recurrent((1, 8, 8), 10)
    rows = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    expected = module(rows)
    answers = Network(copy.deepcopy(module)).module(rows)
    torch.testing.assert_close(answers, expected, rtol=bound(8 * 20), atol=bound(8 * 20))


def test_rows_of_words_are_read_by_a_network_that_asks_for_the_vocabulary() -> None:
    words = np.random.default_rng(0).integers(1, 20, size=(30, 5)).astype(np.int32)
    y = (words[:, 0] > 10).astype(np.int64)
    split = sb.Split(words, y)
    data = sb.Dataset("words", split, split, ("low", "high"), "none", vocabulary=tuple(map(str, range(20))))

    class Words(nn.Module):
        def __init__(self, vocabulary: int, outputs: int):
            super().__init__()
            self.words, self.out = nn.Embedding(vocabulary, 4), nn.Linear(4, outputs)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.words(x).mean(1))  # type: ignore[no-any-return]

    task = sb.task(Words, data)
    assert len(task.initial) == 20 * 4 + 10
    assert task.notes == ()


def test_an_algorithm_that_needs_features_says_so() -> None:
    with pytest.raises(ConfigError, match="has no separate `features`, which this algorithm's loss needs"):
        trained(sb.task(Net, DIGITS), sb.moon())


def test_sizes_state_the_outputs() -> None:
    assert Sizes((3, 4), 2).outputs == 2
    assert Sizes((3, 4), 2).inputs == 12
