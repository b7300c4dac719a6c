"""Wrong plugins: each registers a part `mine` with a fault."""

import contextlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from silobench.runs.experiment import REGISTRIES
from wrong_inputs.case import Answer, answered, normalised
from wrong_inputs.page import row

TINY = """
dataset = "fcube"
partition = "octants"
model = "linear"
solver = "sgd(lr=0.01, epochs=1, batch=512)"
rounds = 2
"""
HEAD = "import silobench as sb, torch, numpy as np, sys\nfrom dataclasses import dataclass, replace\n\n"


class Plugin(NamedTuple):
    """A plugin that registers `mine`, the choices of the experiment, and fragments of the message."""

    code: str
    choice: str
    fragments: tuple[str, ...]


def algorithm(body: str, fields: str, *fragments: str) -> Plugin:
    return part("ALGORITHMS", body, f"sb.Algorithm({fields})", "algorithm = 'mine'", *fragments)


def part(registry: str, body: str, result: str, choice: str, *fragments: str) -> Plugin:
    """Return a plugin with some functions, and a registered function that returns `result`."""
    code = f"{textwrap.dedent(body).strip()}\n\n\n@sb.{registry}.register\ndef mine():\n    return {result}\n"
    return Plugin(code, choice, fragments)


MESSAGE = """
def message(local, server, memory):
    {}
"""
ABSORB = """
def absorb(server, update):
    {}
"""
EXTRAS = """
def extras(params):
    return {"velocity": torch.zeros_like(params)}


"""
MEMORY = """
def memory(params):
    return {"seen": torch.zeros_like(params)}


"""

# --- algorithms ---------------------------------------------------------------------------------------

