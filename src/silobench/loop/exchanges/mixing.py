"""Exchanges without a server: every party has a model of its own, and models are mixed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from silobench.loop.exchanges.exchange import Exchange, Meeting, Outcome
from silobench.method.checks import like
from silobench.method.selection import Cohort
from silobench.method.servers import is_plain_step
from silobench.method.types import Algorithm, Phase, Vector, send_delta
from silobench.spec.contract import Form, described, inner_hook
from silobench.training.setting import Setting
from silobench.training.state import Tally


def mixing(
    mix: Callable[[Meeting, Mapping[int, Vector]], Mapping[int, Vector]],
    phases: Callable[[Setting, Cohort, int, Mapping[int, int]], Sequence[Phase]],
    refuses: Callable[[Setting], str | None] = lambda setting: None,
) -> Exchange:
    """Return an exchange in which parties mix their models: ``mix(meeting, trained) -> models``, both by party.

    A party that did not answer keeps its model. The server's parameters are the mean of all models. Algorithms that
    need a server for more than the mean of the models are refused, and so are transforms, other aggregates and steps of
    the server; `refuses` is asked after that.
    """

    mix = inner_hook(mix, "mix", Form("meeting, trained", _mixed))

    def combine(meeting: Meeting) -> Outcome:
        tally, server, trained = Tally(), meeting.server, dict[int, Vector]()
        for reply in meeting.replies:
            tally.add(reply)
            (party,) = reply.sizes
            trained[party] = meeting.model(party) + reply.update.mean()["delta"]
        meeting.watch.lap("parties")
        mixed = mix(meeting, trained)
        memory = {party: {**tally.memory[party], "exchange": {"model": model}} for party, model in mixed.items()}
        every = [mixed[party] if party in mixed else meeting.model(party) for party in range(server.parties)]
        return Outcome(replace(server, params=torch.stack(every).mean(0), round=server.round + 1), tally, memory)

    return Exchange(
        combine, phases, needs_each=True, mixes=True, refuses=lambda setting: _refusal(setting) or refuses(setting)
    )


def _mixed(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the models that a hook `mix` returns."""
    trained: Mapping[int, Vector] = arguments[1]
    if not isinstance(value, Mapping) or set(value) - set(trained):
        return f"{described(value)}, but a model of each party that trained is expected: a dictionary by party"
    problems = (
        like(model, arguments[0].server.params, f"the model of party {party}") for party, model in value.items()
    )
    return next(filter(None, problems), None)


def _refusal(setting: Setting) -> str | None:
    """Return why models of this method cannot be mixed, or None."""
    method, fedavg, algorithm = setting.method, Algorithm(), setting.method.algorithm
    sends_models = algorithm.message is send_delta and algorithm.absorb is fedavg.absorb
    if not sends_models or algorithm.replica is not None or algorithm.silent or setting.personal is not None:
        return (
            "this exchange mixes the models of parties, but the algorithm needs a server, or parties that do not send "
            "whole models: use fedavg, fedprox or fedrs, or exchange = star."
        )
    if method.transforms or not method.aggregate.adds:
        return "this exchange mixes whole models itself: leave transforms empty and aggregate at mean."
    if not is_plain_step(method.server):
        return "this exchange has no server that could take a step: leave server at step(lr=1)."
    return None
