"""A secure sum between real silos at the server: keys were agreed before the first round, and silos give shares."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from silobench.method.secure import Pairwise, Present, StreamKeys
from silobench.method.secure.pairwise import (
    masks_left,
    messages_of_advertising,
    messages_of_sharing,
    messages_of_unmasking,
)
from silobench.method.types import Memory, Phase
from silobench.silos.answers import check_shares
from silobench.silos.letters import Letter
from silobench.silos.secret_keys import ADVERT_BYTES, commitment_of, public_key_of
from silobench.silos.session import Session


@dataclass(frozen=True)
class RemotePairwise(Pairwise):
    """Pairwise masks whose parties are silos: the server forwards what it cannot read."""

    session: Session = field(kw_only=True)
    round: Callable[[], int] = field(kw_only=True)  # () -> the current round
    digest: Callable[[], bytes] = field(kw_only=True)  # () -> that to which masks of the round are bound

    def agree(self, cohort: Sequence[int], present: Present) -> tuple[dict[int, Memory], list[Phase]]:
        """Return the silos that shared keys before the first round, whose record has the messages of all rounds."""
        members, rounds = self.session.members, self.session.agreement.plan.cell.rounds
        phases = [
            messages_of_advertising(cohort, cohort, size=ADVERT_BYTES),
            messages_of_sharing(cohort, members, members),
        ]
        sent = [_repeated(phase, rounds) for phase in phases] if self.round() == 0 else []
        rest = self.remaining(cohort, lambda phase: members, "shares", cohort, lambda rest: sent)
        return {party: {} for party in rest}, sent

    def reveal(
        self, memories: Mapping[int, Memory], cohort: Sequence[int], present: Present, size: int
    ) -> tuple[StreamKeys, list[Phase]]:
        """Ask the silos that answered for shares, and restore the masks that are left in the sum."""
        session, roster, number = self.session, self.session.roster, self.round()
        survivors = self.remaining(list(memories), lambda phase: memories, "replies", cohort)
        names = [roster.names[party] for party in survivors]
        letters = {name: session.letter("unmask", name, {"survivors": names}, {}, number) for name in names}
        threshold, members = self.least(len(cohort)), session.members

        def shares_in(answer: Letter) -> dict[int, bytes]:
            check_shares(answer, [roster.names[party] for party in members])
            return {party: answer.arrays[f"share/{roster.names[party]}"].tobytes() for party in members}

        session.settle_survivors(number, names)
        answers = session.ask(letters, threshold, shares_in)
        shares = {roster.names.index(name): each for name, each in answers.items()}
        helpers = self.remaining(
            survivors, lambda phase: shares, "unmasking", cohort,
            lambda rest: [messages_of_unmasking(survivors, rest, len(members))],
        )  # fmt: skip
        adverts = {party: session.joins[roster.names[party]].arrays["adverts"] for party in members}
        left = masks_left(
            {party: shares[party] for party in helpers},
            survivors,
            {party: public_key_of(each, number) for party, each in adverts.items()},
            threshold,
            self.digest(),
            {party: commitment_of(each, number) for party, each in adverts.items()},
            roster.names,
        )
        return left, [messages_of_unmasking(survivors, helpers, len(members))]


def _repeated(phase: Phase, times: int) -> Phase:
    """Return the messages of several rounds as those of one."""
    up, down = ({party: times * size for party, size in each.items()} for each in (phase.up, phase.down))
    return replace(phase, up=up, down=down)
