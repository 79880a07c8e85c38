"""Capabilities of a federation, and what all in-process federations share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, check_choice, check_int, check_positive
from fedclust_helpers.accounting import Budget, LedgerMismatchError, PrivacyLedger
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.transcript import Transcript
from fedclust_helpers.mechanisms import Mechanism


class TrustModelError(TypeError):
    """An algorithm asked for more than the trust model of this federation may show."""


@runtime_checkable
class SumFederation(Protocol):
    """The weakest capability of central-accuracy algorithms: one noised sum at a time."""

    ledger: PrivacyLedger
    transcript: Transcript
    randomness: Randomness
    resolution: float

    @property
    def n_clients(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_records(self) -> int: ...
    @property
    def bound(self) -> float: ...

    def check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        public: dict[str, Any] | None = None,
        **broadcast: Any,
    ) -> None: ...

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]: ...


class InProcess:
    """Validation, clipping, ledger and transcript shared by all in-process federations."""

    trust: str = ""
    resolution: float = 0.0

    def __init__(
        self,
        clients: ClientData | Sequence[ArrayLike],
        *,
        seed: int | np.random.SeedSequence | None = None,
        mode: Literal["teaching", "secure"] = "teaching",
        bound: float = 1.0,
        domain: Literal["box", "ball"] = "box",
        outside: Literal["clip", "refuse"] = "clip",
        ledger: PrivacyLedger | None = None,
        budget: Budget | None = None,
        n_records: int | None = None,
        keep_payloads: bool = False,
        n_nodes: int = 0,
    ) -> None:
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        check_choice(mode, "mode", ("teaching", "secure"))
        check_choice(outside, "outside", ("clip", "refuse"))
        if mode == "secure" and seed is not None:
            raise ValueError(
                "seed must not be given in secure mode: a known seed removes the noise"
            )
        if mode == "teaching" and seed is None:
            raise ValueError("seed must be given in teaching mode (or choose mode='secure')")
        if ledger is not None and budget is not None:
            raise ValueError("budget must not be given with a ledger: a ledger brings its own")
        self._bound = check_positive(bound, "bound")
        self.domain = check_choice(domain, "domain", ("box", "ball"))
        clipped, counts = data.clipped(self._bound, domain=self.domain)
        if outside == "refuse" and counts.any():
            raise ValueError(
                f"clients holds rows outside the {domain} of size bound; scale with public bounds"
                " first, or use outside='clip'"
            )
        self._data = clipped
        self.clipped_counts = counts  # known to each client for itself, never sent
        rows = len(data.points)
        self._n_records = rows if n_records is None else check_int(n_records, "n_records")
        if self._n_records < rows:
            raise ValueError("n_records must not be below the number of rows of all clients")
        self.ledger = PrivacyLedger(budget=budget) if ledger is None else ledger
        self.transcript = Transcript(keep_payloads)
        self.randomness = (
            Randomness.secure(n_nodes) if seed is None else Randomness.teaching(seed, n_nodes)
        )

    @property
    def n_clients(self) -> int:
        """Number of clients M."""
        return self._data.n_clients

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self._data.n_features

    @property
    def n_records(self) -> int:
        """Public (bound on the) number of records N; delta and range checks use it."""
        return self._n_records

    @property
    def bound(self) -> float:
        """Data lies in [-bound, bound]^d after clipping at the clients."""
        return self._bound

    # what this trust model does not offer

    def noisy_sum(self, *args: Any, **kwargs: Any) -> tuple[FloatArray, ...]:
        """Not offered by this trust model unless overridden."""
        raise TrustModelError(f"{type(self).__name__} offers no noisy_sum")

    def collect(self, *args: Any, **kwargs: Any) -> tuple[FloatArray, ...]:
        """Not offered by this trust model unless overridden."""
        raise TrustModelError(
            f"{type(self).__name__} does not let the server see single clients' messages"
            " (collect); use TrustedServer if that trust is justified"
        )

    def reports(self, *args: Any, **kwargs: Any) -> tuple[FloatArray, ...]:
        """Not offered by this trust model unless overridden."""
        raise TrustModelError(f"{type(self).__name__} offers no locally randomised reports")

    # one release, step by step

    def check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        public: dict[str, Any] | None = None,
        **broadcast: Any,
    ) -> None:
        """Raise what a release with these arguments would raise: no budget, data or message.

        The budget of the ledger is not asked. Wrong broadcast arguments are found by computing the
        statistic of one row of zeros.
        """
        if statistic.unit != self.ledger.unit:
            raise LedgerMismatchError(
                f"the sensitivity of {statistic.name!r} is stated for one {statistic.unit}, this"
                f" ledger is kept for one {self.ledger.unit}"
            )
        values = statistic.compute(np.zeros((1, self.n_features)), np.array([0, 1]), **broadcast)
        sizes = tuple(value[0].size for value in values)
        self._check_release(statistic, mechanisms, self._public(public, broadcast), sizes)

    def _check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        public: dict[str, Any],
        sizes: tuple[int, ...],
    ) -> None:
        """Everything that can be refused is refused here: before budget and before data."""
        if len(mechanisms) != len(statistic.parts):
            raise ValueError(
                f"mechanisms must be {len(statistic.parts)}, one for each of {statistic.parts}"
            )
        for part, mechanism in zip(statistic.parts, mechanisms, strict=True):
            if not math.isfinite(mechanism.sensitivity):
                continue  # NoNoise: the ledger will say inf
            grid = max(self.resolution, mechanism.grid or 0.0)
            needed = statistic.sensitivity_of(
                part, mechanism.norm, mechanism.adjacency, grid=grid, **public
            )
            if mechanism.sensitivity < needed * (1 - 1e-12):
                raise ValueError(
                    f"mechanism for {part!r} hides a sensitivity of {mechanism.sensitivity:.6g},"
                    f" but one {self.ledger.unit} can change it by {needed:.6g}"
                    f" (L{mechanism.norm}, {mechanism.adjacency})"
                )
            if self.randomness.is_secure and mechanism.grid is None:
                raise ValueError(
                    f"mechanism for {part!r} must be discrete in secure mode"
                    " (DiscreteGaussian or DiscreteLaplace)"
                )

    def _public(self, public: dict[str, Any] | None, broadcast: dict[str, Any]) -> dict[str, Any]:
        scalars = {k: v for k, v in broadcast.items() if np.ndim(v) == 0}
        return {"bound": self.bound, "n_features": self.n_features, **scalars, **(public or {})}

    def _round_to(self, values: FloatArray, mechanism: Mechanism) -> FloatArray:
        """Clients round before a discrete mechanism: its guarantee is for values on its grid."""
        if mechanism.grid is None:
            return values
        return np.rint(values / mechanism.grid) * mechanism.grid

    def _record_broadcast(self, round: int, broadcast: dict[str, Any]) -> None:
        for name, value in broadcast.items():
            self.transcript.record(
                round, "server", "clients", name, np.asarray(value, dtype=np.float64),
                count=self.n_clients,
            )  # fmt: skip
