"""The in-process federations with sums, from the most trusting to the least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_int
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.base import InProcess, TrustModelError
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.local import LocalReports
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    FixedPoint,
    PadBook,
    agree_group_secret,
    mask,
    unmask,
)

NEGLIGIBLE = 2.0**-80  # probability with which noise may leave the ring


class _ServerSums(InProcess):
    """noisy_sum where the server is the one who receives the noised sum and broadcasts."""

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
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
        public : dict, optional
            Further public parameters of the sensitivity.
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
        ValueError, LedgerMismatchError, BudgetExceededError, RingOverflowError
            Before any data is read or budget spent.
        """
        self.check_release(statistic, mechanisms, public=public, sampling=sampling, **broadcast)
        self.ledger.charge(mechanisms, name=statistic.name, round=round, sampling=sampling)
        cohort = self._draw(sampling)
        self._record_broadcast(round, broadcast, None if cohort is None else len(cohort))
        totals = self._totals(statistic, mechanisms, round, broadcast, cohort)
        return tuple(self._noised(total, m) for total, m in zip(totals, mechanisms, strict=True))

    def _totals(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[FloatArray]:
        raise TrustModelError(f"{type(self).__name__} defines no way to sum")


class TrustedServer(_ServerSums):
    """The server sees every client's exact message, sums them and adds noise.

    Clients trust it with their exact statistics (not with their raw data). It may also `collect`.
    """

    trust = "trusted server"

    def _totals(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[FloatArray]:
        messages = self._messages(statistic, mechanisms, round, broadcast, cohort)
        return [m.sum(axis=0) for m in messages]

    def _messages(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        round: int,
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> list[FloatArray]:
        values = self._values(statistic, broadcast, cohort)
        out = []
        for part, value, mechanism in zip(statistic.parts, values, mechanisms, strict=True):
            value = self._round_to(value, mechanism)
            if len(value):  # an empty cohort sends nothing
                self.transcript.record(
                    round, "clients", "server", part, value[0], count=len(value), payload=value
                )
            out.append(value)
        return out

    def collect(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """Each client's exact message, for the trusted server's eyes only: arrays (M, ...).

        The mechanisms are those under which the server will release what it computes from the
        messages; they are charged now, because from here on the boundary is the server's word.
        With `sampling`, the messages are those of a cohort drawn here, arrays (m, ...).
        """
        self.check_release(statistic, mechanisms, public=public, sampling=sampling, **broadcast)
        self.ledger.charge(mechanisms, name=statistic.name, round=round, sampling=sampling)
        cohort = self._draw(sampling)
        self._record_broadcast(round, broadcast, None if cohort is None else len(cohort))
        return tuple(self._messages(statistic, mechanisms, round, broadcast, cohort))


class IdealSecureSum(_ServerSums):
    """An ideal functionality sums and adds noise; the server receives only the noised sum."""

    trust = "ideal secure sum"

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """As `_ServerSums.noisy_sum`; the server's view is the released value alone."""
        released = super().noisy_sum(
            statistic, mechanisms, round=round, public=public, sampling=sampling, **broadcast
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
    ) -> list[FloatArray]:
        if any(m.grid is not None for m in mechanisms):
            # rounding is done by each client: no shortcut
            values = self._values(statistic, broadcast, cohort)
            return [
                self._round_to(v, m).sum(axis=0) for v, m in zip(values, mechanisms, strict=True)
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

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        bits: Literal[32, 64] = 64,
        fractional_bits: int | None = None,
        **common: Any,
    ) -> None:
        default = 30 if bits == 64 else 16
        self.fixed_point = FixedPoint(bits, default if fractional_bits is None else fractional_bits)
        self.resolution = self.fixed_point.resolution
        super().__init__(clients, **common)
        self.session = self.randomness.bytes(16)

    def _check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        public: dict[str, Any],
        sizes: tuple[int, ...],
    ) -> None:
        super()._check_release(statistic, mechanisms, public, sizes)
        magnitudes = statistic.magnitude(**public)
        for part, mechanism in zip(statistic.parts, mechanisms, strict=True):
            if mechanism.grid is not None:
                steps = mechanism.grid / self.resolution
                if steps < 1 or steps != round(steps):
                    raise ValueError(
                        f"grid of the mechanism for {part!r} must be a multiple of the ring's"
                        f" resolution {self.resolution:g}, got {mechanism.grid:g}"
                    )
            self.fixed_point.check_capacity(
                n_records=self.n_records if statistic.unit == "point" else self.n_clients,
                magnitude=magnitudes[part],
                noise_tail=self._noise_tail(mechanism),
                name=part,
            )

    def _noise_tail(self, mechanism: Mechanism) -> float:
        return mechanism.tail(NEGLIGIBLE)


class MaskedSecureSum(_Ring):
    """FastLloyd's masked secure aggregation (Figure 1): the server is blind even to the sum.

    Each client sends its fixed-point statistic plus a one-time pad. The server adds up, adds
    rounded noise from its own source, and sends the masked total back. The clients, who share the
    pads, unmask it: they alone see the noised sum. Holds against one corrupted party that follows
    the protocol (Theorem 5.2). The server knows its own noise, so nothing may send it the unmasked
    result.

    Parameters
    ----------
    bits, fractional_bits
        The ring Z_2^bits and its grid: 64 and 30 by default, 32 and 16 as in the paper's section 6.
    pre_shared_secret : bytes of length 32, optional
        A group secret that the clients already hold; without it they agree on one with X25519
        through the server.
    """

    trust = "masked secure aggregation"

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        pre_shared_secret: bytes | None = None,
        **options: Any,
    ) -> None:
        super().__init__(clients, **options)
        if pre_shared_secret is None:
            keys = agree_group_secret(
                self.n_clients,
                session=self.session,
                entropy=[self.randomness.bytes(SECRET_BYTES) for _ in range(self.n_clients)],
                group_secret=self.randomness.bytes(SECRET_BYTES),
            )
            for message in keys.messages:
                self.transcript.record(
                    -1, message.sender, message.receiver, message.name, message.content
                )
            pre_shared_secret = keys.secrets[0]
        self._pads = PadBook(pre_shared_secret, self.session, self.fixed_point.bits)
        self._n_releases = 0

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """As `_ServerSums.noisy_sum`, but the released value is known to the clients only.

        The broadcast arrays cost no message: the clients computed them from what they unmasked.

        With `sampling`, only the cohort sends. The server sees who sends, but no sum; the clients
        see the noised sum, and take away the pads of the cohort. Amplification holds against
        those who see the released value alone, not against a party that knows the cohort as well.
        """
        self.check_release(statistic, mechanisms, public=public, sampling=sampling, **broadcast)
        self.ledger.charge(mechanisms, name=statistic.name, round=round, sampling=sampling)
        cohort = self._draw(sampling)
        # pads go by the release, not by `round`: a second run on these data starts at round 0 again
        number, self._n_releases = self._n_releases, self._n_releases + 1
        values = self._values(statistic, broadcast, cohort)
        released = []
        for part, value, mechanism in zip(statistic.parts, values, mechanisms, strict=True):
            # clients: encode, mask, send
            encoded = self.fixed_point.encode(self._round_to(value, mechanism))
            pads = self._pads.pads(f"{statistic.name}/{part}", number, len(value), value.shape[1:])
            masked = mask(encoded, pads)
            self._record(round, "clients", "server", part, masked)
            # server: add up what it cannot read, and noise of its own
            noise = mechanism.sample(value.shape[1:], rng=self.randomness.noise)
            total = masked.sum(axis=0, dtype=masked.dtype) + self.fixed_point.encode(noise)
            self._record(round, "server", "clients", f"masked noisy {part}", total)
            # clients: take the sum of all pads away
            pad_total = pads.sum(axis=0, dtype=pads.dtype)
            released.append(self.fixed_point.decode(unmask(total, pad_total)))
        return tuple(released)

    def _record(self, round: int, sender: str, receiver: str, name: str, array: Any) -> None:
        count = len(array) if sender == "clients" else self.n_clients
        if count == 0:
            return
        one = array[0] if sender == "clients" else array
        self.transcript.record(round, sender, receiver, name, one, count=count, payload=array)


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

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        max_colluding: int = 1,
        **options: Any,
    ) -> None:
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        self.max_colluding = check_int(max_colluding, "max_colluding", minimum=0)
        if data.n_clients - self.max_colluding < 1 or data.n_clients < 2:
            raise ValueError(
                f"max_colluding must leave an honest node among at least two:"
                f" {data.n_clients} nodes, max_colluding={max_colluding}"
            )
        super().__init__(data, n_nodes=data.n_clients, **options)

    def _check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        public: dict[str, Any],
        sizes: tuple[int, ...],
    ) -> None:
        super()._check_release(statistic, mechanisms, public, sizes)
        for part, mechanism, size in zip(statistic.parts, mechanisms, sizes, strict=True):
            honest = getattr(mechanism, "n_honest", None)
            if honest is None and math.isfinite(mechanism.sensitivity):
                raise ValueError(
                    f"mechanism for {part!r} must be a DistributedDiscreteGaussian: every node"
                    " knows its own noise"
                )
            if honest is not None and honest > self.n_clients - self.max_colluding:
                raise ValueError(
                    f"mechanism for {part!r} counts on {honest} honest nodes, but only"
                    f" {self.n_clients - self.max_colluding} are guaranteed"
                )
            coordinates = getattr(mechanism, "n_coordinates", size)
            if coordinates < size:
                raise ValueError(
                    f"mechanism for {part!r} states n_coordinates={coordinates}, but {size} are"
                    " released"
                )

    def _noise_tail(self, mechanism: Mechanism) -> float:
        # all nodes add noise, one share of the variance each
        honest = self.n_clients - self.max_colluding
        return mechanism.tail(NEGLIGIBLE) * math.sqrt(self.n_clients / honest) + self.n_clients

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
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
        self.check_release(statistic, mechanisms, public=public, **broadcast)
        self.ledger.charge(mechanisms, name=statistic.name, round=round)
        values = self._values(statistic, broadcast)
        released = []
        for part, value, mechanism in zip(statistic.parts, values, mechanisms, strict=True):
            encoded = self.fixed_point.encode(self._round_to(value, mechanism))
            shares = self._shares(encoded)
            others = self.n_clients * (self.n_clients - 1)
            self.transcript.record(
                round, "clients", "nodes", f"share of {part}", shares[0, 0], count=others,
                payload=shares,
            )  # fmt: skip
            sums = shares.sum(axis=0, dtype=shares.dtype)
            noise = np.stack(
                [mechanism.sample(value.shape[1:], rng=r) for r in self.randomness.node_noise]
            )
            published = sums + self.fixed_point.encode(noise)
            self.transcript.record(
                round, "nodes", "clients", f"noised share sum of {part}", published[0],
                count=others, payload=published,
            )  # fmt: skip
            total = published.sum(axis=0, dtype=published.dtype)
            released.append(self.fixed_point.decode(total))
        return tuple(released)

    def _shares(self, encoded: Any) -> Any:
        """Additive shares (sender, node, ...): all but the last uniform, together the value."""
        m = self.n_clients
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
        ``seed`` (teaching mode) or ``mode="secure"``; ``bound``, ``outside``, ``ledger`` or
        ``budget``, ``n_records``, ``keep_payloads``; for the rings ``bits``, ``fractional_bits``.
    """
    check_choice(trust, "trust", tuple(TRUST_MODELS))
    return TRUST_MODELS[trust](clients, **options)
