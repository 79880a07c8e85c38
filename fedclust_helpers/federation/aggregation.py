"""How the messages of one release travel, and who adds the noise on their way.

An aggregation has three ends: what clients `send`, what is made of all messages where they `add`
up, and what whoever receives the sum `read`s. In one process the three follow one another; over a
network each party has its own. The noise is added where the trust model says so: to the total by
whoever adds up, to every message as a share of it, or to every message as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._state import Fixed
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import checks
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.plan import FederationFacts
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.transcript import Transcript
from fedclust_helpers.mechanisms import NEGLIGIBLE, Mechanism
from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    FixedPoint,
    PadBook,
    Ring,
    agree_group_secret,
    mask,
    unmask,
)

MAX_AGREEING = 4096  # clients who agree on a secret one by one; more bring a pre-shared one
Who = Sequence[int] | None  # the clients who send; None: all of them


class Part(NamedTuple):
    """One part of a release on its way: its name, what its pads are for, and its noise.

    `n_senders` is the public number of clients who send it: of a hidden cohort, what is expected.
    `who` are the clients whose messages add up, in order (None: all).
    """

    name: str
    purpose: str
    round: int
    number: int  # of the release: rounds start at 0 again in a second run
    mechanism: Any
    n_senders: int
    who: Who = None

    @property
    def pads(self) -> tuple[str, int]:
        """What its pads are those of: purpose and set, and release."""
        of = "" if self.who is None else f"|of {','.join(map(str, self.who))}"
        return self.purpose + of, self.number


class Context(NamedTuple):
    """What an aggregation needs to know of its federation."""

    receiver: Literal["server", "clients"]
    adder: Adder
    n_clients: int  # the public number
    n_present: int
    n_honest: int
    randomness: Randomness
    transcript: Transcript
    true_numbers: bool  # whether the public numbers of clients and records are no bounds


# --- who adds the noise ---------------------------------------------------------------------------


class Adder:
    """Who adds the noise, to what; `words` are for statements."""

    by: Literal["server", "clients"]  # as `simulate` takes it: noise_from
    shares = False  # every client draws a part of the noise, and some of them may be dishonest

    def __init__(self, words: str) -> None:
        self.words = words

    def to_messages(self, how: Aggregation, messages: Any, mechanism: Any, who: Who) -> Any:
        """Messages of the clients with the noise that they add."""
        return messages

    def to_total(self, how: Aggregation, total: Any, mechanism: Any) -> Any:
        """The total with the noise that is added there."""
        return total


class OnceToTotal(Adder):
    """Whoever adds up draws the noise, once, for the total."""

    by = "server"

    def to_total(self, how: Aggregation, total: Any, mechanism: Any) -> Any:
        """With fresh noise."""
        return total + how.fresh(mechanism, total.shape, how.context.randomness.noise)


class ShareEach(Adder):
    """Every client adds a share to its own message; the shares of the honest ones suffice."""

    by = "clients"
    shares = True

    def to_messages(self, how: Aggregation, messages: Any, mechanism: Any, who: Who) -> Any:
        """With a fresh share in each, from the source of its own client."""
        if not math.isfinite(mechanism.sensitivity):
            return messages
        nodes = how.context.randomness.node_noise
        nodes = nodes if who is None else tuple(nodes[i] for i in who)
        shape = messages.shape[1:]
        if how.context.randomness.is_secure:  # one source: the operating system
            return messages + how.fresh(mechanism, (len(nodes), *shape), nodes[0])
        return messages + np.stack([how.fresh(mechanism, shape, rng) for rng in nodes])


class AllEach(Adder):
    """Every client adds all the noise to its own message, which hides it from everybody."""

    by = "clients"

    def to_messages(self, how: Aggregation, messages: Any, mechanism: Any, who: Who) -> Any:
        """With fresh noise in each."""
        return messages + how.fresh(mechanism, messages.shape, how.context.randomness.noise)


# --- numbers as they are --------------------------------------------------------------------------


class Aggregation(Fixed):
    """Every client sends its numbers to the server, which reads them and adds them up.

    Where noise is discrete, they are whole steps of its grid, and become floats when all is added.
    """

    offers: tuple[str, ...] = ("noisy_sum", "collect", "members")
    adjacency, domain = "add/remove", "box"  # of a federation that is not told otherwise
    blind = False  # whoever adds up understands nothing of it
    can_miss = True  # messages of some clients add up without those of the others
    pools = False  # the sum may be computed at once, where nobody sees single messages
    resolution, bytes_per_number = 0.0, 8
    wire = FederationFacts.wire

    def __init__(self, context: Context) -> None:
        self.context = context

    @staticmethod
    def clients(given: Any) -> ClientData:
        """The data of the clients, in the forms that a federation takes."""
        return given if isinstance(given, ClientData) else ClientData.from_clients(given)

    @staticmethod
    def check_ledger(ledger: PrivacyLedger) -> None:
        """Raise unless this ledger can say what a release costs here."""

    @property
    def messages_per_number(self) -> int:
        """Messages on the wire for each number that one client sends."""
        return self.context.n_clients

    def check_range(
        self, facts: FederationFacts, part: str, mechanism: Mechanism, n: int, most: float
    ) -> None:
        """Refuse totals of n numbers of size `most` that would not fit."""
        checks.check_integers(part, mechanism, n, most)

    def kind(self, mechanism: Any) -> np.dtype[Any]:
        """Of the numbers that clients send."""
        return np.dtype(np.float64 if mechanism.grid is None else np.int64)

    def encode(self, values: FloatArray, mechanism: Any) -> Any:
        """Values as clients send them: rounded to whole steps where the mechanism has a grid.

        Integers are steps already.
        """
        if mechanism.grid is None or values.dtype.kind == "i":
            return values
        return np.rint(values / mechanism.grid).astype(np.int64)

    def fresh(self, mechanism: Any, shape: tuple[int, ...], rng: Any) -> Any:
        """Fresh noise in the same form."""
        if mechanism.grid is None:
            return mechanism.sample(shape, rng=rng)
        return mechanism.sample_steps(shape, rng=rng)

    def decode(self, numbers: Any, mechanism: Any) -> FloatArray:
        """Numbers of this form as floats."""
        return numbers if mechanism.grid is None else numbers.astype(np.float64) * mechanism.grid

    def noised(self, total: Any, mechanism: Any) -> FloatArray:
        """A total, with noise where it is added there, as floats."""
        return self.decode(self.context.adder.to_total(self, total, mechanism), mechanism)

    def send(self, part: Part, values: FloatArray, who: Who = None) -> Any:
        """The messages of all clients, or of `who` alone: a row for each."""
        messages = self.encode(values, part.mechanism)
        return self.context.adder.to_messages(self, messages, part.mechanism, who)

    def add(self, mechanism: Any, messages: Any) -> Any:
        """What is made of all messages where they add up."""
        return self.noised(messages.sum(axis=0, dtype=messages.dtype), mechanism)

    def read(self, part: Part, total: Any) -> FloatArray:
        """The noised sum, for whoever receives it."""
        return total

    def noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        """All three ends in one process: the noised sum."""
        return self.read(part, self.add(part.mechanism, self.collect(part, values)))

    def collect(self, part: Part, values: FloatArray) -> Any:
        """Each client's message, as the server gets it."""
        messages = self.send(part, values, part.who)
        self._record(part, "clients", "server", part.name, messages, part.n_senders)
        return messages

    def identified(self, part: Part, exact: Any) -> IntArray:
        """Cluster numbers (m,) from one-hots (m, k): whoever holds these adds the noise of each."""
        noise, mechanism = self.context.randomness.noise, part.mechanism
        if hasattr(mechanism, "answer"):  # a random identifier instead of a noised one
            return mechanism.answer(exact, rng=noise)
        return (exact + Aggregation.fresh(self, mechanism, exact.shape, noise)).argmax(axis=1)

    def summed(self, part: Part, vectors: Any, groups: IntArray, n_groups: int) -> FloatArray:
        """Noised sums (n_groups, p) of vectors (m, v, p) by public groups (m, v)."""
        sums = np.zeros((n_groups, vectors.shape[2]), dtype=vectors.dtype)
        for j in range(n_groups):
            sums[j] = vectors[groups == j].sum(axis=0)
        return self.noised(sums, part.mechanism)

    def broken_off(self, part: Part, values: FloatArray, who: Who) -> None:
        """The messages of `who`, of a set that does not answer as a whole: they add up to noise."""
        self._record(
            part, "clients", "server", part.name, self.send(part, values, who), len(values)
        )

    def _record(
        self, part: Part, sender: str, receiver: str, name: str, messages: Any, count: int
    ) -> None:
        """Note `count` messages in the transcript; their payload has a row for each."""
        one = np.zeros(messages.shape[1:], messages.dtype)
        self.context.transcript.record(
            part.round, sender, receiver, name, one, count=count, payload=messages
        )


