"""`Schedule`: how the rounds of a run proceed, as one value for the loop, for measures and for whoever starts a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from silobench.engines import Engine, inline
from silobench.errors import ConfigError
from silobench.loop.calibration import calibrated
from silobench.loop.clocks import Clock, measured
from silobench.loop.exchanges import MESH, STAR, Exchange
from silobench.loop.network import Network, link
from silobench.loop.paces import Pace, synchronous
from silobench.method.adversaries import Adversary, none
from silobench.method.aggregates import MEAN
from silobench.method.availability import Availability, always
from silobench.method.control import Controller
from silobench.method.controllers import fixed
from silobench.method.method import Method
from silobench.method.noise import need_vectors
from silobench.method.schedules import check_validation
from silobench.method.selection import Selection, cohort_size, uniform
from silobench.method.types import Algorithm, Transform
from silobench.spec.registry import need_part, part_name
from silobench.training.blank import blank_message
from silobench.training.setting import Setting


@dataclass(frozen=True)
class Prelude:
    """The cost and the report of what happens before the first round. The record of the first round reports it."""

    bytes_down: int = 0  # of rows that all parties are sent
    clock: float = 0.0  # virtual seconds that this takes
    measures: Mapping[str, Any] = field(default_factory=dict)  # the report of a warm-up


class _Names(NamedTuple):
    """Parts of a run as messages name them."""

    algorithm: str
    aggregate: str
    exchange: str
    pace: str


@dataclass(frozen=True)
class Schedule:
    """How the rounds of a run proceed.

    `participation` is a fraction of the parties, or a count if it is an integer; `selection` draws them. The model is
    tested every `eval_every` rounds on `eval_on` of the test rows (a fraction, or a count if it is an integer), and
    after the last round on all of them.
    """

    setting: Setting
    rounds: int = 50
    participation: float | int = 1.0
    eval_every: int = 1
    eval_on: float | int = 1.0
    engine: Engine = field(default_factory=inline)
    selection: Selection = field(default_factory=uniform)
    controller: Controller = field(default_factory=fixed)
    network: Network = field(default_factory=link)
    exchange: Exchange = STAR
    availability: Availability = field(default_factory=always)
    pace: Pace = field(default_factory=synchronous)
    clock: Clock = field(default_factory=measured)
    broadcast: tuple[Transform, ...] = ()  # of what the server sends; the whole model if empty
    prelude: Prelude | None = None  # None before `with_prelude`
    adversary: Adversary = field(default_factory=none)
    is_pretrained: bool = False  # whether another run trained the initial model

    def __post_init__(self) -> None:
        self._need_parts()
        if self.setting.method.algorithm.silent:
            self._exchange_nothing()
        if self.network.mesh and self.exchange is STAR:
            object.__setattr__(self, "exchange", MESH)
        needs_each, mixes = self.exchange.needs_each or self.pace.takes is not None, self.exchange.mixes
        parties = len(self.setting.federation.parties)
        is_some = 0 < self.participation <= parties and self.cohort < parties  # `check` refuses impossible ones
        cohort = self.cohort if is_some else None
        if (self.setting.needs_each, self.setting.mixes, self.setting.cohort) != (needs_each, mixes, cohort):
            setting = replace(self.setting, needs_each=needs_each, mixes=mixes, cohort=cohort)
            object.__setattr__(self, "setting", setting)
        if self.setting.adversary is not self.adversary:
            object.__setattr__(self, "setting", self.setting.attacked(self.adversary))
        in_step = self.pace.takes is None
        setting = calibrated(self.setting, self.selection, self.participation, self.rounds, in_step)
        if setting is not self.setting:
            object.__setattr__(self, "setting", setting)

    def _need_parts(self) -> None:
        """Raise `ConfigError` for a part of another kind, or for its function or its name in place of it."""
        if type(self.rounds) is not int or self.rounds < 1:
            raise ConfigError(f"rounds is {self.rounds!r}, but a number of rounds of at least 1 is needed: give one.")
        need_part(self.engine, Engine, "the engine", "engine=sb.inline()")
        need_part(self.selection, None, "the selection", "selection=sb.uniform()")
        need_part(self.controller, Controller, "the controller", "controller=sb.skewscout()")
        need_part(self.network, Network, "the network", "network=sb.link('100Mbps')")
        need_part(self.exchange, Exchange, "the exchange", "exchange=sb.gossip('ring')")
        need_part(self.availability, None, "the availability", "availability=sb.dropout(0.1)")
        need_part(self.pace, Pace, "the pace", "pace=sb.buffered(5)")
        need_part(self.clock, Clock, "the clock", "clock=sb.device(speed=1000)")
        need_part(self.adversary, Adversary, "the adversary", "adversary=sb.sign_flip(share=0.2)")
        need_part(self.broadcast, tuple, "broadcast", "broadcast=(sb.top_k(0.1),)")
        for transform in self.broadcast:
            need_part(transform, Transform, "one of the transforms of broadcast", "broadcast=(sb.top_k(0.1),)")

    def _exchange_nothing(self) -> None:
        """Leave out what concerns exchanges: a baseline is the same, whatever the methods beside it do."""
        setting = replace(self.setting, method=replace(self.setting.method, aggregate=MEAN))
        choices = {"setting": setting, "exchange": STAR, "pace": synchronous(), "broadcast": (), "adversary": none()}
        if setting.method.algorithm.pooled:
            choices["availability"] = always()
        for name, value in choices.items():
            object.__setattr__(self, name, value)

    @property
    def _named(self) -> "_Names":
        method = self.setting.method
        return _Names(
            part_name(method.algorithm, "algorithm"),
            part_name(method.aggregate, "aggregate"),
            part_name(self.exchange, "exchange"),
            part_name(self.pace, "pace"),
        )

    @property
    def _has_server(self) -> bool:
        return self.exchange.has_server and not self.exchange.mixes

    @property
    def has_server(self) -> bool:
        """Whether parties exchange messages with a server; baselines exchange nothing."""
        return self._has_server and not self.setting.method.algorithm.silent

    @property
    def cohort(self) -> int:
        """The number of parties in a round."""
        return cohort_size(len(self.setting.federation.parties), self.participation)

    def test_share(self, round: int) -> float | int:
        """Return the share of the test rows to test on after a round, counted from 1; 0 for no test."""
        if round == self.rounds:
            return 1.0
        return self.eval_on if round % self.eval_every == 0 else 0

    def check(self) -> None:
        """Raise an error for choices that do not work together."""
        has_validation = self.setting.federation.has_validation
        check_validation(self.setting.method.solver.lr, has_validation)
        if self.eval_every < 1 or self.eval_on <= 0:
            raise ConfigError(
                f"eval_every is {self.eval_every} and eval_on is {self.eval_on}: give eval_every of at least 1, and "
                "eval_on as a fraction of the test rows above 0 or a count of at least 1."
            )
        cohort, parties = self.cohort, len(self.setting.federation.parties)
        if self.setting.method.algorithm.lockstep and cohort < parties:
            raise ConfigError(
                f"{cohort} of {parties} parties would take part in a round, but {self._named.algorithm} exchanges "
                "minibatch by minibatch between all of them: leave participation at 1.0."
            )
        if self.clock.parties not in (None, parties) and not self.setting.method.algorithm.pooled:
            raise ConfigError(
                f"the clock has speeds of {self.clock.parties} parties, but the federation has {parties}: give a speed "
                "for each party, or one number for all."
            )
        self._check_exchange()
        if self.setting.method.has_noise:
            self._check_noise()
        self.steered()

    def _check_noise(self) -> None:
        """Refuse noise on the sum of the messages where it would not protect parties."""
        if not self._has_server:
            raise ConfigError(
                f"one of the transforms adds noise to the sum of the messages, but {self._named.exchange} has no "
                "server that could do it: use exchange = star."
            )
        need_vectors(blank_message(self.setting, self.setting.initial_server())[0])

    def _check_exchange(self) -> None:
        """Refuse an exchange, a pace or parties that do not answer where the method cannot do with them."""
        method, lockstep = self.setting.method, self.setting.method.algorithm.lockstep
        reason = self.exchange.refuses(self.setting)
        if reason:
            raise ConfigError(reason.replace("this exchange", self._named.exchange, 1))
        if self.network.server is not None and not self._has_server:
            raise ConfigError(
                f"the network has a link of the server (server=...), but {self._named.exchange} has no server: leave "
                "server out, or use exchange = star."
            )
        if method.aggregate.least > self.cohort:
            raise ConfigError(
                f"{self._named.aggregate} needs {method.aggregate.least} messages in a round, but {self.cohort} "
                "parties take part: let more take part, or use aggregate = mean."
            )
        self._check_hidden_sum()
        self._check_controller()
        if lockstep and (self.pace.takes is not None or self.availability is not always()):
            raise ConfigError(
                f"{self._named.algorithm} exchanges after every minibatch between all parties, so it cannot do without "
                "some of them: leave pace at synchronous and availability at always."
            )
        if self.pace.takes is not None:
            self._check_pace()
        if self.broadcast:
            self._check_broadcast()

    def _check_hidden_sum(self) -> None:
        """Refuse a transform that reveals only the sum of messages where somebody else than a server adds them up."""
        for transform in self.setting.method.transforms if self.setting.method.hides else ():
            if transform.hides and (not self._has_server or self.exchange.needs_each):
                raise ConfigError(
                    f"{part_name(transform, 'transform')} reveals only the sum of all messages to a server, but "
                    f"{self._named.exchange} needs single messages: use exchange = star."
                )
            transform.least(self.cohort)  # raises an error for too few parties

    def _check_controller(self) -> None:
        """Refuse a controller that shows single models, or scores of rows, where transforms protect parties."""
        method = self.setting.method
        if not self.controller.travels or not (method.hides or method.has_noise):
            return
        protecting = next(each for each in method.transforms if each.hides or each.equal_weights)
        raise ConfigError(
            f"{part_name(self.controller, 'controller')} sends the models of single parties to others and scores them "
            f"on training rows, which {part_name(protecting, 'transform')} does not protect: use controller = fixed."
        )

    def _check_broadcast(self) -> None:
        if self.setting.method.algorithm.lockstep:
            raise ConfigError(
                f"broadcast compresses the server's model, but with {self._named.algorithm} the server sends only what "
                "the parties' messages add up to: leave broadcast out, and compress these by transforms."
            )
        if not self._has_server or self.exchange.phases is not STAR.phases:
            raise ConfigError(
                f"broadcast compresses what a server sends to each party, but {self._named.exchange} has no server "
                "that does: leave broadcast out, or use exchange = star."
            )
        if any(transform.agree or transform.reveal for transform in self.broadcast):
            raise ConfigError(
                "one of the transforms of broadcast hides the messages of parties from the server, but the server "
                "sends the broadcast itself: use it in transforms."
            )
        if any(transform.adapt or transform.equal_weights for transform in self.broadcast):
            raise ConfigError(
                "one of the transforms of broadcast is for the messages of many parties, but the broadcast is one "
                "message of the server: use it in transforms."
            )
        try:  # transforms that only feed errors back do nothing here, which is a note (`loop/advice.py`)
            Method(Algorithm(), transforms=tuple(each for each in self.broadcast if each.packs or not each.settle))
        except ConfigError as error:
            raise ConfigError(f"in broadcast, {error}") from error

    def _check_pace(self) -> None:
        if self.clock.speed is None:
            raise ConfigError(
                f"{self._named.pace} needs to know how fast parties compute, the same in every run: set clock, as in "
                'clock = "device(speed=1000, spread=0.5)".'
            )
        if not self._has_server:
            raise ConfigError(
                f"with {self._named.pace} a server takes its step after some messages, but {self._named.exchange} has "
                "no server: leave pace at synchronous, or use exchange = star."
            )
        method, step = self.setting.method, self.pace.takes([0.0] * self.cohort) if self.pace.takes else 0
        if step < method.aggregate.least:
            raise ConfigError(
                f"{self._named.aggregate} needs {method.aggregate.least} messages, but with {self._named.pace} the "
                f"server takes its step after {step}: let it wait for more messages, or use aggregate = mean."
            )
        if method.transforms and self.setting.buffers == "average" and self.setting.task.buffers.numel():
            raise ConfigError(
                f"transforms change the normalisation statistics that parties send, and with {self._named.pace} these "
                "would arrive late: use buffers = local, a model without BatchNorm, or pace = synchronous."
            )
        if any(each.agree or each.adapt or each.equal_weights for each in method.transforms):
            raise ConfigError(
                "one of the transforms needs all parties of a round at the same time, but with "
                f"{self._named.pace} they come one by one: leave pace at synchronous."
            )

    def steered(self) -> "Schedule":
        """Return the schedule with its controller bound to the dials of the method; a controller may refuse these."""
        method, dialled = self.setting.method, self.controller.dialled
        dials = [*method.algorithm.dials, *(dial for transform in method.transforms for dial in transform.dials)]
        return replace(self, controller=dialled(dials)) if dialled else self

    def pooled(self) -> "Schedule":
        """Return the schedule with all rows at one party, if the algorithm is centralised."""
        if not self.setting.method.algorithm.pooled:
            return self
        setting = replace(self.setting, federation=self.setting.federation.pooled())
        return replace(self, setting=setting, participation=1.0)
