"""The in-process federations with sums, from the most trusting to the least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_optional,
)
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.local import LocalReports
from fedclust_helpers.federation.plan import PlannedRelease, TrustModelError
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


class _ServerSums(InProcess):
    """noisy_sum where the server is the one who receives the noised sum and broadcasts."""

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """Release a noised sum of `statistic` over all clients; charge it to the ledger.

        Parameters
        ----------
        statistic : ClientStatistic
        mechanisms : one Mechanism for each part of the statistic
            Each must hide at least the sensitivity of its part.
        round : int
            Number under which the transcript and the ledger record this release.
        sampling : Sampling, optional
            Sum over a cohort that is drawn here, anew, instead of everyone. Who was drawn stays
            inside: the charge is amplified only against those who do not learn it. An empty
            cohort releases pure noise.
        **broadcast
            Arguments that every client receives (centres, radius).

        Returns
        -------
        tuple of ndarray
            One noised total for each part.

        Raises
        ------
        ValueError, TypeError, LedgerMismatchError, BudgetExceededError, RingOverflowError
            Before any data is read or budget spent.
        """
        with self._lock:
            self.check_release(statistic, mechanisms, sampling=sampling, **broadcast)
            self._charge(
                PlannedRelease.of(statistic, tuple(mechanisms), round=round, sampling=sampling)
            )
            cohort = self._draw(sampling)
            self._record_broadcast(round, broadcast, None if cohort is None else len(cohort))
            totals = self._totals(statistic, mechanisms, round, broadcast, cohort)
            return tuple(self._released(t, m) for t, m in zip(totals, mechanisms, strict=True))

    def _totals(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[Any]:
        """Exact totals: floats, or whole steps where the noise is discrete."""
        raise TrustModelError(f"{type(self).__name__} defines no way to sum")


class TrustedServer(_ServerSums):
    """The server sees every client's exact message, sums them and adds noise.

    Clients trust it with their exact statistics (not with their raw data). It may also `collect`.
    """

    trust = "trusted server"

    def _sees(self) -> tuple[tuple[str, str], ...]:
        return (
            ("server", "every client's exact statistics"),
            ("clients", "what the server broadcasts"),
        )

    def _totals(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[Any]:
        messages = self._messages(statistic, mechanisms, round, broadcast, cohort)
        return [m.sum(axis=0) for m in messages]

    def _messages(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[Any]:
        values = self._values(statistic, broadcast, cohort)
        out: list[Any] = []
        for part, value, mechanism in zip(statistic.parts, values, mechanisms, strict=True):
            message = value if mechanism.grid is None else self._steps(value, mechanism)
            if len(message):  # an empty cohort sends nothing
                self.transcript.record(
                    round, "clients", "server", part, message[0], count=len(message),
                    payload=message,
                )  # fmt: skip
            out.append(message)
        return out

    def collect(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[Any, ...]:
        """Each client's exact message, for the trusted server's eyes only: arrays (M, ...).

        The mechanisms are those under which the server will release what it computes from the
        messages; they are charged now, because from here on the boundary is the server's word.
        With `sampling`, the messages are those of a cohort drawn here, arrays (m, ...). Parts with
        a discrete mechanism come in whole steps of its grid (int64).
        """
        with self._lock:
            self.check_release(statistic, mechanisms, sampling=sampling, **broadcast)
            self._charge(
                PlannedRelease.of(statistic, tuple(mechanisms), round=round, sampling=sampling)
            )
            cohort = self._draw(sampling)
            self._record_broadcast(round, broadcast, None if cohort is None else len(cohort))
            return tuple(self._messages(statistic, mechanisms, round, broadcast, cohort))


class IdealSecureSum(_ServerSums):
    """An ideal functionality sums and adds noise; the server receives only the noised sum."""

    trust = "ideal secure sum"
    noise_from = "the ideal functionality"

    def _sees(self) -> tuple[tuple[str, str], ...]:
        return (("server", "the noised sums"), ("clients", "what the server broadcasts"))

    def _messages_per_number(self) -> int:
        return 1

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """As `_ServerSums.noisy_sum`; the server's view is the released value alone."""
        released = super().noisy_sum(
            statistic, mechanisms, round=round, sampling=sampling, **broadcast
        )
        for part, value in zip(statistic.parts, released, strict=True):
            self.transcript.record(round, "secure sum", "server", part, value)
        return released

    def _totals(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[Any]:
        if any(m.grid is not None for m in mechanisms):
            # rounding is done by each client: no shortcut
            values = self._values(statistic, broadcast, cohort)
            return [
                (v if m.grid is None else self._steps(v, m)).sum(axis=0)
                for v, m in zip(values, mechanisms, strict=True)
            ]
        if statistic.pooled is not None:
            return list(self._values(statistic, broadcast, cohort, how="pooled"))
        if statistic.unit == "point":
            # additive over rows: one pass over all of them is the sum over clients
            pooled = np.array([0, len(self._data.points)])
            return [v[0] for v in statistic.compute(self._data.points, pooled, **broadcast)]
        return [v.sum(axis=0) for v in self._values(statistic, broadcast, cohort)]


class _Ring(InProcess):
    """Fixed-point ring arithmetic shared by the masked and the serverless federation."""

    receiver: Literal["server", "clients"] = "clients"

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        bits: Literal[32, 64] = 64,
        fractional_bits: int | None = None,
        max_colluding: int = 1,
        **common: Any,
    ) -> None:
        default = 30 if bits == 64 else 16
        self.fixed_point = FixedPoint(bits, default if fractional_bits is None else fractional_bits)
        self.resolution = self.fixed_point.resolution
        self.max_colluding = check_int(max_colluding, "max_colluding", minimum=0)
        super().__init__(clients, **common)
        self.session = self.randomness.bytes(16)

    @property
    def _n_honest(self) -> int:
        return self._data.n_clients - self.max_colluding if self.nodes_add_noise else 1

    def _bytes_per_number(self) -> int:
        return self.fixed_point.bits // 8

    def _check_nodes(self, n_clients: int) -> None:
        """Enough clients for shares of noise that the colluding ones do not know."""
        if n_clients - self.max_colluding < 1 or n_clients < 2:
            raise ValueError(
                f"max_colluding must leave an honest client among at least two:"
                f" {n_clients} clients, max_colluding={self.max_colluding}"
            )

    def _check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        public: dict[str, Any],
        sizes: tuple[int, ...],
    ) -> None:
        super()._check_release(statistic, mechanisms, public, sizes)
        if self.nodes_add_noise:
            for part, mechanism in zip(statistic.parts, mechanisms, strict=True):
                self._check_share(part, mechanism)

    def _check_share(self, part: str, mechanism: Mechanism) -> None:
        honest = getattr(mechanism, "n_honest", None)
        if honest is None and math.isfinite(mechanism.sensitivity):
            raise ValueError(
                f"mechanism for {part!r} must be a DistributedDiscreteGaussian: every client"
                " knows its own noise"
            )
        if honest is not None and honest > self._n_honest:
            raise ValueError(
                f"mechanism for {part!r} counts on {honest} honest clients, but only"
                f" {self._n_honest} are guaranteed"
            )

    def _check_range(
        self, statistic: ClientStatistic, part: str, mechanism: Mechanism, magnitude: float
    ) -> None:
        if mechanism.grid is not None:
            steps = mechanism.grid / self.resolution
            if steps < 1 or steps != round(steps):
                raise ValueError(
                    f"grid of the mechanism for {part!r} must be a multiple of the ring's"
                    f" resolution {self.resolution:g}, got {mechanism.grid:g}"
                )
        n, most = self._largest_total(statistic, mechanism, magnitude)
        self.fixed_point.check_capacity(
            n_records=n, magnitude=most, noise_tail=self._noise_tail(mechanism), name=part
        )

    def _noise_tail(self, mechanism: Mechanism) -> float:
        tail = mechanism.tail(NEGLIGIBLE)
        if not self.nodes_add_noise:
            return tail
        # all clients add noise, one share of the variance each
        return tail * math.sqrt(self.n_clients / self._n_honest) + self.n_clients * self.resolution

    def _encode(self, values: FloatArray, mechanism: Mechanism) -> Ring:
        """What clients hold, as ring elements; on the mechanism's grid if it has one."""
        if mechanism.grid is None:
            return self.fixed_point.encode(values)
        return self.fixed_point.encode_steps(self._steps(values, mechanism), mechanism.grid)

    def _encoded_noise(self, mechanism: Any, shape: tuple[int, ...], rng: Any) -> Ring:
        """Fresh noise as ring elements: integers all the way where it is discrete."""
        if mechanism.grid is None:
            return self.fixed_point.encode(mechanism.sample(shape, rng=rng))
        return self.fixed_point.encode_steps(mechanism.sample_steps(shape, rng=rng), mechanism.grid)

    def _shares_of_noise(self, mechanism: Mechanism, shape: tuple[int, ...]) -> Ring:
        """One share of noise for every client, drawn by the client itself: (M, ...)."""
        nodes = self.randomness.node_noise[: self._data.n_clients]
        if self.randomness.is_secure:  # one source: the operating system
            return self._encoded_noise(mechanism, (len(nodes), *shape), nodes[0])
        shares: Any = [self._encoded_noise(mechanism, shape, rng) for rng in nodes]
        return np.stack(shares)


