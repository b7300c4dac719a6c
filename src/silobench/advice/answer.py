"""The whole answer about some parties: what was measured, the kind of skew, and what to do."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from silobench.advice.components import Component, Regime, components, regime
from silobench.advice.evidence import Traits, traits_of_profiles
from silobench.advice.next_step import Subject, next_experiment, stand_in
from silobench.advice.profile import Profiles
from silobench.advice.recommend import Recommendation, recommend
from silobench.advice.tree_drawing import tree_text
from silobench.errors import DataError
from silobench.runs.stored import StoredRun
from silobench.spec.toml import toml_text

_KINDS = {"label": "labels", "feature": "features", "quantity": "sizes"}
REGIME_WORDS: dict[Regime, str] = {
    "none": "no skew that matters: the parties' rows are alike",
    "label": "label skew: the parties hold the classes in different shares",
    "feature": "feature skew: rows of the same class look different at different parties",
    "quantity": "quantity skew: the parties' rows are alike, but some hold many more of them",
    "mixed": "mixed skew: more than one kind at once",
}


@dataclass(frozen=True)
class Answer:
    """What was measured about parties, and what is recommended."""

    profiles: Profiles
    tests: tuple[Component, ...]
    regime: Regime
    traits: Traits
    recommendation: Recommendation
    subject: Subject
    participation: float
    notes: tuple[str, ...] = ()

    @property
    def experiment(self) -> dict[str, Any]:
        """The experiment to run next."""
        return next_experiment(self.subject, self.recommendation, self.participation)

    @property
    def toml(self) -> str:
        return toml_text(self.experiment, [self.subject.note] if self.subject.note else [])

    def as_json(self) -> dict[str, Any]:
        recommendation, private = self.recommendation, self.profiles.is_private
        return {
            "regime": self.regime,
            "measures": {**asdict(self.traits), "sizes": np.rint(self.profiles.sizes).astype(int).tolist()},
            "tests": [_test_json(test) for test in self.tests],
            "recommendation": recommendation.as_json(),
            "basis": recommendation.basis,
            "why_this_basis": recommendation.why_this_basis,
            "settings": recommendation.settings,
            "validation": recommendation.validation and asdict(recommendation.validation),
            "tree": tree_text(recommendation.tree),
            "next": {"toml": self.toml, "note": self.subject.note},
            "parties": list(self.profiles.parties),
            "private": {"epsilon": list(self.profiles.epsilons)} if private else None,
            "schema": self.profiles.schema.digest,
            "notes": list(self.notes),
        }

    def measured(self) -> list[str]:
        """Return what was measured, in sentences."""
        sizes, traits, counted = self.profiles.sizes, self.traits, "about " if self.profiles.is_private else ""
        features = len(self.profiles.features)
        lines = [
            f"{len(sizes)} parties hold {counted}{sizes.sum():,.0f} rows, from {sizes.min():,.0f} to {sizes.max():,.0f}"
            f" each (Gini coefficient {traits.gini:.2f}; 0 is equal).",
            f"The labels of {traits.emd / 2:.0%} of the rows would have to change to make all parties alike (EMD "
            f"{traits.emd:.2f} of 2); a party holds {traits.classes_held:.0%} of the classes, in effect.",
        ]
        feature = next(test for test in self.tests if test.kind == "feature")
        if feature.largest:
            name, effect = feature.largest[0]
            counted_features = "One feature was" if features == 1 else f"{features} features were"
            lines.append(
                f"{counted_features} compared among rows of the same class; '{name}' differs most (effect {effect:.2f};"
                " 0.1 is small, 0.3 medium, 0.5 large)."
            )
        else:
            lines.append("No feature was compared.")
        return lines

    def doubts(self) -> list[str]:
        """Return which skews could be there although they were not seen."""
        return [
            f"{_KINDS[test.kind]}: only an effect of {test.visible:.2f} or more would be seen with "
            f"{'this noise and ' if self.profiles.is_private else ''}so few rows, and {test.threshold:g} matters"
            for test in self.tests
            if test.is_blind and np.isfinite(test.visible)
        ]


def _test_json(test: Component) -> dict[str, Any]:
    return {
        "kind": test.kind,
        "present": test.is_present,
        "p": test.p,
        "adjusted_p": test.adjusted_p,
        "level": test.level,
        "effect": test.effect,
        "threshold": test.threshold,
        "visible": test.visible if np.isfinite(test.visible) else None,
        "statistic": test.statistic,
        "features": [{"name": name, "effect": effect} for name, effect in test.largest],
    }


def answer(
    profiles: Profiles,
    runs: list[StoredRun],
    source: str,
    subject: Subject | None = None,
    participation: float = 1.0,
    notes: tuple[str, ...] = (),
    traits: Traits | None = None,
) -> Answer:
    """Return the advice for profiled parties.

    `source` names the stored `runs` in sentences. Without a `subject` the rows are elsewhere, and public data stand in
    for the next experiment. `traits` replace those of the profiles, where the rows themselves were measured.
    """
    if profiles.sizes.sum() < len(profiles.parties):
        raise DataError("the profiles count fewer rows than parties: there is too much noise, so use a larger epsilon.")
    tests = components(profiles)
    kind = regime(tests)
    known = replace(traits or traits_of_profiles(profiles), participation=participation)
    return Answer(
        profiles,
        tests,
        kind,
        known,
        recommend(kind, known, runs, source),
        subject or stand_in(kind, len(profiles.parties)),
        participation,
        notes,
    )
