"""The in-process federations with sums, from the most trusting to the least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, IntArray, Natural, check_choice
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.base import InProcess, Part
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.local import LocalReports
from fedclust_helpers.federation.plan import FederationFacts
from fedclust_helpers.federation.shuffled import ShuffledReports
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


class TrustedServer(InProcess):
    """The server sees every client's exact message, sums them and adds noise.

    Clients trust it with their exact statistics (not with their raw data). It may also `collect`.
    """

    trust = "trusted server"
    offers: tuple[str, ...] = ("noisy_sum", "collect")
    sees = (
        ("server", "every client's exact statistics"),
        ("clients", "what the server broadcasts"),
    )

    def _collect(self, part: Part, values: FloatArray) -> Any:
        message = self._exact(values, part.mechanism)
        one = np.zeros(message.shape[1:], message.dtype)
        self.transcript.record(
            part.round, "clients", "server", part.name, one, count=part.n_senders, payload=message
        )
        return message

    def _noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        return self.noised(self._collect(part, values).sum(axis=0), part.mechanism)


class IdealSecureSum(InProcess):
    """An ideal functionality sums and adds noise; the server receives only the noised sum."""

    trust = "ideal secure sum"
    offers = ("noisy_sum",)
    noise_from = "the ideal functionality"
    sees = (("server", "the noised sums"), ("clients", "what the server broadcasts"))
    messages_per_number = 1
    wire = "of noised sums leave the ideal functionality"

    def _answers(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[Any]:
        """Exact totals: floats, or whole steps where the noise is discrete."""
        if all(m.grid is None for m in mechanisms):  # else each client rounds: no shortcut
            somebody = cohort is None or len(cohort) > 0
            if somebody and (statistic.pooled is not None or statistic.unit == "point"):
                total = self._computed(statistic, broadcast, cohort, pooled=True)
                if total is not None:
                    return list(total)
        values = self._values(statistic, broadcast, cohort)
        return [self._exact(v, m).sum(axis=0) for v, m in zip(values, mechanisms, strict=True)]

    def _noisy_sum(self, part: Part, total: Any) -> FloatArray:
        released = self.noised(total, part.mechanism)
        self.transcript.record(part.round, "secure sum", "server", part.name, released)
        return released


class _Ring(InProcess):
    """Fixed-point ring arithmetic shared by the masked and the serverless federation."""

    offers = ("noisy_sum",)
    wire = f"{FederationFacts.wire}, up and back"
    receiver: Literal["server", "clients"] = "clients"

    @checked
    def __init__(
        self,
        clients: Any,
        *,
        bits: Literal[32, 64] = 64,
        fractional_bits: int | None = None,
        max_colluding: Natural = 1,
        **common: Any,
    ) -> None:
        default = 30 if bits == 64 else 16
        self.fixed_point = FixedPoint(bits, default if fractional_bits is None else fractional_bits)
        self.resolution, self.bytes_per_number = self.fixed_point.resolution, bits // 8
        self.max_colluding = max_colluding
        super().__init__(clients, **common)
        if self.nodes_add_noise:
            n = self._n_present
            self.n_honest = n - self.max_colluding  # shares of noise that the others do not know
            if self.n_honest < 1 or n < 2:
                raise ValueError(f"max_colluding must leave an honest client of at least two: {n}")
        self.session = self.randomness.bytes(16)

    def _check_range(self, part: str, mechanism: Mechanism, n: int, most: float) -> None:
        if mechanism.grid is not None:
            steps = mechanism.grid / self.resolution
            if steps < 1 or steps != round(steps):
                raise ValueError(
                    f"mechanisms: the grid of that for {part!r} must be a multiple of the ring's"
                    f" resolution {self.resolution:g}, got {mechanism.grid:g}"
                )
        tail = mechanism.tail(NEGLIGIBLE)
        if self.nodes_add_noise:  # all clients add noise, one share of the variance each
            tail *= math.sqrt(self.n_clients / self.n_honest)
            tail += self.n_clients * self.resolution
        self.fixed_point.check_capacity(n_records=n, magnitude=most, noise_tail=tail, name=part)

    def _encode(self, values: FloatArray, mechanism: Mechanism) -> Ring:
        """What clients hold, as ring elements; on the mechanism's grid if it has one."""
        if mechanism.grid is None:
            return self.fixed_point.encode(values)
        return self.fixed_point.encode_steps(self._exact(values, mechanism), mechanism.grid)

    def _fresh_noise(self, mechanism: Any, shape: tuple[int, ...], rng: Any) -> Ring:
        """Fresh noise as ring elements: integers all the way where it is discrete."""
        if mechanism.grid is None:
            return self.fixed_point.encode(mechanism.sample(shape, rng=rng))
        return self.fixed_point.encode_steps(mechanism.sample_steps(shape, rng=rng), mechanism.grid)

    def _shares_of_noise(self, mechanism: Mechanism, shape: tuple[int, ...]) -> Ring:
        """One share of noise for every client, drawn by the client itself: (M, ...)."""
        nodes = self.randomness.node_noise
        if self.randomness.is_secure:  # one source: the operating system
            return self._fresh_noise(mechanism, (len(nodes), *shape), nodes[0])
        shares: Any = [self._fresh_noise(mechanism, shape, rng) for rng in nodes]
        return np.stack(shares)


