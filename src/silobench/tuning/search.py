"""The search: suggest trials, run them, and give up those that are hopeless. What was done before is not done again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from silobench.data.splits import for_tuning, split_rule
from silobench.errors import ConfigError, RecordError, SilobenchError
from silobench.runs.experiment import expand, plan
from silobench.runs.plan import Cell, Plan, bind
from silobench.runs.prepare import is_complete
from silobench.tuning.ranges import Value
from silobench.tuning.space import applied, read_space, values_at
from silobench.tuning.study import (
    CONFIRM,
    STUDY,
    TRIALS,
    Definition,
    Outcome,
    Pairs,
    Study,
    Trial,
    TrialResult,
    read_outcome,
    read_study,
    rungs_of,
)
from silobench.tuning.suggestions import SAMPLERS, Observation, grid_size, is_hopeless, need_optuna, suggestion

FINALISTS = 3  # trials that are repeated on further seeds
Run: TypeAlias = Callable[[Sequence[Plan], Path], None]  # runs plans into a directory


def single_setting(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices of an experiment that has one setting; its seed is the first one."""
    cells = expand(choices)
    first = cells[0]
    others = {key for cell in cells for key, value in cell.items() if value != first.get(key)} - {"seed"}
    if others:
        key = sorted(others)[0]
        raise ConfigError(
            f"tune works on one setting, but the experiment has several values of {key}: choose one with --set "
            f"{key}=..., or move the list into the table [tune]."
        )
    return first


def definition_of(choices: Mapping[str, Any], space: Mapping[str, Any], **options: Any) -> Definition:
    """Check an experiment, its search space and the options of a study; return its definition."""
    need_optuna()
    single = single_setting(choices)
    definition = Definition(single, read_space(space, bind(single).cell), **options)
    _check_ratio(definition.validation)
    if definition.sampler not in SAMPLERS:
        raise ConfigError(f"there is no sampler '{definition.sampler}': choose from {', '.join(SAMPLERS)}.")
    if definition.sampler == "grid":
        grid_size(definition.space)
    return definition


def _check_ratio(ratio: str) -> None:
    try:
        for_tuning("given", ratio)
    except ConfigError as error:
        raise ConfigError(
            f"--validation takes two whole numbers above 0, for training rows and validation rows, but '{ratio}' was "
            "given: write, for example, --validation 4:1."
        ) from error


def open_study(definition: Definition, out: Path) -> Study:
    """Return the study of a directory, or a new one; one with another definition is refused, and so are other runs."""
    if not (out / STUDY).exists():
        if any(out.glob("*/run.json")):
            raise RecordError(f"{out} holds runs, and a study needs a folder of its own: choose another --out.")
        return Study(definition)
    study = read_study(out)
    stored, now = study.definition.as_json(), definition.as_json()
    other = [key for key in now if stored[key] != now[key]]
    if other:
        what = {"choices": "experiment", "space": "search space"}.get(other[0], other[0])
        raise RecordError(
            f"{out} holds a study with another {what}: repeat the command of that study to go on with it, or choose "
            "another --out."
        )
    return study