class Ideal(Aggregation):
    """A functionality that nobody runs sums and adds noise; the server gets the noised sum."""

    offers = ("noisy_sum",)
    pools = True
    messages_per_number = 1
    wire = "of noised sums leave the ideal functionality"

    def noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        """Nothing but the result is on record."""
        released = self.add(part.mechanism, self.send(part, values, part.who))
        self.context.transcript.record(part.round, "secure sum", "server", part.name, released)
        return released


# --- words of a ring ------------------------------------------------------------------------------


class Words(Aggregation):
    """Numbers are words of the ring Z_2^bits, in fixed point: sums of them wrap around."""

    offers: tuple[str, ...] = ("noisy_sum",)
    blind = True
    can_miss = False

    @checked
    def __init__(
        self, context: Context, *, bits: Literal[32, 64] = 64, fractional_bits: int | None = None
    ) -> None:
        super().__init__(context)
        default = 30 if bits == 64 else 16
        self.fixed_point = FixedPoint(bits, default if fractional_bits is None else fractional_bits)
        self.resolution, self.bytes_per_number = self.fixed_point.resolution, bits // 8
        self.session = context.randomness.bytes(16)

    def check_range(
        self, facts: FederationFacts, part: str, mechanism: Mechanism, n: int, most: float
    ) -> None:
        """Refuse totals that would wrap around, and grids that the ring does not have."""
        if mechanism.grid is not None:
            self.fixed_point.ratio(mechanism.grid, f"mechanisms: the grid of that for {part!r}")
        tail = mechanism.tail(NEGLIGIBLE) * facts.more_noise
        if self.context.adder.shares:  # all clients round their own share
            tail += facts.n_clients * self.resolution
        self.fixed_point.check_capacity(n_records=n, magnitude=most, noise_tail=tail, name=part)

    def kind(self, mechanism: Any) -> np.dtype[Any]:
        """Words."""
        return np.dtype(self.fixed_point.dtype)

    def encode(self, values: FloatArray, mechanism: Any) -> Ring:
        """What clients hold, on the mechanism's grid if it has one."""
        return self._words(super().encode(values, mechanism), mechanism)

    def fresh(self, mechanism: Any, shape: tuple[int, ...], rng: Any) -> Ring:
        """Integers all the way where noise is discrete."""
        return self._words(super().fresh(mechanism, shape, rng), mechanism)

    def _words(self, numbers: Any, mechanism: Any) -> Ring:
        if mechanism.grid is None:
            return self.fixed_point.encode(numbers)
        return self.fixed_point.encode_steps(numbers, mechanism.grid)

    def decode(self, numbers: Any, mechanism: Any) -> FloatArray:
        """The numbers that words stand for."""
        return self.fixed_point.decode(numbers)

    def add(self, mechanism: Any, messages: Any) -> Ring:
        """The sum of all words, of which whoever adds up may understand nothing."""
        total = messages.sum(axis=0, dtype=messages.dtype)
        return self.context.adder.to_total(self, total, mechanism)

    def read(self, part: Part, total: Any) -> FloatArray:
        """What the words of the sum stand for."""
        return self.decode(total, part.mechanism)

    def size(self, part: Part) -> int:
        """How many clients are asked."""
        return self.context.n_present if part.who is None else len(part.who)