class MaskedSecureSum(_Ring):
    """FastLloyd's masked secure aggregation (Figure 1): the server is blind even to the sum.

    Each client sends its fixed-point statistic plus a one-time pad. The server adds up, adds
    rounded noise from its own source, and sends the masked total back. The clients, who share the
    pads, unmask it: they alone see the noised sum. Holds against one corrupted party that follows
    the protocol (Theorem 5.2). The ring Z_2^bits has 64 bits, 30 of them fractional, by default; 32
    and 16 in the paper's section 6.

    The server knows the noise that it added, so with ``noise_from="server"`` nothing may ever send
    it the unmasked result: publishing the result would hand it the exact sums. With
    ``noise_from="clients"`` every client adds a share of the noise before it masks, and the server
    adds none: results may be published, at the price of more noise for few clients. So many as
    `max_colluding` may pool what they know about their shares; the others' noise suffices alone.

    With ``receiver="server"``, for which the clients must add the noise, all pads together are 0
    (the last client takes the others' away from its own message): the server reads the noised sum,
    and nothing else, without a message back.

    `pre_shared_secret` (32 bytes) is a group secret that the clients already hold; without it they
    agree on one with X25519 through the server. Needed above 4096 clients.
    """

    trust = "masked secure aggregation"
    # to take the pads away every client must know the cohort
    no_sampling = (
        "every client learns who takes part when it unmasks, so that a hidden cohort would protect"
        " nobody from the clients"
    )

    @checked
    def __init__(
        self,
        clients: Any,
        *,
        noise_from: Literal["server", "clients"] = "server",
        receiver: Literal["server", "clients"] = "clients",
        pre_shared_secret: bytes | None = None,
        **options: Any,
    ) -> None:
        if receiver == "server":
            if noise_from == "server":
                raise ValueError(
                    "receiver must be 'clients' with noise_from='server': a server that reads a sum"
                    " and knows the noise in it knows the exact sum"
                )
            self.no_sampling = "the pads are 0 together only where everybody takes part"
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        if pre_shared_secret is None and data.n_clients > MAX_AGREEING:
            raise ValueError(
                f"pre_shared_secret must be given for more than {MAX_AGREEING} clients: agreeing"
                " on one takes a key exchange with each of them (users with one row each: see the"
                " local trust model)"
            )
        blind = "uniformly random words"
        if noise_from == "clients":
            self.nodes_add_noise, self.noise_from = True, "every client (a share each)"
        else:
            blind += ", and the noise it adds: send it no result"
        self.receiver = receiver
        self.sees = (("server", blind), ("clients", "the noised sums"))
        if receiver == "server":
            self.wire = FederationFacts.wire
            blind = "uniformly random words that add up to the noised sums"
            self.sees = (("server", blind), ("clients", "what the server broadcasts"))
        super().__init__(data, **options)
        if pre_shared_secret is None:
            n = self._data.n_clients
            keys = agree_group_secret(
                n,
                session=self.session,
                entropy=[self.randomness.bytes(SECRET_BYTES) for _ in range(n)],
                group_secret=self.randomness.bytes(SECRET_BYTES),
            )
            for message in keys.messages:
                self.transcript.record(
                    -1, message.sender, message.receiver, message.name, message.content
                )
            pre_shared_secret = keys.secrets[0]
        self._pads = PadBook(pre_shared_secret, self.session, self.fixed_point.bits)

    @property
    def messages_per_number(self) -> int:
        """One from each client, and one back to it where the clients unmask."""
        return self.n_clients * (1 if self.receiver == "server" else 2)

    def _noisy_sum(self, part: Part, value: FloatArray) -> FloatArray:
        """The released value is known to the clients only, or to the server."""
        shape = value.shape[1:]
        # clients: encode, add their share of the noise, mask, send
        encoded = self._encode(value, part.mechanism)
        if self.nodes_add_noise and math.isfinite(part.mechanism.sensitivity):
            encoded = encoded + self._shares_of_noise(part.mechanism, shape)
        pads = self._drawn_pads(part, len(value), shape)
        masked = mask(encoded, pads)
        self.transcript.record(
            part.round, "clients", "server", part.name, masked[0], count=len(masked), payload=masked
        )
        # server: add up what it cannot read, and noise of its own
        total = masked.sum(axis=0, dtype=masked.dtype)
        if self.receiver == "server":
            return self.fixed_point.decode(total)
        if not self.nodes_add_noise:
            total = total + self._fresh_noise(part.mechanism, shape, self.randomness.noise)
        self.transcript.record(
            part.round, "server", "clients", f"masked noisy {part.name}", total, count=len(masked)
        )
        # clients: take the sum of all pads away
        return self.fixed_point.decode(unmask(total, pads.sum(axis=0, dtype=pads.dtype)))

    def _drawn_pads(self, part: Part, n_clients: int, shape: tuple[int, ...]) -> Ring:
        """A pad for each client (M, ...); 0 together where the server reads the sum."""
        pads = self._pads.pads(part.purpose, part.number, n_clients, shape)
        if self.receiver == "clients":
            return pads
        last = np.zeros_like(pads[:1]) - pads[:-1].sum(axis=0, dtype=pads.dtype)
        return np.concatenate([pads[:-1], last])


