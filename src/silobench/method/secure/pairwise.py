"""Pairwise masks that survive dropouts, by Bonawitz et al., "Practical Secure Aggregation" (CCS 2017)."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, islice

from silobench.errors import ConfigError, RunError, listed
from silobench.method.secure import keys, protocol, shamir
from silobench.method.secure.protocol import ID_BYTES, SEAL_BYTES, Present, StreamKeys, SumProtocol, TooFewError
from silobench.method.transform import Phase
from silobench.vectors import Memory

_ADVERT_BYTES = 2 * keys.KEY_BYTES
_MOST_GROUPS = 1000  # of helpers whose shares are tried
_BOX_BYTES = 2 * shamir.SHARE_BYTES + SEAL_BYTES


@dataclass(frozen=True)
class Pairwise(SumProtocol):
    """Every two parties share a mask, which one adds and the other subtracts; each adds a mask of its own, too.

    Any `threshold` parties can restore the keys of a party from shares: the key of the shared masks if it dropped out,
    or that of its own mask if it answered, and never both. So the server learns the sum over the parties that answered,
    unless it works together with `threshold` parties. The default threshold is floor(2n/3) + 1 of n parties.
    """

    threshold: int | None = None

    def check(self, cohort: int) -> None:
        """Refuse a threshold that is impossible, or that does not protect parties."""
        super().check(cohort)
        threshold = self.least(cohort)
        if not 2 <= threshold <= cohort:
            raise ConfigError(
                f"secure_sum has threshold={threshold}, but a round has {cohort} parties: choose a threshold from 2 to"
                " the number of parties of a round."
            )
        self._check_majority(cohort)

    def _check_majority(self, cohort: int) -> None:
        threshold = self.least(cohort)
        if 2 * threshold <= cohort:
            raise ConfigError(
                f"secure_sum has threshold={threshold}, but it must be more than half of the {cohort} parties of a"
                " round, because otherwise the server could ask one half for one kind of shares and the other half for"
                f" the other kind, and read single updates: choose at least {cohort // 2 + 1}."
            )

    @property
    def phases(self) -> tuple[str, ...]:
        """All phases."""
        return ("keys", "shares", "replies", "unmasking")

    def least(self, cohort: int) -> int:
        """Return the threshold."""
        return max(2, 2 * cohort // 3 + 1) if self.threshold is None else self.threshold

    def remedy(self, answers: int, cohort: int) -> str:
        """Return advice to lower the threshold as far as it stays more than half of the parties."""
        lowest = max(2, cohort // 2 + 1)
        if cohort < self.least(cohort):
            return "let more parties take part in every round" + (", or leave threshold out" if cohort > 1 else "")
        if answers < lowest:
            return (
                f"let fewer parties drop out (a threshold must be more than half of the parties, so at least {lowest})"
            )
        allowed = str(lowest) if answers == lowest else f"at most {answers} and at least {lowest}"
        return f"lower the threshold to {allowed}, let fewer parties drop out"

    def agree(self, cohort: Sequence[int], present: Present) -> tuple[dict[int, Memory], list[Phase]]:
        """Advertise keys, then send each other encrypted shares of them; see `Newcomer` for what a party does."""
        self._check_majority(len(cohort))
        threshold = self.least(len(cohort))
        senders = self.remaining(cohort, present, "keys", cohort, lambda rest: [messages_of_advertising(rest, ())])
        began = time.perf_counter()
        newcomers = {party: Newcomer(party, threshold) for party in senders}
        adverts = {party: newcomer.advert() for party, newcomer in newcomers.items()}
        advertising = messages_of_advertising(senders, senders, time.perf_counter() - began)

        sharers = self.remaining(
            senders, present, "shares", cohort, lambda rest: [advertising, messages_of_sharing(senders, rest, ())]
        )
        began = time.perf_counter()
        boxes = {party: newcomers[party].share(adverts) for party in sharers}
        members = {
            party: newcomers[party].finish({other: boxes[other][party] for other in sharers if other != party})
            for party in sharers
        }
        sharing = messages_of_sharing(senders, sharers, sharers, time.perf_counter() - began)
        return {party: member.to_memory() for party, member in members.items()}, [advertising, sharing]

    def mask_keys(self, memory: Memory, party: int) -> StreamKeys:
        """Return the keys of the party's own mask and of those that it shares."""
        return Member.of(memory, party).mask_keys()

    def reveal(
        self, memories: Mapping[int, Memory], cohort: Sequence[int], present: Present, size: int
    ) -> tuple[StreamKeys, list[Phase]]:
        """Ask the parties that answered for shares, and restore the masks that are left in the sum."""
        threshold = self.least(len(cohort))
        survivors = self.remaining(list(memories), lambda phase: memories, "replies", cohort)
        first = Member.of(memories[survivors[0]], survivors[0])
        publics = first.publics  # the server knows them: it forwarded them to all parties
        helpers = self.remaining(
            survivors, present, "unmasking", cohort, lambda rest: [messages_of_unmasking(survivors, rest, len(publics))]
        )
        began = time.perf_counter()
        members = {party: Member.of(memories[party], party) for party in helpers}
        answers = {party: member.shares_for(survivors) for party, member in members.items()}
        left = masks_left(answers, survivors, publics, threshold)
        return left, [messages_of_unmasking(survivors, helpers, len(publics), time.perf_counter() - began)]