class Masked(Words):
    """Under one-time pads, which add up to what those who share them can take away.

    Pads are those of a set of clients: another set for the same release has others.

    FastLloyd's Figure 1: each client adds a pad to its words; the server adds up what it cannot
    read and sends the masked total back; the clients take the sum of all pads away. Holds against
    one corrupted party that follows the protocol (Theorem 5.2). Where the server receives, the pads
    are 0 together (the last client takes the others' away): it reads the sum and nothing else.

    `pre_shared_secret` (32 bytes) is a group secret that the clients already hold; without it they
    agree on one with X25519 through the server. Needed above 4096 clients.
    """

    can_miss = True

    @checked
    def __init__(
        self, context: Context, *, pre_shared_secret: bytes | None = None,
        session: bytes | None = None, **ring: Any,
    ) -> None:  # fmt: skip
        if pre_shared_secret is None and context.n_present > MAX_AGREEING:
            raise ValueError(
                f"pre_shared_secret must be given for more than {MAX_AGREEING} clients: agreeing"
                " on one takes a key exchange with each of them (users with one row each: see the"
                " local trust model)"
            )
        super().__init__(context, **ring)
        if not context.adder.shares:  # a share of the noise would hide no identifier
            self.offers = (*self.offers, "members")
        self.session = self.session if session is None else session
        if pre_shared_secret is None:
            pre_shared_secret = self._agreed()
        self._pads = PadBook(pre_shared_secret, self.session, self.fixed_point.bits)
        self._taken_away: dict[tuple[str, int], Ring] = {}  # by whoever receives: sums of pads
        if context.receiver == "clients":
            self.wire = f"{FederationFacts.wire}, up and back"

    def _agreed(self) -> bytes:
        """A group secret, for which the clients exchange keys through the server."""
        draw, n = self.context.randomness.bytes, self.context.n_present
        entropy = [draw(SECRET_BYTES) for _ in range(n)]
        keys = agree_group_secret(
            n, session=self.session, entropy=entropy, group_secret=draw(SECRET_BYTES),
            teaching=not self.context.randomness.is_secure,
        )  # fmt: skip
        for message in keys.messages:
            self.context.transcript.record(
                -1, message.sender, message.receiver, message.name, message.content
            )
        return keys.secrets[0]

    @property
    def messages_per_number(self) -> int:
        """One from each client, and one back to it where the clients unmask."""
        return self.context.n_clients * (1 if self.context.receiver == "server" else 2)

    def send(self, part: Part, values: FloatArray, who: Who = None) -> Ring:
        """Uniformly random words: encoded, with a share of the noise if clients add it, masked."""
        pads = self._drawn(part, values.shape[1:])
        if self.context.receiver == "clients":
            self._taken_away[part.pads] = pads.sum(axis=0, dtype=pads.dtype)
        else:
            last = np.zeros_like(pads[:1]) - pads[:-1].sum(axis=0, dtype=pads.dtype)
            pads = np.concatenate([pads[:-1], last])
        if who is not None:
            everyone = range(len(pads)) if part.who is None else part.who
            pads = pads[[everyone.index(i) for i in who]]
        return mask(super().send(part, values, who), pads)

    def _drawn(self, part: Part, shape: tuple[int, ...]) -> Ring:
        """A pad for each client of the set (m, ...): once for each part of a release and set."""
        return self._pads.pads(*part.pads, self.size(part), shape)

    def read(self, part: Part, total: Any) -> FloatArray:
        """The sum without the pads, where these are not 0 together."""
        if self.context.receiver == "clients":
            pads = self._taken_away.pop(part.pads, None)
            if pads is None:  # this party did not send, or was made anew since
                drawn = self._drawn(part, total.shape)
                pads = drawn.sum(axis=0, dtype=drawn.dtype)
            total = unmask(total, pads)
        return super().read(part, total)

    def noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        """Clients, server, and the clients again where they receive."""
        masked = self.send(part, values, part.who)
        self._record(part, "clients", "server", part.name, masked, len(masked))
        total = self.add(part.mechanism, masked)
        if self.context.receiver == "clients":
            self.context.transcript.record(
                part.round, "server", "clients", f"masked noisy {part.name}", total,
                count=len(masked),
            )  # fmt: skip
        return self.read(part, total)

    def members(self, part: Part, values: FloatArray) -> FloatArray:
        """Nothing leaves the clients yet."""
        return values

    def identified(self, part: Part, exact: Any) -> IntArray:
        """Each client noises its own identifier and sends the largest entry, by name."""
        chosen = super().identified(part, Aggregation.encode(self, exact, part.mechanism))
        kind = self.fixed_point.dtype
        self._record(part, "clients", "server", f"noised {part.name}", chosen.astype(kind),
                     len(chosen))  # fmt: skip
        return chosen

    def summed(self, part: Part, vectors: Any, groups: IntArray, n_groups: int) -> FloatArray:
        """The server says each client its groups; every client fills all blocks, and masks them."""
        told = groups.astype(self.fixed_point.dtype)
        self._record(part, "server", "clients", f"groups of {part.name}", told, len(told))
        blocks = np.zeros((len(vectors), n_groups, vectors.shape[2]))
        blocks[np.arange(len(vectors))[:, None], groups] = vectors
        return self.noisy_sum(part, blocks)