@dataclass(frozen=True)
class Search:
    """A search in a directory. `run` runs plans; `plugins` are files that plans need."""

    out: Path
    run: Run
    plugins: tuple[Path, ...] = ()
    after_batch: Callable[[Study], None] = lambda study: None

    def until(self, study: Study, trials: int) -> Study:
        """Return the study with this many trials, or with as many as a grid has; each batch is stored when it ends."""
        batch = study.definition.batch
        for start in range(0, trials, batch):
            study = self._batch(study, range(start, min(start + batch, trials)))
        return study

    def _batch(self, study: Study, numbers: range) -> Study:
        """Run a batch of trials. Its trials are suggested by what was finished before the batch."""
        definition, first = study.definition, numbers.start
        if self._is_done(study, numbers):
            return study
        cell = bind(definition.choices).cell
        earlier = self._observed(study, first)
        higher = earlier is None or self._is_higher_better(study)
        seen, batch = list(earlier or []), []
        for number in range(first, numbers.stop):
            trial = self._trial(study, cell, number, seen, higher)
            if trial is None:
                break
            seen.append(Observation(trial.values))
            study = study.with_trial(trial)
            batch.append(trial)
        study.write(self.out)
        for trial in self._judged(definition, batch, earlier or [], higher):
            study = study.with_trial(trial)
        study.write(self.out)
        self.after_batch(study)
        return study

    def _is_done(self, study: Study, numbers: range) -> bool:
        """Whether all trials of a batch are finished or pruned."""
        trials = study.trials[numbers.start : numbers.stop]
        results = read_outcome(replace(study, trials=trials), self.out).trials
        return len(results) == len(numbers) and all(result.state != "unfinished" for result in results)

    def _trial(self, study: Study, cell: Cell, number: int, seen: Sequence[Observation], higher: bool) -> Trial | None:
        """Return a trial that was suggested before, or suggest it."""
        if number < len(study.trials):
            return study.trials[number]
        definition, choices = study.definition, cell.model_dump()
        values = (
            suggestion(definition, choices, number, seen, higher) if number else values_at(choices, definition.space)
        )
        if values is None:
            return None
        return Trial(number, values, _ids(self._plans(definition, values, number)))

    def _judged(
        self, definition: Definition, batch: Sequence[Trial], earlier: Sequence[Observation], higher: bool
    ) -> list[Trial]:
        """Run trials to their end, or until they are hopeless; return them with the round in which they were pruned."""
        going = {trial.number: trial for trial in batch if trial.pruned is None}
        plans = {number: self._plans(definition, trial.values, number) for number, trial in going.items()}
        judged = {trial.number: trial for trial in batch}
        finished = [each for each in earlier if not each.is_pruned]
        for rung in range(1, 3) if definition.prune else ():
            at = {number: _rungs(plans[number])[:rung] for number in going}
            self._run([replace(each, until=at[number][-1]) for number in going if at[number] for each in plans[number]])
            for number in [number for number in going if len(at[number]) == rung]:
                result = self._result(going[number])
                by_rung = {place: result.at(round) for place, round in enumerate(at[number], 1)}
                if is_hopeless(definition, number, by_rung, finished, higher):
                    judged[number] = replace(going.pop(number), pruned=at[number][-1])
        self._run([each for number in going for each in plans[number]])
        return list(judged.values())

    def _run(self, plans: Sequence[Plan], folder: str = TRIALS) -> None:
        """Run those plans that are not finished, after the plans that they start from."""
        out = self.out / folder
        needed = {each.id: each for plan in plans for each in (plan.origin, plan) if each}
        missing = [plan for plan in needed.values() if not is_complete(plan, out)]
        if missing:
            self.run(missing, out)

    def _plans(self, definition: Definition, values: Mapping[str, Value], number: int) -> list[Plan]:
        seeds = [definition.first_seed + place for place in range(definition.seeds)]
        try:
            return runs_of(definition, values, seeds, is_judged_by_validation=True, plugins=self.plugins)
        except SilobenchError as error:
            raise ConfigError(f"trial {number} ({shown(values)}) cannot run: {error}") from error

    def _result(self, trial: Trial) -> TrialResult:
        return read_outcome(Study(_NOTHING, (trial,)), self.out).trials[0]

    def _observed(self, study: Study, count: int) -> list[Observation] | None:
        """Return the first trials as a sampler sees them; None if there are none."""
        if not count:
            return None
        results = read_outcome(replace(study, trials=study.trials[:count]), self.out).trials
        return [_observation(result) for result in results]

    def _is_higher_better(self, study: Study) -> bool:
        return read_outcome(replace(study, trials=study.trials[:1]), self.out).metric.higher_is_better

    # --- the best setting against the defaults --------------------------------------------------------

    def repeat(self, study: Study, count: int) -> Study:
        """Run the best few trials and the defaults on further seeds, on validation rows.

        The best of many noisy scores is partly luck, and further seeds show how much.
        """
        definition, outcome = study.definition, read_outcome(study, self.out)
        first = definition.first_seed + definition.seeds
        seeds = range(first, first + count)
        finalists = {result.trial.number: result.trial for result in (outcome.default, *outcome.ranked[:FINALISTS])}
        plans = {
            number: runs_of(definition, trial.values, seeds, is_judged_by_validation=True, plugins=self.plugins)
            for number, trial in finalists.items()
        }
        self._run([each for some in plans.values() for each in some])
        return study.with_repeats({number: _ids(some) for number, some in sorted(plans.items())})

    def confirm(self, study: Study, count: int) -> Study:
        """Run the best trial and the defaults on fresh seeds with all training rows, on test rows."""
        definition, best = study.definition, read_outcome(study, self.out).best.trial
        seeds = range(study.fresh_seed, study.fresh_seed + count)
        default, tuned = (
            runs_of(definition, values, seeds, is_judged_by_validation=False, plugins=self.plugins)
            for values in ({}, best.values)
        )
        self._run([*default, *tuned], CONFIRM)
        return replace(study, confirm=Pairs(best.number, _ids(default), _ids(tuned)))