ALGORITHMS = {
    "not registered": Plugin(
        "def mine():\n    return sb.Algorithm()\n", "algorithm = 'mine'", ("there is no algorithm",)
    ),
    "another name": Plugin(
        "@sb.ALGORITHMS.register\ndef other():\n    return sb.Algorithm()\n",
        "algorithm = 'mine'",
        ("there is no algorithm 'mine'",),
    ),
    "name twice": Plugin(
        "@sb.ALGORITHMS.register\ndef mine():\n    return sb.Algorithm()\n\n\n" * 2,
        "algorithm = 'mine'",
        ("the algorithm mine (plug.py, line 9) has a name that is taken", "line 4,", "replace=True"),
    ),
    "built-in name": Plugin(
        "@sb.ALGORITHMS.register\ndef fedavg():\n    return sb.Algorithm()\n",
        "algorithm = 'fedavg'",
        ("the algorithm fedavg (plug.py, line 4)", "silobench has an algorithm", "replace=True"),
    ),
    "import error": Plugin("import nowhere\n", "", ("ModuleNotFoundError in line 4: No module named 'nowhere'",)),
    "relative import": Plugin("from . import other\n", "", ("a relative import in line 4", "a single file")),
    "syntax error": Plugin("def mine(:\n", "", ("SyntaxError", "line 4")),
    "exit": Plugin("sys.exit(3)\n", "", ("it ends the program with sys.exit(3) in line 4",)),
    "wrong hook name": algorithm(
        ABSORB.format("return update"),
        "aborb=absorb",
        "the algorithm mine (plug.py, line 10) gives Algorithm a hook 'aborb'",
        "did you mean absorb?",
    ),
    "wrong hook name outside a function": Plugin(
        "MINE = sb.Algorithm(mesage=None)\n",
        "",
        ("in line 4 it gives Algorithm a hook 'mesage', which it does not have: did you mean message",),
    ),
    "returns None": Plugin(
        "@sb.ALGORITHMS.register\ndef mine():\n    sb.Algorithm()\n",
        "algorithm = 'mine'",
        ("the algorithm mine (plug.py, line 4) returned None, but it must return an sb.Algorithm(...)",),
    ),
    "returns text": part("ALGORITHMS", "", "'fedavg'", "algorithm = 'mine'", "returned the text 'fedavg'"),
    "returns a transform": part("ALGORITHMS", "", "sb.clip()", "algorithm = 'mine'", "returned a Transform, but"),
    "factory raises": part("ALGORITHMS", "", "1 / 0", "algorithm = 'mine'", "line 9) raised ZeroDivisionError"),
    "shape": algorithm(
        ABSORB.format("return update.mean()['delta'][:3], server.extras"),
        "absorb=absorb",
        "failed in round 1: the hook `absorb` of the algorithm mine (plug.py, line 4) returned a tensor of shape (3,)",
        "but the direction of the server is expected: a tensor of shape (8,) and type float32",
        "finished rounds are kept",
    ),
    "raise": algorithm(
        "def pull(server, memory):\n    a = 1\n    raise ValueError('not yet')",
        "pull=pull",
        "round 1, party 0: the hook `pull` of the algorithm mine (plug.py, line 6) raised ValueError: not yet",
    ),
    "exit in a hook": algorithm(
        "def pull(server, memory):\n    sys.exit(3)", "pull=pull", "ended the program with sys.exit(3): let it return"
    ),
    "no tuple": algorithm(
        ABSORB.format("return update.mean()['delta']"),
        "absorb=absorb",
        "returned a tensor of shape (8,) and type float32, but a pair (direction, extras) is expected",
    ),
    "wrong key": algorithm(
        ABSORB.format("return update.mean()['control'], server.extras"),
        "absorb=absorb",
        "(plug.py, line 5) raised KeyError: 'control'; extras has no names, total has delta",
    ),
    "arity": algorithm(
        "def message(local, memory):\n    return None",
        "message=message",
        "the hook `message` of the algorithm mine (plug.py, line 4) is called with (local, server, memory), but it "
        "takes (local, memory): define it as message(local, server, memory).",
    ),
    "message": algorithm(
        MESSAGE.format("return local.delta, memory"),
        "message=message",
        "the hook `message` of the algorithm mine (plug.py, line 4) returned a tensor of shape (8,) and type float32, "
        "but the message is expected: an sb.Update",
    ),
    "message without memory": algorithm(
        MESSAGE.format("return sb.Update.of(local.samples, delta=local.delta)"),
        "message=message",
        "returned an Update, but a pair (update, memory) is expected",
    ),
    "another part": algorithm(
        MESSAGE.format("return sb.Update.of(local.samples, detla=local.delta), memory"),
        "message=message",
        "an update with 'detla', but 'delta' is expected, because the hook `absorb` is FedAvg's",
    ),
    "pull": algorithm("def pull(server, memory):\n    return 0.1", "pull=pull", "returned 0.1, but an sb.Pull is"),
    "pull with a shape": algorithm(
        "def pull(server, memory):\n    return sb.Pull(0.1, server.params[:2])",
        "pull=pull",
        "returned a tensor of shape (2,) and type float32, but the anchor of an sb.Pull is expected",
    ),
    "pull with a tensor as strength": algorithm(
        "def pull(server, memory):\n    return sb.Pull(torch.tensor(0.1), server.params)",
        "pull=pull",
        "but the strength of an sb.Pull is expected: a finite number",
    ),
    "correct": algorithm(
        "def correct(grad, params, server, memory):\n    return float(grad.norm())",
        "correct=correct",
        "round 1, party 0, step 1: the hook `correct` of the algorithm mine (plug.py, line 4) returned",
        "but a gradient is expected: a tensor of shape (8,) and type float32",
    ),
    "loss": algorithm(
        "def loss(batch, server, memory):\n    return 0.0",
        "loss=loss",
        "step 1: the hook `loss` of the algorithm mine (plug.py, line 4) returned 0.0, but a loss is expected",
    ),
    "loss without gradient": algorithm(
        "def loss(batch, server, memory):\n    return torch.tensor(1.0)",
        "loss=loss",
        "type float32 without a gradient, but a loss is expected",
    ),
    "memory": algorithm(
        "def memory(params):\n    return {'seen': 0}",
        "memory=memory",
        "the hook `memory` of the algorithm mine (plug.py, line 4) returned 0 as 'seen' of the memory, but a tensor",
    ),
    "forgotten memory": algorithm(
        MEMORY + MESSAGE.format("return sb.Update.of(local.samples, delta=local.delta), {}"),
        "memory=memory, message=message",
        "the hook `message`",
        "returned a memory without 'seen', but all names must stay",
    ),
    "float64": algorithm(
        MESSAGE.format("return sb.Update.of(local.samples, delta=local.delta.double()), memory"),
        "message=message",
        "type float64 as 'delta' of the message, but the type float32 is expected: write .to(torch.float32)",
    ),
    "float64 at the server": algorithm(
        ABSORB.format("return update.mean()['delta'].double(), server.extras"),
        "absorb=absorb",
        "type float64, but the direction of the server is expected",
    ),
    "forgotten extras": algorithm(
        EXTRAS + ABSORB.format("return update.mean()['delta'], {}"),
        "extras=extras, absorb=absorb",
        "the hook `absorb` of the algorithm mine (plug.py, line 9) returned extras without 'velocity', but all names",
    ),
    "extras": algorithm(
        "def extras(params):\n    return torch.zeros_like(params)",
        "extras=extras",
        "the hook `extras`",
        "but the extras is expected: a dictionary of tensors",
    ),
    "broadcast of other extras": algorithm(
        EXTRAS,
        "extras=extras, broadcast=('control',)",
        "returned extras without control, but `broadcast` names them",
    ),
    "broadcast as text": algorithm(
        EXTRAS,
        "extras=extras, broadcast='velocity'",
        "`broadcast` of the algorithm mine (plug.py, line 8) is the text 'velocity', but a tuple of names",
    ),
    "hook as text": algorithm(
        "", "message='delta'", "the hook `message` of the algorithm mine (plug.py, line 7) is the text 'delta'"
    ),
    "flag as text": algorithm("", "lockstep='no'", "`lockstep` of the algorithm mine", "but True or False is expected"),
    "start": algorithm(
        "def start(server, memory):\n    return None",
        "start=start",
        "the hook `start`",
        "returned None, but the model at which training starts is expected",
    ),
    "personal": algorithm(
        "def personal(layout):\n    return 'bias'",
        "personal=personal",
        "the hook `personal`",
        "the text 'bias', but names",
    ),
    "replica": algorithm(
        "def replica(server, memory):\n    return memory['model']",
        "replica=replica",
        "the hook `replica` of the algorithm mine (plug.py, line 5) raised KeyError: 'model'",
    ),
    "trainings": algorithm(
        "def trainings(train, server, memory):\n    return train(server.params)",
        "trainings=trainings",
        "the hook `trainings` of the algorithm mine (plug.py, line 4) returned a Local, but a pair (training, memory)",
    ),
    "refuses": algorithm(
        "def refuses(method):\n    return True",
        "refuses=refuses",
        "the hook `refuses`",
        "returned True, but a sentence is expected, or None",
    ),
    "annotations": Plugin(
        "@sb.ALGORITHMS.register\ndef mine(mu: 'Number' = 1):\n    return sb.Algorithm()\n",
        "algorithm = 'mine'",
        ("the algorithm mine (plug.py, line 4) has annotations that cannot be read", "Number"),
    ),
    "a class": Plugin(
        "@sb.ALGORITHMS.register\nclass Mine:\n    pass\n",
        "algorithm = 'Mine'",
        ("returned a Mine, but it must return an sb.Algorithm(...)",),
    ),
    "text in register": Plugin(
        "@sb.ALGORITHMS.register('mine')\ndef mine():\n    return sb.Algorithm()\n",
        "algorithm = 'mine'",
        ("register needs a function with a name, but the text 'mine' was given",),
    ),
}