class Shared(Words):
    """In additive shares, one for each client: all are computation nodes, and there is no server.

    FastLloyd, Appendix C.1: each node adds up the shares that it received, adds its share of the
    noise, and publishes the result; all published values add up to the noised sum.
    """

    wire = f"{FederationFacts.wire}, shares and sums of shares"
    can_miss = True

    @property
    def messages_per_number(self) -> int:
        """A share for every other node, and a sum of shares to it."""
        return 2 * self.context.n_clients * (self.context.n_clients - 1)

    def noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        """All nodes see the released value."""
        n = len(values)
        shares = self._sent(part, values, n)
        sums = shares.sum(axis=0, dtype=shares.dtype)
        published = self.context.adder.to_messages(self, sums, part.mechanism, part.who)
        self._record(
            part, "nodes", "clients", f"noised share sum of {part.name}", published, n * (n - 1)
        )
        return self.read(part, self.add(part.mechanism, published))

    def broken_off(self, part: Part, values: FloatArray, who: Who) -> None:
        """Shares go out; the sums of a node that lacks one of them are noised and stay there."""
        shares = self._sent(part, values, self.size(part))
        sums = np.zeros((len(values), *shares.shape[2:]), shares.dtype)
        self.context.adder.to_messages(self, sums, part.mechanism, who)

    def _sent(self, part: Part, values: FloatArray, n_nodes: int) -> Any:
        """The shares of these values, one for each node."""
        shares = self._shares(self.encode(values, part.mechanism), n_nodes)
        self.context.transcript.record(
            part.round, "clients", "nodes", f"share of {part.name}", shares[0, 0],
            count=len(values) * (n_nodes - 1), payload=shares,
        )  # fmt: skip
        return shares

    def _shares(self, encoded: Any, n_nodes: int) -> Any:
        """Additive shares (sender, node, ...): all but the last uniform, together the value."""
        m, n = len(encoded), n_nodes
        n_bytes = encoded.size * (n - 1) * self.fixed_point.bits // 8
        random = np.frombuffer(self.context.randomness.bytes(n_bytes), dtype=encoded.dtype)
        random = random.reshape(m, n - 1, *encoded.shape[1:])
        last = encoded - random.sum(axis=1, dtype=encoded.dtype)
        return np.concatenate([random, last[:, None]], axis=1)