_NOTHING = Definition({}, {})


def _ids(plans: Sequence[Plan]) -> tuple[str, ...]:
    return tuple(each.id for each in plans)


def _rungs(plans: Sequence[Plan]) -> tuple[int, ...]:
    return rungs_of(plans[-1].cell.rounds)


def _observation(result: TrialResult) -> Observation:
    rungs = rungs_of(result.runs[0].label.rounds)
    recorded = [len(run.rounds) for run in result.runs]
    by_rung = {place: result.at(round) for place, round in enumerate(rungs, 1) if round <= min(recorded)}
    return Observation(result.trial.values, result.score, by_rung, result.trial.pruned is not None)


def runs_of(
    definition: Definition,
    values: Mapping[str, Value],
    seeds: Sequence[int],
    is_judged_by_validation: bool,
    plugins: Sequence[Path] = (),
) -> list[Plan]:
    """Return plans of a setting, one per seed; without `is_judged_by_validation` its runs see the test rows."""
    choices = tuned_choices(definition.choices, values)
    split = for_tuning(definition.split, definition.validation) if is_judged_by_validation else definition.split
    plans = plan({**choices, "split": split, "seed": list(seeds)}, plugins=plugins)
    origins = {each.origin.id for each in plans if each.origin}
    keys = dict.fromkeys((*plans[0].shown, *(key.partition(".")[0] for key in definition.space)))
    return [replace(each, shown=tuple(keys)) for each in plans if each.id not in origins]


def tuned_choices(choices: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return an experiment with the values of a trial; what these leave as it is stays as it was written."""
    before = bind(choices).cell.model_dump()
    after = applied(before, values)
    return {**choices, **{key: value for key, value in after.items() if value != before[key]}}


def shown(values: Mapping[str, Value]) -> str:
    """Return the values of a trial in a sentence."""
    return ", ".join(f"{key}={value}" for key, value in values.items())


def notes(definition: Definition) -> list[str]:
    """Return sentences that a reader of the results must know."""
    choices, sentences = definition.choices, []
    if split_rule(definition.split).ratio:
        sentences.append(
            f"split {definition.split} draws the test rows from the seed: test rows of one seed are training rows of "
            "another, so the trials have seen rows that the fresh seeds are tested on"
        )
    if bind(choices).is_private:
        sentences.append(
            "all trials use the same rows, and each states its own epsilon: whoever chooses the best of them spends "
            "more than that"
        )
    return sentences


def outcome_of(study: Study, out: Path) -> Outcome:
    """Return the study with what its runs say; one without a finished trial is refused."""
    outcome = read_outcome(study, out)
    if not outcome.finished:
        raise RecordError(f"{out} has no finished trial: run the same command again to go on.")
    return outcome