# --- other parts --------------------------------------------------------------------------------------

ENCODE = """
def encode(update, memory, context):
    {}
"""
TRANSFORM = "transforms = 'mine'"
CUT = """
def cut(split, parties, rng):
    {}
"""
PARTITION = "partition = 'mine'\nparties = 2"
OBSERVE = """
def begin(course, state, memory):
    def observe(record):
        {}

    return observe
"""
MEASURE = "measure = 'mine'"
OBJECTIVE = """
@dataclass(frozen=True)
class Mine(sb.Objective):
    name = "mine"

    def loss(self, outputs, y):
        {}

    def score(self, outputs, y):
        {}

    def values(self, score):
        {}


def fit(dataset):
    metric = sb.Metric("mine", "mine", True)
    return Mine(metric, (metric,))
"""
LOSS, SCORE = "return outputs.square().mean()", "return sb.Score(total_loss=1.0, rows=np.array([len(y)]))"


def codec(pack: str, unpack: str, *fragments: str) -> Plugin:
    body = f"""
def pack(array):
    {pack}


def unpack(content, form):
    {unpack}


def encode(update, memory, context):
    return update.coded(sb.Codec(pack, unpack)), memory
"""
    return part("TRANSFORMS", body, "sb.Transform(encode)", TRANSFORM, *fragments)


