"""Capabilities of a federation, and what all in-process federations share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._state import Fixed, SingleUse
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_positive,
    check_text,
)
from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
    Reservation,
    Sampling,
)
from fedclust_helpers.client_statistics import ClientMemory, ClientStatistic
from fedclust_helpers.federation import noise as noise_of
from fedclust_helpers.federation.data import ClientData, warn_if_mostly_clipped
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    TrustModelError,
)
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.transcript import Transcript
from fedclust_helpers.mechanisms import MAX_STEPS, NEGLIGIBLE, Mechanism

NOISES = ("auto", "continuous", "discrete")


@runtime_checkable
class SumFederation(Protocol):
    """The weakest capability of central-accuracy algorithms: one noised sum at a time.

    `facts.receiver` says who learns it: the server, or the clients alone.
    """

    ledger: PrivacyLedger
    transcript: Transcript
    randomness: Randomness
    resolution: float

    @property
    def facts(self) -> FederationFacts: ...
    @property
    def n_clients(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_records(self) -> int: ...
    @property
    def bound(self) -> float: ...

    def noise_multiplier(self, epsilon: float, delta: float) -> float: ...

    def gaussian(
        self, statistic: ClientStatistic, part: str, *, multiplier: float, **public: Any
    ) -> Mechanism: ...

    def laplace(
        self, statistic: ClientStatistic, part: str, *, epsilon: float, **public: Any
    ) -> Mechanism: ...

    def follow(self, plan: Plan, progress: Progress = False) -> AbstractContextManager[int]: ...

    def check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> None: ...

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]: ...


class _Following:
    """A plan on its way: what comes next, and the budget that is held for it."""

    def __init__(self, plan: Plan, reservation: Reservation, done: Callable[[int], object]) -> None:
        self.plan, self.reservation, self.done, self.n_made = plan, reservation, done, 0

    def next(self, wanted: PlannedRelease) -> None:
        """Refuse a release that is not the next one of the plan."""
        planned = self.plan.releases[self.n_made :][:1]
        keys = ("round", "name", "mechanisms", "sampling", "part", "amplified")
        wrong = [k for k in keys if not planned or getattr(planned[0], k) != getattr(wanted, k)]
        if wrong:
            raise PlanMismatchError(
                f"release {wanted.name!r} of round {wanted.round} is not the next one of the plan"
                + (f" (other {', '.join(wrong)})" if planned else " (all of it was released)")
            )
        if self.n_made:
            self.done(self.n_made)
        self.n_made += 1


class InProcess(Fixed, SingleUse):
    """Validation, clipping, ledger and transcript shared by all in-process federations."""

    trust: str = ""
    receiver: Literal["server", "clients"] = "server"
    noise_from: str = "the server"
    resolution: float = 0.0
    nodes_add_noise: bool = False  # every node adds a share of the noise
    advice = (
        "it holds keys, pads, noise generators and a ledger, and a copy would use them a second"
        " time; make one federation in each process (threads may share one), all charged to the"
        " one ledger of the data set"
    )

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
        n_clients: int | None = None,
        n_labels: int | None = None,
        noise: Literal["auto", "continuous", "discrete"] = "auto",
        keep_payloads: bool = False,
        n_nodes: int = 0,
    ) -> None:
        check_choice(mode, "mode", ("teaching", "secure"))
        check_choice(outside, "outside", ("clip", "refuse"))
        check_choice(noise, "noise", NOISES)
        if mode == "secure" and seed is not None:
            raise ValueError(
                "seed must not be given in secure mode: a known seed removes the noise"
            )
        if mode == "teaching" and seed is None:
            raise ValueError("seed must be given in teaching mode (or choose mode='secure')")
        if mode == "secure" and noise == "continuous":
            raise ValueError("noise must be discrete in secure mode: the last bits of floats leak")
        if mode == "secure" and outside == "refuse":
            raise ValueError(
                "outside must be 'clip' in secure mode: an error would tell how large the data are"
            )
        self.ledger = _ledger(ledger, budget)
        self._bound = check_positive(bound, "bound")
        self.domain = check_choice(domain, "domain", ("box", "ball"))
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        self._n_clients = data.n_clients if n_clients is None else check_int(n_clients, "n_clients")
        if data.n_clients > self._n_clients:  # a rule: nobody beyond the public number takes part
            data = data.take(np.arange(self._n_clients))
        clipped, counts = data.clipped(self._bound, domain=self.domain)
        if outside == "refuse" and counts.any():
            raise ValueError(
                f"clients holds rows outside the {domain} of size bound; scale with public bounds"
                " first, or use outside='clip'"
            )
        warn_if_mostly_clipped(data, counts)
        self._data = clipped
        self.clipped_counts = counts  # known to each client for itself, never sent
        self.client_memory = ClientMemory(clipped.n_clients)  # likewise
        self._n_records = (
            len(data.points) if n_records is None else check_int(n_records, "n_records")
        )
        self._n_labels = None if n_labels is None else check_int(n_labels, "n_labels")
        self._noise = noise
        self.transcript = Transcript(keep_payloads)
        self.randomness = (
            Randomness.secure(n_nodes) if seed is None else Randomness.teaching(seed, n_nodes)
        )
        self._following: _Following | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_clients} clients, {self.n_features} features,"
            f" {self.facts.mode} mode)"
        )

    @property
    def n_clients(self) -> int:
        """Public number of clients M (the true one unless given)."""
        return self._n_clients

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self._data.n_features

    @property
    def n_records(self) -> int:
        """Public (bound on the) number of records N; delta and range checks use it."""
        return self._n_records

    @property
    def n_labels(self) -> int | None:
        """Public number of classes, if it was given."""
        return self._n_labels

    @property
    def bound(self) -> float:
        """Data lies in [-bound, bound]^d, or within length `bound`, after clipping at clients."""
        return self._bound

    # the facts, and the noise that follows from them ----------------------------------------------

    @property
    def _n_honest(self) -> int:
        return 1

    def _sees(self) -> tuple[tuple[str, str], ...]:
        return ()

    def _messages_per_number(self) -> int:
        return self.n_clients

    @property
    def facts(self) -> FederationFacts:
        """What is public about this federation."""
        kind = "distributed" if self.nodes_add_noise else self._noise
        if kind == "auto":
            kind = "discrete" if self.randomness.is_secure else "continuous"
        return FederationFacts(
            trust=self.trust, mode="secure" if self.randomness.is_secure else "teaching",
            receiver=self.receiver, noise=kind, noise_from=self.noise_from, unit=self.ledger.unit,
            adjacency=self.ledger.adjacency, n_clients=self.n_clients, n_records=self.n_records,
            n_features=self.n_features, n_labels=self.n_labels, bound=self.bound,
            domain=self.domain, resolution=self.resolution, n_honest=self._n_honest,
            sees=self._sees(), messages_per_number=self._messages_per_number(),
            bytes_per_number=self._bytes_per_number(),
        )  # fmt: skip

    def _bytes_per_number(self) -> int:
        return 8

    def noise_multiplier(self, epsilon: float, delta: float) -> float:
        """Standard deviation per unit of sensitivity; see `noise.multiplier`."""
        return noise_of.multiplier(self.facts, epsilon, delta)

    def gaussian(
        self, statistic: ClientStatistic, part: str, *, multiplier: float, **public: Any
    ) -> Mechanism:
        """Gaussian noise for one part of a statistic; see `noise.gaussian`."""
        return noise_of.gaussian(self.facts, statistic, part, multiplier=multiplier, **public)

    def laplace(
        self, statistic: ClientStatistic, part: str, *, epsilon: float, **public: Any
    ) -> Mechanism:
        """Laplace noise for one part of a statistic; see `noise.laplace`."""
        return noise_of.laplace(self.facts, statistic, part, epsilon=epsilon, **public)

    # what this trust model does not offer ---------------------------------------------------------

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

    # following a plan -----------------------------------------------------------------------------

    @contextmanager
    def follow(self, plan: Plan, progress: Progress = False) -> Iterator[int]:
        """Make the releases of `plan`, in order and no others, while this context is open.

        `progress` shows a bar over the releases, or is called as ``progress(done, total)`` after
        each of them.

        Yields
        ------
        int
            How many releases the ledger held before: ``ledger.since`` of it is the run alone.

        Raises
        ------
        PlanMismatchError
            If the plan was made for another federation; within the context, for a release that is
            not the next one of the plan.
        BudgetExceededError
            If the releases cost more than the plan says, or than the ledger's budget has left.
            Nothing was sent then.
        """
        if not isinstance(plan, Plan):
            raise TypeError(f"plan must be a Plan, got {type(plan).__name__}")
        with self._lock, showing(progress, len(plan.releases), plan.method) as done:
            self.check_process()
            if self._following is not None:
                raise PlanMismatchError("a run is under way on this federation: one plan at a time")
            facts = self.facts
            if plan.facts != facts:
                names = FederationFacts.__dataclass_fields__
                wrong = [n for n in names if getattr(plan.facts, n) != getattr(facts, n)]
                raise PlanMismatchError(
                    f"plan was made for a federation with other {', '.join(wrong)}; plan again"
                    " with the federation that runs it"
                )
            if not plan.total_epsilon <= plan.epsilon * (1 + 1e-9):
                raise BudgetExceededError(
                    f"the releases of the plan cost epsilon={plan.total_epsilon:g}, more than the"
                    f" {plan.epsilon:g} that it states"
                )
            for release in plan.releases:
                self.ledger.line(
                    release.mechanisms, name=release.name, round=release.round,
                    sampling=release.sampling if release.amplified else None,
                )  # fmt: skip
            held = self.ledger.admit(plan.lines(), name=f"{plan.method} as planned")
            self._following = following = _Following(plan, held, done)
            try:
                yield len(self.ledger.releases)
                done(following.n_made)
            finally:
                self._following = None
                self.ledger.close(held)

    def _charge(self, wanted: PlannedRelease, *, group: str | None = None) -> None:
        """Charge a release: the next one of the plan, or one alone; before data are touched."""
        self.check_process()
        sampling = wanted.sampling if wanted.amplified else None
        details: dict[str, Any] = {
            "name": wanted.name, "round": wanted.round, "sampling": sampling, "group": group,
        }  # fmt: skip
        if self._following is None:
            self.ledger.charge(wanted.mechanisms, **details)
        else:
            self._following.next(wanted)
            self.ledger.charge(
                wanted.mechanisms, reservation=self._following.reservation, **details
            )

    # one release, step by step --------------------------------------------------------------------

    def check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> None:
        """Raise what a release with these arguments would raise: no budget, data or message.

        The budget of the ledger is not asked. Wrong broadcast arguments are found by computing the
        statistic of one row of zeros. Everything that the sensitivity needs is the federation's own
        or read off the broadcast; none of it can be given beside.
        """
        if not isinstance(statistic, ClientStatistic):
            raise TypeError(f"statistic must be a ClientStatistic, got {type(statistic).__name__}")
        if not isinstance(mechanisms, Sequence):
            raise TypeError(
                f"mechanisms must be a sequence, one for each of {statistic.parts}, got"
                f" {type(mechanisms).__name__}"
            )
        if statistic.unit != self.ledger.unit:
            raise LedgerMismatchError(
                f"the sensitivity of {statistic.name!r} is stated for one {statistic.unit}, this"
                f" ledger is kept for one {self.ledger.unit}"
            )
        if not statistic.fits(self.domain):
            raise ValueError(
                f"the sensitivity of {statistic.name!r} holds for rows in a {statistic.domain} of"
                f" size bound, but this federation clips to a {self.domain}: choose"
                f" domain={statistic.domain!r}"
            )
        own = {"bound", "n_features", *statistic.reads} & broadcast.keys()
        if own:
            raise TypeError(f"{', '.join(sorted(own))} must not be given: the federation's own")
        if sampling is not None:
            self._check_sampling(statistic, sampling)
        shapes = self._shapes(statistic, broadcast)
        sizes = tuple(int(np.prod(shape)) for shape in shapes)
        self._check_release(statistic, mechanisms, self._public(statistic, broadcast), sizes)

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
        """Who takes part: None for everyone, else the sorted numbers of a fresh cohort.

        A fixed cohort is drawn from the public number of clients; numbers that nobody has are
        places that stay empty.
        """
        if sampling is None:
            return None
        if sampling.scheme == "poisson":
            return np.flatnonzero(self.randomness.uniforms(self._data.n_clients) < sampling.share)
        assert sampling.population is not None and sampling.size is not None
        drawn = self.randomness.subset(sampling.population, sampling.size)
        return drawn[drawn < self._data.n_clients]

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
        magnitudes = statistic.magnitude(**public)
        for part, mechanism, size in zip(statistic.parts, mechanisms, sizes, strict=True):
            if not isinstance(mechanism, Mechanism):
                raise TypeError(
                    f"mechanism for {part!r} must be a Mechanism, got {type(mechanism).__name__}:"
                    " mechanisms are one for each part"
                )
            if not math.isfinite(mechanism.sensitivity):  # NoNoise: the ledger will say inf
                self._check_range(statistic, part, mechanism, magnitudes[part])
                continue
            grid = max(self.resolution, mechanism.grid or 0.0)
            needed = statistic.sensitivity_of(
                part, mechanism.norm, mechanism.adjacency, grid=grid, **public
            )
            if not mechanism.sensitivity >= needed * (1 - 1e-12):
                raise ValueError(
                    f"mechanisms: that for {part!r} hides a sensitivity of"
                    f" {mechanism.sensitivity:.6g}, but one {self.ledger.unit} can change it by"
                    f" {needed:.6g} (L{mechanism.norm}, {mechanism.adjacency})"
                )
            self._check_range(statistic, part, mechanism, magnitudes[part])
            coordinates = getattr(mechanism, "n_coordinates", None)
            if coordinates is not None and coordinates < self._n_drawn(size, mechanism):
                raise ValueError(
                    f"mechanism for {part!r} states n_coordinates={coordinates}, but"
                    f" {self._n_drawn(size, mechanism)} are released"
                )
            if not self.nodes_add_noise and hasattr(mechanism, "n_honest"):
                raise ValueError(
                    f"mechanism for {part!r} draws only one node's share of its noise; use a"
                    " DiscreteGaussian where one party adds it"
                )
            if self.randomness.is_secure and mechanism.grid is None:
                raise ValueError(
                    f"mechanism for {part!r} must be discrete in secure mode"
                    " (DiscreteGaussian or DiscreteLaplace)"
                )

    def _n_drawn(self, size: int, mechanism: Mechanism) -> int:
        """Coordinates of noise in a release of one part whose message has `size` numbers."""
        return size

    def _largest_total(
        self, statistic: ClientStatistic, mechanism: Mechanism, magnitude: float
    ) -> tuple[int, float]:
        """How many units add up, and what one adds to one coordinate at most, rounding included."""
        n = self.n_records if statistic.unit == "point" else self.n_clients
        rounding = max(self.resolution, mechanism.grid or 0.0) / 2 * self.n_clients / n
        return n, magnitude + rounding

    def _check_range(
        self, statistic: ClientStatistic, part: str, mechanism: Mechanism, magnitude: float
    ) -> None:
        """Refuse totals that 64-bit integers would not hold, by public numbers."""
        if mechanism.grid is None:
            return
        n, most = self._largest_total(statistic, mechanism, magnitude)
        steps = (n * most + mechanism.tail(NEGLIGIBLE)) / mechanism.grid
        if not steps < MAX_STEPS:
            raise ValueError(
                f"grid of the mechanism for {part!r} is too fine: a total may reach {steps:.3g}"
                " steps, and 64-bit integers hold 2^62"
            )

    def _public(self, statistic: ClientStatistic, broadcast: dict[str, Any]) -> dict[str, Any]:
        """What the sensitivity is computed from: the federation's own numbers and the broadcast."""
        scalars = {k: v for k, v in broadcast.items() if np.ndim(v) == 0}
        own = {"bound": self.bound, "n_features": self.n_features}
        return {**scalars, **statistic.dimensions(broadcast), **own}

    def _steps(self, values: FloatArray, mechanism: Mechanism) -> IntArray:
        """Clients round before a discrete mechanism: its guarantee is for values on its grid."""
        assert mechanism.grid is not None
        return np.rint(values / mechanism.grid).astype(np.int64)

    def _released(self, total: Any, mechanism: Any) -> FloatArray:
        """A total plus noise: floats, or whole steps that become floats only when all is added."""
        if mechanism.grid is None:
            return total + mechanism.sample(total.shape, rng=self.randomness.noise)
        noise = mechanism.sample_steps(total.shape, rng=self.randomness.noise)
        return (total + noise).astype(np.float64) * mechanism.grid

    def _record_broadcast(
        self, round: int, broadcast: dict[str, Any], count: int | None = None
    ) -> None:
        count = self._data.n_clients if count is None else count
        for name, value in broadcast.items():
            array = np.asarray(value)
            if array.dtype.kind not in "biuf":
                continue  # a name or a model's form: part of the statistic, not of the round
            self.transcript.record(
                round, "server", "clients", name, array.astype(np.float64), count=count
            )


def require(federation: Any, capability: str) -> None:
    """Refuse a federation that does not offer "noisy_sum", "collect", "reports" or "ask".

    Raises
    ------
    TypeError
        If it is no federation; `TrustModelError` if its trust model does not show as much.
    """
    check_text(capability, "capability")
    offered = getattr(federation, capability, None)
    if not callable(offered) or isinstance(federation, type):
        raise TypeError(f"federation must offer {capability}, got {type(federation).__name__}")
    if getattr(type(federation), capability, None) is getattr(InProcess, capability, ""):
        offered()  # raises: it says what is not shown


def _ledger(ledger: PrivacyLedger | None, budget: Budget | None) -> PrivacyLedger:
    """The ledger of a federation: the one given, or a new one for one point under add/remove."""
    if ledger is not None and budget is not None:
        raise ValueError("budget must not be given with a ledger: a ledger brings its own")
    if ledger is None:
        return PrivacyLedger(budget=budget)
    if not isinstance(ledger, PrivacyLedger):
        raise TypeError(f"ledger must be a PrivacyLedger, got {type(ledger).__name__}")
    return ledger