class ServerlessSecureSum(_Ring):
    """Every client is also a computation node; no server (FastLloyd, Appendix C.1).

    Clients split their statistic into one additive share for each node. Each node adds up the
    shares that it received, adds discrete noise of its own, and publishes the result; the sum of
    all published values is the noised total. At most `max_colluding` nodes pool what they know:
    they can subtract their own noise, so the noise of the others alone must suffice, and each node
    adds variance std^2/(n_nodes - max_colluding).

    The sum of separately drawn discrete Gaussians is not a discrete Gaussian, but close to one. The
    ledger is charged with bounds for n_nodes - max_colluding of them, see
    `DistributedDiscreteGaussian`: on a fine grid what a Gaussian costs.
    """

    trust = "serverless secure sum"
    nodes_add_noise = True
    noise_from = "every client (a share each)"
    no_sampling = "every node would see who takes part"
    wire = f"{FederationFacts.wire}, shares and sums of shares"
    sees: tuple[tuple[str, str], ...] = (
        ("clients", "random shares of the others' statistics, and the noised sums"),
    )

    @property
    def messages_per_number(self) -> int:
        """A share for every other node, and a sum of shares to it."""
        return 2 * self.n_clients * (self.n_clients - 1)

    def _noisy_sum(self, part: Part, value: FloatArray) -> FloatArray:
        """All nodes see the released value."""
        shares = self._shares(self._encode(value, part.mechanism))
        n = len(value)
        self.transcript.record(
            part.round, "clients", "nodes", f"share of {part.name}", shares[0, 0],
            count=n * (n - 1), payload=shares,
        )  # fmt: skip
        published = shares.sum(axis=0, dtype=shares.dtype)
        if math.isfinite(part.mechanism.sensitivity):
            published = published + self._shares_of_noise(part.mechanism, value.shape[1:])
        self.transcript.record(
            part.round, "nodes", "clients", f"noised share sum of {part.name}", published[0],
            count=n * (n - 1), payload=published,
        )  # fmt: skip
        return self.fixed_point.decode(published.sum(axis=0, dtype=published.dtype))

    def _shares(self, encoded: Any) -> Any:
        """Additive shares (sender, node, ...): all but the last uniform, together the value."""
        m = len(encoded)
        n_bytes = encoded.size * (m - 1) * self.fixed_point.bits // 8
        random = np.frombuffer(self.randomness.bytes(n_bytes), dtype=encoded.dtype)
        random = random.reshape(m, m - 1, *encoded.shape[1:])
        last = encoded - random.sum(axis=1, dtype=encoded.dtype)
        return np.concatenate([random, last[:, None]], axis=1)


TRUST_MODELS: dict[str, type[InProcess]] = {
    "trusted": TrustedServer,
    "ideal": IdealSecureSum,
    "masked": MaskedSecureSum,
    "serverless": ServerlessSecureSum,
    "local": LocalReports,
    "shuffled": ShuffledReports,
}


def simulate(clients: Any, trust: str = "masked", **options: Any) -> Any:
    """An in-process federation by the name of its trust model.

    `trust` is "trusted", "ideal", "masked", "serverless", "local" or "shuffled"; `clients` are
    ClientData or a sequence of arrays (n_i, d), for the last two also one array (n, d) of users who
    hold one row each. Options: ``seed`` (teaching mode) or ``mode="secure"``; ``bound`` and
    ``domain`` ("box", or "ball", as always for users of one row); ``ledger`` or ``budget``; the
    public numbers ``n_records``, ``n_clients``, ``n_labels`` (without the first two the true ones
    are taken, and are public then); ``noise``; ``keep_payloads``; for the rings ``bits``,
    ``fractional_bits``, ``max_colluding`` (also of shuffled users); for the masked sum
    ``noise_from``, ``receiver``, ``pre_shared_secret``.
    """
    check_choice(trust, "trust", tuple(TRUST_MODELS))
    return TRUST_MODELS[trust](clients, **options)