OTHERS = {
    # transforms
    "transform returns a function": part(
        "TRANSFORMS",
        ENCODE.format("return update, memory"),
        "encode",
        TRANSFORM,
        "the transform mine (plug.py, line 8) returned the function encode, but it must return an sb.Transform(encode",
    ),
    "encode without memory": part(
        "TRANSFORMS",
        ENCODE.format("return update"),
        "sb.Transform(encode)",
        TRANSFORM,
        "round 1, party 0: the hook `encode` of the transform mine (plug.py, line 4) returned an Update, but (update,",
    ),
    "encode with a shape": part(
        "TRANSFORMS",
        ENCODE.format("return update.map(lambda part: part[:2]), memory"),
        "sb.Transform(encode)",
        TRANSFORM,
        "of shape (2,) and type float32, but 'delta' of the update is expected: a tensor of shape (8,)",
    ),
    "encode in float64": part(
        "TRANSFORMS",
        ENCODE.format("return update.map(torch.Tensor.double), memory"),
        "sb.Transform(encode)",
        TRANSFORM,
        "type float64, but 'delta' of the update is expected",
    ),
    "encode without a part": part(
        "TRANSFORMS",
        ENCODE.format("return sb.Update.of(1.0, change=update.mean()['delta']), memory"),
        "sb.Transform(encode)",
        TRANSFORM,
        "an update without 'delta' in its total, but every part must stay",
    ),
    "encode reports text": part(
        "TRANSFORMS",
        ENCODE.format("return update, memory, {'rate': 'high'}"),
        "sb.Transform(encode)",
        TRANSFORM,
        "returned the text 'high', but 'rate' of a report is expected: a finite number",
    ),
    "encode arity": part(
        "TRANSFORMS",
        "def encode(update):\n    return update",
        "sb.Transform(encode)",
        TRANSFORM,
        "is called with (update, memory, context), but it takes (update)",
    ),
    "transform with an unknown hook": part(
        "TRANSFORMS",
        ENCODE.format("return update, memory"),
        "sb.Transform(encode, decoder=encode)",
        TRANSFORM,
        "gives Transform a hook 'decoder', which it does not have: did you mean decode?",
    ),
    "decode": part(
        "TRANSFORMS",
        ENCODE.format("return update, memory") + "\n\ndef decode(update, context):\n    return None",
        "sb.Transform(encode, decode)",
        TRANSFORM,
        "round 1: the hook `decode` of the transform mine (plug.py, line 8) returned None, but the decoded update",
    ),
    "settle": part(
        "TRANSFORMS",
        ENCODE.format("return update, memory")
        + "\n\ndef settle(produced, arrived, memory, context):\n    return produced",
        "sb.Transform(encode, settle=settle)",
        TRANSFORM,
        "party 0: the hook `settle` of the transform mine (plug.py, line 8) returned an Update, but the memory is",
    ),
    "settle arity": part(
        "TRANSFORMS",
        ENCODE.format("return update, memory") + "\n\ndef settle(produced, arrived):\n    return {}",
        "sb.Transform(encode, settle=settle)",
        TRANSFORM,
        "is called with (produced, arrived, memory, context), but it takes (produced, arrived)",
    ),
    # codecs
    "pack to text": codec(
        "return 'bytes'", "return content", "the hook `pack` of the codec (plug.py, line 4) returned the text 'bytes'"
    ),
    "pack raises": codec("return array.missing", "return content", "(plug.py, line 5) raised AttributeError"),
    "unpack a shape": codec(
        "return array.tobytes()",
        "return np.zeros(3, form.dtype)",
        "the hook `unpack` of the codec (plug.py, line 8) returned an array of shape (3,) and type float32, but an",
    ),
    "unpack a type": codec(
        "return array.tobytes()",
        "return np.zeros(form.shape)",
        "type float64, but an array of shape (8,) and type float32 is expected",
    ),
    "unpack arity": part(
        "TRANSFORMS",
        """
        def pack(array):
            return array.tobytes()


        def unpack(content):
            return content


        def encode(update, memory, context):
            return update.coded(sb.Codec(pack, unpack)), memory
        """,
        "sb.Transform(encode)",
        TRANSFORM,
        "the hook `unpack` of the codec",
        "is called with (content, form), but it takes (content)",
    ),
    # aggregates
    "combine": part(
        "AGGREGATES",
        "def combine(updates):\n    return torch.stack([update.total['delta'] for update in updates]).mean(0)",
        "sb.Aggregate(combine)",
        "aggregate = 'mine'",
        "round 1: the hook `combine` of the aggregate mine (plug.py, line 4) returned a tensor of shape (8,)",
        "but the aggregate is expected: an sb.Update",
    ),
    "combine without a part": part(
        "AGGREGATES",
        "def combine(updates):\n    return sb.Update.of(1.0, mean=torch.zeros(8))",
        "sb.Aggregate(combine)",
        "aggregate = 'mine'",
        "an update without 'delta' in its total",
    ),
    "combine raises": part(
        "AGGREGATES",
        "def combine(updates):\n    return updates.mean()",
        "sb.Aggregate(combine)",
        "aggregate = 'mine'",
        "(plug.py, line 5) raised AttributeError: 'list' object has no attribute 'mean'",
    ),
    "least": part(
        "AGGREGATES",
        "def combine(updates):\n    return updates[0]",
        "sb.Aggregate(combine, least=0)",
        "aggregate = 'mine'",
        "`least` of the aggregate mine (plug.py, line 8) is 0, but a number of messages of at least 1 is needed",
    ),
    # partitions
    "partition returns rows": part(
        "PARTITIONS",
        "",
        "[[0, 1], [2]]",
        PARTITION,
        "the partition mine (plug.py, line 7) returned a list of 2, but it",
    ),
    "cut returns a list": part(
        "PARTITIONS",
        CUT.format("return [np.arange(10), np.arange(10, 20)]"),
        "sb.Skew(cut)",
        PARTITION,
        "the hook `cut` of the partition mine (plug.py, line 4) returned a list of 2, but an sb.Partition(rows) is",
    ),
    "parties": part(
        "PARTITIONS",
        CUT.format("return sb.Partition((np.arange(10),))"),
        "sb.Skew(cut)",
        PARTITION,
        "returned a tuple of 1 as rows, but a tuple with an array of each of 2 parties is expected",
    ),
    "rows as floats": part(
        "PARTITIONS",
        CUT.format("return sb.Partition((np.zeros(2), np.ones(2)))"),
        "sb.Skew(cut)",
        PARTITION,
        "type float64 as rows of party 0, but an array of row numbers (int64) is expected",
    ),
    "rows outside": part(
        "PARTITIONS",
        CUT.format("return sb.Partition((np.arange(5), np.arange(5) + len(split)))"),
        "sb.Skew(cut)",
        PARTITION,
        "returned rows of party 1 that are not row numbers from 0 to",
    ),
    "rows twice": part(
        "PARTITIONS",
        CUT.format("return sb.Partition((np.arange(5), np.array([7, 7])))"),
        "sb.Skew(cut)",
        PARTITION,
        "each at most once",
    ),
    "equal names": part(
        "PARTITIONS",
        CUT.format("return sb.Partition((np.arange(5), np.arange(5, 9)), names=('north', 'north'))"),
        "sb.Skew(cut)",
        PARTITION,
        "as names, but another name for each of 2 parties is expected",
    ),
    "no rows": part(
        "PARTITIONS",
        CUT.format("return sb.Partition((np.arange(5), np.arange(0)))"),
        "sb.Skew(cut)",
        PARTITION,
        "returned no rows for party 1",
    ),
    "cut arity": part(
        "PARTITIONS",
        "def cut(split, parties):\n    return None",
        "sb.Skew(cut)",
        PARTITION,
        "is called with (split, parties, rng), but it takes (split, parties)",
    ),
    # measures
    "begin": part(
        "MEASURES",
        "def begin(course, state, memory):\n    return {'share': 1.0}",
        "sb.Measure(begin)",
        MEASURE,
        "the hook `begin` of the measure mine (plug.py, line 4) returned a dict, but a function observe(record)",
    ),
    "observe without memory": part(
        "MEASURES",
        OBSERVE.format("return {'share': 1.0}"),
        "sb.Measure(begin)",
        MEASURE,
        "the hook `observe` of the measure mine (plug.py, line 5) returned a dict, but a pair (findings, memory)",
    ),
    "findings with a tensor": part(
        "MEASURES",
        OBSERVE.format("return {'norm': record.state.server.params.norm()}, {}"),
        "sb.Measure(begin)",
        MEASURE,
        "as 'norm' of the findings, but a number is expected: write float(...)",
    ),
    "findings by number": part(
        "MEASURES",
        OBSERVE.format("return {0: 1.0}, {}"),
        "sb.Measure(begin)",
        MEASURE,
        "returned 0 as a name in the findings, but names are texts",
    ),
    "memory of numbers": part(
        "MEASURES",
        OBSERVE.format("return {}, {'seen': 1.0}"),
        "sb.Measure(begin)",
        MEASURE,
        "returned 1.0 as 'seen' of the memory, but a tensor is expected: write torch.tensor(...)",
    ),
    "observe raises": part(
        "MEASURES",
        OBSERVE.format("return record.accurcy, {}"),
        "sb.Measure(begin)",
        MEASURE,
        "(plug.py, line 6) raised AttributeError",
        "finished rounds are kept",
    ),
    "plant returns None": part(
        "MEASURES",
        OBSERVE.format("return {}, {}") + "\n\ndef plant(setting):\n    pass",
        "sb.Measure(begin, plant=plant)",
        MEASURE,
        "the hook `plant` of the measure mine (plug.py, line 11) returned None, but a setting is expected: write",
    ),
    # objectives
    "objective returns no function": part(
        "OBJECTIVES",
        "",
        "sb.Metric('a', 'a', True)",
        "objective = 'mine'",
        "returned a Metric, but it must return a function",
    ),
    "fit returns None": part(
        "OBJECTIVES",
        "def fit(dataset):\n    pass",
        "fit",
        "objective = 'mine'",
        "the hook `fit` of the objective mine (plug.py, line 4) returned None, but an sb.Objective is expected",
    ),
    "loss of rows": part(
        "OBJECTIVES",
        OBJECTIVE.format("return outputs.square().sum(1)", SCORE, "return {'mine': 1.0}"),
        "fit",
        "objective = 'mine'",
        "the hook `loss` of the objective mine (plug.py, line 8) returned a tensor of shape (8,) and type float32, but",
    ),
    "score": part(
        "OBJECTIVES",
        OBJECTIVE.format(LOSS, "return 0.5", "return {'mine': 1.0}"),
        "fit",
        "objective = 'mine'",
        "the hook `score` of the objective mine (plug.py, line 11) returned 0.5, but an sb.Score is expected",
    ),
    "values": part(
        "OBJECTIVES",
        OBJECTIVE.format(LOSS, SCORE, "return {'other': 1.0}"),
        "fit",
        "objective = 'mine'",
        "the hook `values` of the objective mine (plug.py, line 14) returned no value of 'mine'",
    ),
    "abstract objective": part(
        "OBJECTIVES",
        "class Mine(sb.Objective):\n    name = 'mine'\n\n\ndef fit(dataset):\n    return Mine(None, ())",
        "fit",
        "objective = 'mine'",
        "(plug.py, line 9) raised TypeError: Can't instantiate abstract class Mine",
    ),
    # metrics
    "metric returns a function": part(
        "METRICS", "", "lambda y, scores: 0.5", "metric = 'mine'", "but it must return an sb.MetricFunction(compute)"
    ),
    "metric raises": part(
        "METRICS",
        "def compute(y, scores):\n    return y.missing",
        "sb.MetricFunction(compute)",
        "metric = 'mine'",
        "the hook `compute` of the metric mine (plug.py, line 5) raised AttributeError",
    ),
    "metric of rows": part(
        "METRICS",
        "def compute(y, scores):\n    return scores[:, 1]",
        "sb.MetricFunction(compute)",
        "metric = 'mine'",
        "the hook `compute` of the metric mine (plug.py, line 4) returned an array of shape",
        "but a number is expected, or None where the metric is undefined",
    ),
    "metric arity": part(
        "METRICS",
        "",
        "sb.MetricFunction(lambda scores: 0.5)",
        "metric = 'mine'",
        "is called with (y, scores), but it takes (scores)",
    ),
    "metric with an unknown field": part(
        "METRICS",
        "",
        "sb.MetricFunction(lambda y, scores: 0.5, higher_better=True)",
        "metric = 'mine'",
        "gives MetricFunction a hook 'higher_better', which it does not have: did you mean higher_is_better?",
    ),
    # models
    "a builder as model": part(
        "MODELS",
        "def build(sizes):\n    return torch.nn.Linear(sizes.inputs, sizes.classes)",
        "'linear'",
        "model = 'mine'",
        "the model mine (plug.py, line 8) returned the text 'linear', but a model is needed: return a torch.nn.Module",
    ),
    "module returns None": part(
        "MODELS",
        "def module(sizes):\n    pass",
        "sb.Model(module)",
        "model = 'mine'",
        "the hook `module` of the model mine (plug.py, line 4) returned None, but a torch.nn.Module is expected",
    ),
    "module raises": part(
        "MODELS",
        "def module(sizes):\n    return torch.nn.Linear(sizes.features, 2)",
        "sb.Model(module)",
        "model = 'mine'",
        "(plug.py, line 5) raised AttributeError: 'Sizes' object has no attribute 'features'",
    ),
    # selections and availabilities
    "selection returns a list": part(
        "SELECTIONS",
        "def select(federation, count, seed, round):\n    return [0, 1]",
        "select",
        "participation = 2\nselection = 'mine'",
        "round 1: the hook `select` of the selection mine (plug.py, line 4) returned a list of 2 with 0, but a tuple",
    ),
    "selection of numpy": part(
        "SELECTIONS",
        "def select(federation, count, seed, round):\n    return tuple(np.arange(count))",
        "select",
        "participation = 2\nselection = 'mine'",
        "as int and ascending",
    ),
    "selection of too many": part(
        "SELECTIONS",
        "def select(federation, count, seed, round):\n    return (0, 1, 2)",
        "select",
        "participation = 2\nselection = 'mine'",
        "returned (0, 1, 2), but a tuple with the numbers of 2 parties is expected",
    ),
    "selection as a tuple": part(
        "SELECTIONS",
        "",
        "(0, 1)",
        "selection = 'mine'",
        "returned a tuple of 2, but it must return a function (federation",
    ),
    "selection arity": part(
        "SELECTIONS",
        "",
        "lambda federation, count: (0,)",
        "selection = 'mine'",
        "is called with (federation, count, seed, round), but it takes (federation, count)",
    ),
    "availability of others": part(
        "AVAILABILITIES",
        "def available(cohort, seed, round):\n    return (7,)",
        "available",
        "availability = 'mine'",
        "the hook `available` of the availability mine",
        "returned (7,), but a tuple with the numbers of those parties",
    ),
    # adversaries
    "adversary of a share above 1": part(
        "ADVERSARIES",
        "",
        "sb.Adversary(20)",
        "adversary = 'mine'",
        "`share` of the adversary mine (plug.py, line 7) is 20, but a number from 0 to 1 is needed: change it.",
    ),
    "adversary without a message": part(
        "ADVERSARIES",
        "",
        "sb.Adversary(0.5, message=lambda update, context: None)",
        "adversary = 'mine'",
        "returned None, but the message of a malicious party is expected: an sb.Update",
    ),
    "adversary with labels of no class": part(
        "ADVERSARIES",
        "",
        "sb.Adversary(0.5, labels=lambda labels, classes, rng: labels + 7)",
        "adversary = 'mine'",
        "but as many labels are expected, from 0 to 1 and of type int64",
    ),
    # servers, solvers, schedules, paces, clocks, exchanges, controllers
    "server optimizer": part(
        "SERVERS",
        "def apply(params, direction, state):\n    return params + direction",
        "sb.ServerOptimizer(lambda params: {}, apply)",
        "server = 'mine'",
        "round 1: the hook `apply` of the server optimizer mine (plug.py, line 4) returned a tensor",
        "but a pair (params, state) is expected",
    ),
    "solver without a step": part(
        "SOLVERS",
        "class Mine(sb.Solver):\n    kind = 'mine'",
        "Mine(0.1, 0.0, 0.0, 1, None, 64, False)",
        "solver = 'mine'",
        "the solver mine (plug.py, line 10) raised TypeError: Can't instantiate abstract class Mine",
    ),
    "solver that returns params": part(
        "SOLVERS",
        """
        class Mine(sb.Solver):
            kind = "mine"

            def initial(self, params):
                return {}

            def step(self, params, grad, state, lr):
                return params - lr * grad
        """,
        "Mine(0.1, 0.0, 0.0, 1, None, 64, False)",
        "solver = 'mine'",
        "the hook `step` of the solver mine (plug.py, line 10) returned a tensor",
        "change params and state in place",
    ),
    "schedule": part(
        "SCHEDULES", "", "'fast'", "solver = 'sgd(lr=mine())'", "returned the text 'fast', but it must return a number"
    ),
    "schedule of a round": part(
        "SCHEDULES",
        "def rate(server):\n    return None",
        "rate",
        "solver = 'sgd(lr=mine())'",
        "the hook `schedule` of the schedule mine (plug.py, line 4) returned None, but the learning rate",
    ),
    "pace": part(
        "PACES",
        "",
        "sb.Pace(lambda arrivals: 0)",
        "pace = 'mine'\nclock = 'device'",
        "the hook `takes` of the pace mine (plug.py, line 9) returned 0, but a number of messages from 1 to 4",
    ),
    "clock": part("CLOCKS", "", "sb.Clock(lambda seed, party: 0)", "clock = 'mine'", "returned 0, but rows per second"),
    "exchange": part(
        "EXCHANGES",
        "",
        "sb.Exchange(lambda meeting: None)",
        "exchange = 'mine'",
        "the hook `combine` of the exchange mine (plug.py, line 9) returned None, but an sb.Outcome is expected",
    ),
    "mix": part(
        "EXCHANGES",
        "def mix(meeting, trained):\n    return list(trained.values())",
        "sb.mixing(mix, lambda setting, cohort, answer, sizes: [])",
        "exchange = 'mine'",
        "the hook `mix` of the exchange mine (plug.py, line 4) returned a list of 4, but a model of each party",
    ),
    "controller": part(
        "CONTROLLERS",
        "",
        "sb.Controller(lambda server, memory, probe: {})",
        "controller = 'mine'",
        "the hook `steer` of the controller mine (plug.py, line 9) returned a dict, but an sb.Orders is expected",
    ),
    "network": part(
        "NETWORKS", "", "'10Mbps'", "network = 'mine'", "returned the text '10Mbps', but it must return an sb.N"
    ),
    "dataset": part(
        "DATASETS", "", "np.zeros((3, 2))", "dataset = 'mine'", "the dataset mine (plug.py", "an sb.Dataset"
    ),
}