class MaskedSecureSum(_Ring):
    """FastLloyd's masked secure aggregation (Figure 1): the server is blind even to the sum.

    Each client sends its fixed-point statistic plus a one-time pad. The server adds up, adds
    rounded noise from its own source, and sends the masked total back. The clients, who share the
    pads, unmask it: they alone see the noised sum. Holds against one corrupted party that follows
    the protocol (Theorem 5.2).

    The server knows the noise that it added, so with ``noise_from="server"`` nothing may ever send
    it the unmasked result: publishing the result would hand it the exact sums. With
    ``noise_from="clients"`` every client adds a share of the noise before it masks, and the server
    adds none: results may be published, at the price of more noise for few clients.

    Parameters
    ----------
    bits, fractional_bits
        The ring Z_2^bits and its grid: 64 and 30 by default, 32 and 16 as in the paper's section 6.
    noise_from : {"server", "clients"}
        Who adds noise: the server, as in the paper, or every client a share.
    max_colluding : int
        With ``noise_from="clients"``: so many clients may pool what they know about their shares;
        the others' noise suffices alone.
    pre_shared_secret : bytes of length 32, optional
        A group secret that the clients already hold; without it they agree on one with X25519
        through the server. Needed above 4096 clients.
    """

    trust = "masked secure aggregation"

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        noise_from: Literal["server", "clients"] = "server",
        pre_shared_secret: bytes | None = None,
        **options: Any,
    ) -> None:
        check_choice(noise_from, "noise_from", ("server", "clients"))
        check_optional(pre_shared_secret, bytes, "pre_shared_secret", what="bytes")
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        if pre_shared_secret is None and data.n_clients > MAX_AGREEING:
            raise ValueError(
                f"pre_shared_secret must be given for more than {MAX_AGREEING} clients: agreeing"
                " on one takes a key exchange with each of them (if rows are not clients, say who"
                " owns them; for users with one row each see the local trust model)"
            )
        nodes = 0
        if noise_from == "clients":
            self.nodes_add_noise, self.noise_from = True, "every client (a share each)"
            nodes = data.n_clients
        super().__init__(data, n_nodes=nodes, **options)
        if noise_from == "clients":
            self._check_nodes(self._data.n_clients)
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
        self._n_releases = 0

    def _sees(self) -> tuple[tuple[str, str], ...]:
        blind = "uniformly random words"
        if not self.nodes_add_noise:
            blind += ", and the noise it adds: send it no result"
        return (("server", blind), ("clients", "the noised sums"))

    def _messages_per_number(self) -> int:
        return 2 * self.n_clients

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """As `_ServerSums.noisy_sum`, but the released value is known to the clients only.

        The broadcast arrays cost no message: the clients computed them from what they unmasked.
        No `sampling`: to take the pads away every client must know the cohort, and amplification
        holds only against those who do not.
        """
        if sampling is not None:
            raise TrustModelError(
                "MaskedSecureSum offers no sampling: every client learns who takes part when it"
                " unmasks, so that a hidden cohort would protect nobody from the clients"
            )
        with self._lock:
            self.check_release(statistic, mechanisms, **broadcast)
            self._charge(PlannedRelease.of(statistic, tuple(mechanisms), round=round))
            # pads go by the release, not by `round`: a second run here starts at round 0 again
            number, self._n_releases = self._n_releases, self._n_releases + 1
            values = self._values(statistic, broadcast)
            return tuple(
                self._masked_sum(f"{statistic.name}/{part}", part, number, round, value, mechanism)
                for part, value, mechanism in zip(
                    statistic.parts, values, mechanisms, strict=True
                )
            )  # fmt: skip

    def _masked_sum(
        self, purpose: str, part: str, number: int, round: int, value: FloatArray,
        mechanism: Mechanism,
    ) -> FloatArray:  # fmt: skip
        shape = value.shape[1:]
        # clients: encode, add their share of the noise, mask, send
        encoded = self._encode(value, mechanism)
        if self.nodes_add_noise and math.isfinite(mechanism.sensitivity):
            encoded = encoded + self._shares_of_noise(mechanism, shape)
        pads = self._pads.pads(purpose, number, len(value), shape)
        masked = mask(encoded, pads)
        self.transcript.record(
            round, "clients", "server", part, masked[0], count=len(masked), payload=masked
        )
        # server: add up what it cannot read, and noise of its own
        total = masked.sum(axis=0, dtype=masked.dtype)
        if not self.nodes_add_noise:
            total = total + self._encoded_noise(mechanism, shape, self.randomness.noise)
        self.transcript.record(
            round, "server", "clients", f"masked noisy {part}", total, count=len(masked)
        )
        # clients: take the sum of all pads away
        return self.fixed_point.decode(unmask(total, pads.sum(axis=0, dtype=pads.dtype)))


