"""Where jobs run: any executor gives the bits of this process, and an engine and a sweep know it by name only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from engine_cases import Case, run, same

from commands import call, write
from silobench.engines import ENGINES, EXECUTORS, MODES, Engine, Executor, Job, Mode, News, inline, pool
from silobench.engines.executor import InProcess, InState, executor_of
from silobench.engines.shipping import packed, unpacked
from silobench.engines.workers import workers_of_this_command
from silobench.errors import SpecError
from silobench.method.types import Context, Memory, Transform, Update
from silobench.runs.experiment import plan
from silobench.runs.stored import read_run, read_runs
from silobench.runs.sweep import sweep
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory

ONCE = {"solver": "sgd(epochs=1)"}


class Recorded(InState):
    """Memories in the state, with a list of the parties that were asked for."""

    def __init__(self) -> None:
        self.parties: list[tuple[int, ...]] = []

    def of(self, stored: Mapping[int, PartyMemory], parties: Any) -> dict[int, PartyMemory]:
        self.parties.append(tuple(parties))
        return super().of(stored, parties)


@dataclass
class Backwards:
    """An executor that runs copies of jobs, the last one first, as an executor on other machines might."""

    workers: int
    memories: Recorded = field(default_factory=Recorded)
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        self.calls.append("results")
        return reversed([unpacked(packed(job))() for job in reversed(jobs)])

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        self.calls.append("news")
        for place in reversed(range(len(jobs))):
            yield from (replace(news, job=place) for news in InProcess().news([jobs[place]]))


@pytest.fixture
def backwards(monkeypatch) -> Backwards:
    """Register the executor `backwards` for a test, and return the one with two workers."""
    monkeypatch.setattr(EXECUTORS, "factories", dict(EXECUTORS.factories))
    made: dict[int, Backwards] = {}

    @EXECUTORS.register
    def backwards(workers: int = 1) -> Executor:
        return made.setdefault(workers, Backwards(workers))

    executor_of.cache_clear()
    return made.setdefault(2, Backwards(2))


@pytest.mark.parametrize("engine", ["pool(workers=2, executor=backwards)", "auto(workers=2, executor=backwards)"])
def test_a_registered_executor_gives_the_bits_of_this_process(silos, monkeypatch, backwards, engine: str) -> None:
    monkeypatch.setattr("silobench.engines.engine._WORTH_SENDING", 0.0)
    monkeypatch.setattr("silobench.engines.kernel.why_not", lambda: "there is no compiler")
    monkeypatch.setattr("silobench.engines.modes.stacked._IN_A_STACK", 2)
    case = Case(spec="scaffold", widths=(6,), sizes=(20, 1, 9, 8))
    options = {"rounds": 2, "participation": 3}
    chosen = ENGINES.build(engine)
    alone = Engine(chosen.modes)
    expected = run(case.spec, case.federated(silos), alone, case.solver, **options)
    records = run(case.spec, case.federated(silos), chosen, case.solver, **options)
    assert same(records) == same(expected)
    assert "results" in backwards.calls
    assert backwards.memories.parties == [record.cohort for record in records]
    assert {record.workers for record in records} == {2}


def test_a_sweep_runs_its_plans_on_the_executor_of_its_engine(tmp_path: Path, backwards) -> None:
    plans = plan({"dataset": "fcube", "partition": "octants", "algorithm": ["fedavg", "scaffold"], "rounds": 2, **ONCE})
    for engine, out in (("inline", "alone"), ("pool(workers=2, executor=backwards)", "many")):
        list(sweep(plans, tmp_path / out, engine, workers=1 if out == "alone" else 2))
    assert backwards.calls[0] == "start"
    runs = [[read_run(tmp_path / out / each.id).facts.state_sha256 for each in plans] for out in ("alone", "many")]
    assert runs[0] == runs[1]


def test_executors_are_known_by_name() -> None:
    assert {row["name"] for row in EXECUTORS.describe()} >= {"here", "pool"}
    assert executor_of("pool", 2) is workers_of_this_command(2)
    assert executor_of("here", 5).workers == 1
    assert (pool(workers=3).place(3).workers, inline().place(0).workers) == (3, 1)
    with pytest.raises(SpecError, match=r"there is no executor 'pol': did you mean pool\?"):
        ENGINES.build("auto(executor=pol)")


def test_an_executor_gets_the_arguments_of_its_spec(monkeypatch) -> None:
    monkeypatch.setattr(EXECUTORS, "factories", dict(EXECUTORS.factories))
    folders: list[str] = []

    @EXECUTORS.register
    def elsewhere(workers: int = 1, folder: str = "here") -> Executor:
        folders.append(folder)
        return Backwards(workers)

    for kind in ("auto", "stacked", "vmap", "pool"):
        engine = ENGINES.build(f"{kind}(workers=2, executor='elsewhere(folder={kind})')")
        assert engine.place(2).workers == 2
    assert folders == ["auto", "stacked", "vmap", "pool"]


def test_jobs_in_this_process_report_as_those_of_workers_do(two) -> None:
    def count(last: int) -> Iterator[int]:
        yield from range(last)

    jobs = [Job(count, (), (2,)), Job(len, (), ("abc",)), Job(count, (), (1,))]
    by_job = [sorted(each, key=lambda news: news.job) for each in (list(two.news(jobs)), list(InProcess().news(jobs)))]
    assert by_job[0] == by_job[1]
    assert by_job[1][-1] == News(2, None, final=True)
    assert list(InProcess().results(jobs[1:2])) == [3]


def test_memories_of_the_state_list_only_parties_that_have_any() -> None:
    store, stored = InState(), {3: {"solver": {}}, 4: {"algorithm": {}}}
    assert store.of(stored, (4, 7)) == {4: {"algorithm": {}}, 7: {}}
    after = store.put(stored, {4: {}, 7: {"solver": {}}})
    assert after == {3: {"solver": {}}, 7: {"solver": {}}}
    assert stored.keys() == {3, 4}


def test_a_new_mode_is_a_value(silos, monkeypatch) -> None:
    """An engine takes the first mode that does not refuse, by its name."""
    case, trained = Case(), []

    def refusal(setting: Setting) -> str | None:
        return None if setting.method.algorithm.loss is None else "it has a loss of its own"

    def train(*call: Any) -> Any:
        trained.append(list(call[1]))
        return MODES["inline"].train(*call)

    monkeypatch.setitem(MODES, "mine", Mode("mine", refusal, train, MODES["inline"].score, lambda: {"version": "7"}))
    engine = Engine(("mine", "inline"))
    records = run("fedavg", case.federated(silos), engine, case.solver, rounds=1)
    assert trained == [[0, 1, 2]]
    assert {record.engine for record in records} == {"mine"}
    assert Engine(("mine",)).environment["version"] == "7"
    by_torch = run("moon(mu=0.5)", case.federated(silos), engine, case.solver, rounds=1)
    assert {record.engine for record in by_torch} == {"inline"}
    assert len(trained) == 1


def test_former_names_of_an_engine_work() -> None:
    engine = inline()
    assert (engine.ways, engine.way) == (engine.modes, engine.mode) == (("inline",), "inline")


def test_the_executor_of_the_docs_runs(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(EXECUTORS, "factories", dict(EXECUTORS.factories))
    text = (Path(__file__).parents[2] / "docs/engines.md").read_text(encoding="utf-8")
    plugin = write(tmp_path / "futures.py", text.partition("```python\n")[2].partition("```")[0])
    text = 'dataset = "fcube"\npartition = "octants"\nsolver = "sgd(epochs=1)"\nrounds = 2\nseed = [0, 1]\n'
    file = write(tmp_path / "e.toml", text)
    digests = []
    for engine in ("inline", "pool(workers=2, executor=futures)"):
        options = ["--plugin", plugin, "--engine", engine, "--workers", "2", "--out", tmp_path / engine[:4]]
        assert call(capsys, "run", file, *options).code == 0
        digests.append(sorted(run.facts.state_sha256 for run in read_runs(tmp_path / engine[:4])))
    assert len(set(digests[0])) == 2
    assert digests[0] == digests[1]


def test_transforms_know_the_cohort_wherever_they_run(silos) -> None:
    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return replace(update, total={name: part / len(context.cohort) for name, part in update.total.items()}), memory

    case = Case(sizes=(20, 1, 9, 8))
    engines = (inline(), pool(workers=2), Engine(("stacked",)), Engine(("stacked",), workers=2))
    first, second, *others = (
        run("fedavg", case.federated(silos), engine, case.solver, Transform(encode=encode), rounds=2, participation=3)
        for engine in engines
    )
    assert same(first) == same(second)
    assert same(others[0]) == same(others[1])