def messages_of_advertising(
    senders: Sequence[int], receivers: Sequence[int], seconds: float = 0.0, size: int = _ADVERT_BYTES
) -> Phase:
    """Return the messages with public keys: a party sends its own, and the server sends each receiver all of them."""
    roster = len(senders) * (ID_BYTES + size)
    up, down = dict.fromkeys(senders, size), dict.fromkeys(receivers, roster)
    return Phase("keys", up, down, seconds=seconds)


def messages_of_sharing(
    members: Sequence[int], sharers: Sequence[int], receivers: Sequence[int], seconds: float = 0.0
) -> Phase:
    """Return the messages with shares: one from each sharer to every other member, which the server forwards."""
    up, down = ((len(parties) - 1) * (ID_BYTES + _BOX_BYTES) for parties in (members, sharers))
    messages = len(sharers) * (len(members) - 1)
    return Phase("shares", dict.fromkeys(sharers, up), dict.fromkeys(receivers, down), messages, seconds)


def messages_of_unmasking(
    survivors: Sequence[int], helpers: Sequence[int], parties: int, seconds: float = 0.0
) -> Phase:
    """Return the lists that the server sends to survivors, and the answers: a share for each of `parties` parties."""
    up, down = parties * (ID_BYTES + shamir.SHARE_BYTES), len(survivors) * ID_BYTES
    return Phase("unmasking", dict.fromkeys(helpers, up), dict.fromkeys(survivors, down), seconds=seconds)