class ServerlessSecureSum(_Ring):
    """Every client is also a computation node; no server (FastLloyd, Appendix C.1).

    Clients split their statistic into one additive share for each node. Each node adds up the
    shares that it received, adds discrete noise of its own, and publishes the result; the sum of
    all published values is the noised total. At most `max_colluding` nodes pool what they know:
    they can subtract their own noise, so the noise of the others alone must suffice, and each node
    adds variance std^2/(n_nodes - max_colluding).

    The sum of separately drawn discrete Gaussians is not a discrete Gaussian. The ledger is
    charged with the bound of Kairouz, Liu and Steinke (2021, Theorem 1) for n_nodes - max_colluding
    of them, see `DistributedDiscreteGaussian`.
    """

    trust = "serverless secure sum"
    nodes_add_noise = True
    noise_from = "every client (a share each)"

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        max_colluding: int = 1,
        **options: Any,
    ) -> None:
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        self.max_colluding = check_int(max_colluding, "max_colluding", minimum=0)
        self._check_nodes(data.n_clients)
        super().__init__(data, n_nodes=data.n_clients, max_colluding=max_colluding, **options)

    def _sees(self) -> tuple[tuple[str, str], ...]:
        return (("clients", "random shares of the others' statistics, and the noised sums"),)

    def _messages_per_number(self) -> int:
        return 2 * self.n_clients * (self.n_clients - 1)

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """As `_ServerSums.noisy_sum`; all nodes see the released value.

        No `sampling`: every node sees who sends a share, so the cohort would be no secret.
        """
        if sampling is not None:
            raise TrustModelError(
                "ServerlessSecureSum offers no sampling: every node would see who takes part"
            )
        with self._lock:
            self.check_release(statistic, mechanisms, **broadcast)
            self._charge(PlannedRelease.of(statistic, tuple(mechanisms), round=round))
            values = self._values(statistic, broadcast)
            return tuple(
                self._shared_sum(part, round, value, mechanism)
                for part, value, mechanism in zip(
                    statistic.parts, values, mechanisms, strict=True
                )
            )  # fmt: skip

    def _shared_sum(
        self, part: str, round: int, value: FloatArray, mechanism: Mechanism
    ) -> FloatArray:
        shares = self._shares(self._encode(value, mechanism))
        n = len(value)
        self.transcript.record(
            round, "clients", "nodes", f"share of {part}", shares[0, 0], count=n * (n - 1),
            payload=shares,
        )  # fmt: skip
        published = shares.sum(axis=0, dtype=shares.dtype)
        if math.isfinite(mechanism.sensitivity):
            published = published + self._shares_of_noise(mechanism, value.shape[1:])
        self.transcript.record(
            round, "nodes", "clients", f"noised share sum of {part}", published[0],
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
}


def simulate(
    clients: ClientData | Sequence[ArrayLike], trust: str = "masked", **options: Any
) -> Any:
    """An in-process federation by the name of its trust model.

    Parameters
    ----------
    clients : ClientData, or a sequence of arrays of shape (n_i, d)
    trust : {"trusted", "ideal", "masked", "serverless", "local"}
    **options
        ``seed`` (teaching mode) or ``mode="secure"``; ``bound``, ``domain``, ``outside``;
        ``ledger`` or ``budget``; the public numbers ``n_records``, ``n_clients``, ``n_labels``
        (without the first two the true ones are taken, and are public then); ``noise``;
        ``keep_payloads``; for the rings ``bits``, ``fractional_bits``, ``max_colluding``; for
        the masked sum ``noise_from``, ``pre_shared_secret``.
    """
    check_choice(trust, "trust", tuple(TRUST_MODELS))
    return TRUST_MODELS[trust](clients, **options)