def write_files(plugin: Plugin, folder: Path) -> list[str]:
    """Write a plugin and an experiment that uses it; return the command that runs it."""
    keys = {line.split(" = ")[0] for line in plugin.choice.splitlines() if line}
    kept = [line for line in TINY.strip().splitlines() if line.split(" = ")[0] not in keys]
    (folder / "plug.py").write_text(HEAD + plugin.code)
    (folder / "e.toml").write_text("\n".join([*kept, plugin.choice, ""]))
    command = ["run", folder / "e.toml", "--plugin", folder / "plug.py", "--workers", "1", "--out", folder / "runs"]
    return list(map(str, command))


def plugin_row(name: str, answer: Answer, folder: Path) -> str:
    """Return a row of docs/errors.md; `folder` is where the plugin is."""
    (message,) = (line for line in answer.err.splitlines() if "error: " in line)
    return row(name, answer.code, normalised(message, folder))


def plugin_rows(folder: Path) -> list[str]:
    """Run all plugins, and return their rows."""
    rows = []
    for place, (name, plugin) in enumerate({**ALGORITHMS, **OTHERS}.items()):
        here = folder / str(place)
        here.mkdir()
        with registries_as_before():
            rows.append(plugin_row(name, answered(write_files(plugin, here)), here))
    return rows


@contextlib.contextmanager
def registries_as_before() -> Iterator[None]:
    """Forget what the body registers: two plugins of the same name are refused in one process."""
    contents = [content for r in REGISTRIES.values() for content in (r.factories, r.added_later, r.specs)]
    before = [dict(content) for content in contents]
    try:
        yield
    finally:
        for content, earlier in zip(contents, before, strict=True):
            content.clear()  # type: ignore[attr-defined]
            content.update(earlier)  # type: ignore[attr-defined]