@dataclass
class Newcomer:
    """A party that agrees on keys with the others of its round."""

    party: int
    threshold: int
    mask_key: bytes = field(default_factory=keys.new_key, repr=False)  # private, of the masks shared with others
    channel_key: bytes = field(default_factory=keys.new_key, repr=False)  # private, of messages to other parties
    seed: bytes = field(default_factory=keys.new_key, repr=False)  # of its own mask
    publics: dict[int, bytes] = field(default_factory=dict)  # public keys of the masks, by party
    channels: dict[int, bytes] = field(default_factory=dict, repr=False)  # keys for messages, by party
    reserved: bytes = field(default=b"", repr=False)  # the shares that it gives itself

    def advert(self) -> bytes:
        """Return its two public keys, which everybody may know."""
        return keys.public_key(self.mask_key) + keys.public_key(self.channel_key)

    def share(self, adverts: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return shares of its mask key and seed for every other party that advertised, encrypted."""
        if len(adverts) < self.threshold or len(set(adverts.values())) < len(adverts):
            raise RunError(
                f"party {self.party} was sent the keys of {len(adverts)} parties, but it needs those of at least"
                f" {self.threshold}, all different, so it leaves the round.",
                "",
            )
        self.meet(adverts)
        places = [place(party) for party in adverts]
        key_shares, seed_shares = (shamir.split(key, self.threshold, places) for key in (self.mask_key, self.seed))
        shares = {party: key + seed for party, key, seed in zip(adverts, key_shares, seed_shares, strict=True)}
        self.reserved = shares.pop(self.party)
        return {other: keys.seal(self.channels[other], both, self.party, other) for other, both in shares.items()}

    def meet(self, adverts: Mapping[int, bytes]) -> None:
        """Note the public keys of all parties that advertised, and agree with each other party on a key."""
        self.publics = {party: advert[: keys.KEY_BYTES] for party, advert in adverts.items()}
        others = {party: advert[keys.KEY_BYTES :] for party, advert in adverts.items() if party != self.party}
        self.channels = keys.shared_keys(self.channel_key, others, self.party, "shares")

    def finish(self, boxes: Mapping[int, bytes]) -> "Member":
        """Open the shares of the other parties, and forget those that sent none."""
        shares = {other: keys.unseal(self.channels[other], box, other, self.party) for other, box in boxes.items()}
        shares[self.party] = self.reserved
        publics = {party: self.publics[party] for party in shares}
        return Member(self.party, self.threshold, self.mask_key, self.seed, publics, shares)


@dataclass
class Member:
    """A party that holds shares of all others: it can mask its update, and help to unmask the sum once."""

    party: int
    threshold: int
    mask_key: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    publics: dict[int, bytes]  # public keys of the masks, by party; it is one of them
    shares: dict[int, bytes] = field(repr=False)  # of the mask key and of the seed of each party
    answered: frozenset[int] | None = None  # the survivors for which it has given shares
    digest: bytes = b""  # of what all parties must have in common, if masks are bound to it

    def mask_keys(self) -> StreamKeys:
        """Return the keys of its own mask and of those that it shares."""
        others = {party: public for party, public in self.publics.items() if party != self.party}
        shared = keys.shared_keys(self.mask_key, others, self.party, "mask")
        own = (1, keys.bound(self.seed, self.digest))
        signs = {other: 1 if self.party > other else -1 for other in shared}
        return [own, *((signs[other], keys.bound(key, self.digest)) for other, key in shared.items())]

    def shares_for(self, survivors: Collection[int]) -> dict[int, bytes]:
        """Return a share of the seed of each survivor, and a share of the mask key of every other party.

        It refuses a second list of survivors: both kinds of shares for one party would reveal the update of this party.
        """
        listed = frozenset(survivors)
        if self.answered not in (None, listed):
            raise RunError(
                f"party {self.party} was sent a second list of parties that answered, which differs from the first: it"
                " gives no shares, because both lists together would reveal the update of a party.",
                "",
            )
        if len(listed) < self.threshold or not listed <= self.shares.keys() or self.party not in listed:
            raise RunError(
                f"party {self.party} was sent a list of {len(listed)} parties that answered, but it needs at least"
                f" {self.threshold} parties of its round, itself included: it gives no shares.",
                "",
            )
        self.answered = listed
        size = shamir.SHARE_BYTES
        return {party: both[size:] if party in listed else both[:size] for party, both in self.shares.items()}

    def to_memory(self) -> Memory:
        """Return all secrets as a memory of the party."""
        numbers = [self.threshold, *self.shares]
        return protocol.to_memory(
            {
                "numbers": b"".join(number.to_bytes(ID_BYTES) for number in numbers),
                "mask_key": self.mask_key,
                "seed": self.seed,
                "publics": b"".join(self.publics[party] for party in self.shares),
                "shares": b"".join(self.shares.values()),
                **({"digest": self.digest} if self.digest else {}),
            }
        )

    @classmethod
    def of(cls, memory: Memory, party: int) -> "Member":
        """Return the party that has a memory."""
        secrets = protocol.from_memory(memory)
        threshold, *parties = (int.from_bytes(number) for number in protocol.pieces(secrets["numbers"], ID_BYTES))
        publics = dict(zip(parties, protocol.pieces(secrets["publics"], keys.KEY_BYTES), strict=True))
        shares = dict(zip(parties, protocol.pieces(secrets["shares"], 2 * shamir.SHARE_BYTES), strict=True))
        digest = secrets.get("digest", b"")
        return cls(party, threshold, secrets["mask_key"], secrets["seed"], publics, shares, digest=digest)


def masks_left(
    answers: Mapping[int, Mapping[int, bytes]],
    survivors: Collection[int],
    publics: Mapping[int, bytes],
    threshold: int,
    digest: bytes = b"",
    commitments: Mapping[int, bytes] | None = None,
    names: Sequence[str] = (),
) -> StreamKeys:
    """Return the keys that remove the masks left in the sum over the survivors, with opposite signs.

    Left are the survivors' own masks, and the masks that they share with parties that dropped out. `answers` are shares
    by helper and party, and `digest` is that to which the masks are bound. `commitments` are those of the parties to
    the seeds of their own masks: wrong shares are noticed with them, and other helpers are tried. `names` are those of
    the parties, for an error.
    """
    secrets = dict[int, bytes | None]()
    for party, public in publics.items():
        is_right = _check_of(public, party in survivors, commitments[party] if commitments else None)
        secrets[party] = _restored({helper: each[party] for helper, each in answers.items()}, threshold, is_right)
    _need_all(secrets, list(answers), names)
    left: list[tuple[int, bytes]] = []
    for party, secret in secrets.items():
        assert secret is not None
        if party in survivors:
            left.append((-1, keys.bound(secret, digest)))
            continue
        shared = keys.shared_keys(secret, {other: publics[other] for other in survivors}, party, "mask")
        left += [(1 if party > other else -1, keys.bound(key, digest)) for other, key in shared.items()]
    return left


def _need_all(secrets: Mapping[int, bytes | None], helpers: Sequence[int], names: Sequence[str]) -> None:
    """Refuse to go on without the keys of all parties, and name who may have given wrong shares."""

    def named(parties: Iterable[int]) -> str:
        return listed([names[party] if names else f"party {party}" for party in parties])

    missing = [party for party, secret in secrets.items() if secret is None]
    if missing:
        reason = f"{named(missing)} gave wrong ones to the others"
        if len(missing) > 1:
            reason = f"one of {named(helpers)} sent wrong ones to the server"
        raise TooFewError(f"the shares do not restore the key of {named(missing)}, so the sum is lost: {reason}.")


def _check_of(public: bytes, is_seed: bool, commitment: bytes | None) -> Callable[[bytes], bool]:
    """Return what tells whether a restored secret is right: the seed of a party's own mask, or its mask key."""
    if not is_seed:
        return lambda secret: keys.public_key(secret) == public
    return lambda secret: commitment is None or keys.commitment(secret) == commitment


def _restored(shares: Mapping[int, bytes], threshold: int, is_right: Callable[[bytes], bool]) -> bytes | None:
    """Return the secret of some helpers' shares that is right; None if there is none.

    Neighbours come first: one of these groups leaves out any single helper. Then come other groups, but not all of
    them, because there may be too many.
    """
    helpers = list(shares)
    neighbours = ([*helpers, *helpers][begin : begin + threshold] for begin in range(len(helpers)))
    for group in chain(neighbours, islice(combinations(helpers, threshold), _MOST_GROUPS)):
        try:
            secret = shamir.combine({place(helper): shares[helper] for helper in group}, threshold)
        except RunError:  # they are not shares of one secret
            continue
        if is_right(secret):
            return secret
    return None


def place(party: int) -> int:
    """Return where the polynomial of Shamir's shares is evaluated for a party: not at 0, which is the secret."""
    return party + 1
