"""Capabilities of a federation, and what all in-process federations share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import Budget, LedgerMismatchError, PrivacyLedger, Sampling
from fedclust_helpers.client_statistics import ClientMemory, ClientStatistic
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
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> None: ...

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        public: dict[str, Any] | None = None,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]: ...


class InProcess:
    """Validation, clipping, ledger and transcript shared by all in-process federations."""

    trust: str = ""
    resolution: float = 0.0
    nodes_add_noise: bool = False  # every node adds a share of the noise

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
        self.client_memory = ClientMemory(clipped.n_clients)  # likewise
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

    @property
    def n_labels(self) -> int | None:
        """Number of classes that the labels speak of (largest label + 1); None without labels."""
        labels = self._data.labels
        return None if labels is None else int(labels.max()) + 1

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
        sampling: Sampling | None = None,
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
        if sampling is not None:
            self._check_sampling(statistic, sampling)
        shapes = self._shapes(statistic, broadcast)
        sizes = tuple(int(np.prod(shape)) for shape in shapes)
        self._check_release(statistic, mechanisms, self._public(public, broadcast), sizes)

    def _check_sampling(self, statistic: ClientStatistic, sampling: Sampling) -> None:
        if not isinstance(sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling, got {type(sampling).__name__}")
        if statistic.unit != "client":
            raise ValueError(
                f"sampling draws clients, but the sensitivity of {statistic.name!r} is stated for"
                f" one {statistic.unit}"
            )
        if sampling.scheme == "fixed" and sampling.population != self.n_clients:
            raise ValueError(
                f"sampling must state the population of {self.n_clients} clients, got"
                f" {sampling.population}"
            )

    def _shapes(
        self, statistic: ClientStatistic, broadcast: dict[str, Any]
    ) -> list[tuple[int, ...]]:
        """Shapes of one client's message, from one row of zeros."""
        own: dict[str, Any] = {}
        if "labels" in statistic.reads:
            own["labels"] = None if self._data.labels is None else np.zeros(1, dtype=np.int64)
        if "memory" in statistic.reads:
            own["memory"] = ClientMemory(1)
        values = statistic.compute(
            np.zeros((1, self.n_features)), np.array([0, 1]), **own, **broadcast
        )
        return [value.shape[1:] for value in values]

    def _draw(self, sampling: Sampling | None) -> IntArray | None:
        """Who takes part: None for everyone, else the sorted numbers of a fresh cohort."""
        if sampling is None:
            return None
        rng = self.randomness.cohorts
        if sampling.rate is not None:
            return np.flatnonzero(rng.random(self.n_clients) < sampling.rate)
        return np.sort(rng.choice(self.n_clients, sampling.size, replace=False))

    def _values(
        self,
        statistic: ClientStatistic,
        broadcast: dict[str, Any],
        cohort: IntArray | None = None,
        *,
        how: str = "compute",
    ) -> tuple[FloatArray, ...]:
        """The statistic of everyone or of a cohort: a row for each, or (how="pooled") the sum."""
        if cohort is not None and len(cohort) == 0:
            rows = () if how == "pooled" else (0,)
            return tuple(np.zeros((*rows, *s)) for s in self._shapes(statistic, broadcast))
        data = self._data if cohort is None else self._data.take(cohort)
        own: dict[str, Any] = {}
        if "labels" in statistic.reads:
            own["labels"] = data.labels
        if "memory" in statistic.reads:
            own["memory"] = self.client_memory if cohort is None else self.client_memory.of(cohort)
        return tuple(getattr(statistic, how)(data.points, data.offsets, **own, **broadcast))

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
            if not self.nodes_add_noise and getattr(mechanism, "n_honest", 1) > 1:
                raise ValueError(
                    f"mechanism for {part!r} draws only one node's share of its noise; use a"
                    " DiscreteGaussian where one party adds it"
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

    def _noised(self, values: FloatArray, mechanism: Mechanism) -> FloatArray:
        """`values` plus noise; on a grid in whole steps, so that no last bit tells them apart."""
        noise = mechanism.sample(values.shape, rng=self.randomness.noise)
        grid = mechanism.grid
        if grid is None:
            return values + noise
        return (np.rint(values / grid) + np.rint(noise / grid)) * grid

    def _record_broadcast(
        self, round: int, broadcast: dict[str, Any], count: int | None = None
    ) -> None:
        count = self.n_clients if count is None else count
        for name, value in broadcast.items():
            array = np.asarray(value)
            if array.dtype.kind not in "biuf":
                continue  # a name or a model's form: part of the statistic, not of the round
            self.transcript.record(
                round, "server", "clients", name, array.astype(np.float64), count=count
            )
