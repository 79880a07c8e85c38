"""Capabilities of a federation, and what all in-process federations share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._state import Fixed, SingleUse
from fedclust_helpers._validation import Count, FloatArray, IntArray, check_instance
from fedclust_helpers.accounting import Budget, PrivacyLedger, Reservation, Sampling
from fedclust_helpers.client_statistics import ClientMemory, ClientStatistic
from fedclust_helpers.federation import checks
from fedclust_helpers.federation.data import ClientData, warn_if_mostly_clipped
from fedclust_helpers.federation.following import Following
from fedclust_helpers.federation.noise import NoiseFactory
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    TrustModelError,
)
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.transcript import Transcript
from fedclust_helpers.mechanisms import Mechanism

log = logging.getLogger(__name__)


@runtime_checkable
class SumFederation(Protocol):
    """The weakest capability of central-accuracy algorithms: one noised sum at a time.

    The methods are those of `InProcess`; `facts.receiver` says who learns the sums: the server, or
    the clients alone.
    """

    ledger: PrivacyLedger
    transcript: Transcript
    randomness: Randomness
    n_clients: int
    n_features: int
    n_records: int
    bound: float
    resolution: float

    @property
    def facts(self) -> FederationFacts: ...
    def noise_multiplier(self, epsilon: float, delta: float) -> float: ...
    def noise_multipliers(self, epsilon: float, delta: float) -> Iterator[float]: ...
    def gaussian(self, *args: Any, **kwargs: Any) -> Mechanism: ...
    def laplace(self, *args: Any, **kwargs: Any) -> Mechanism: ...
    def follow(
        self, plan: Plan, progress: Progress = False
    ) -> AbstractContextManager[Reservation]: ...
    def check_release(self, *args: Any, **kwargs: Any) -> int: ...
    def noisy_sum(self, *args: Any, **kwargs: Any) -> tuple[FloatArray, ...]: ...


class Part(NamedTuple):
    """One part of a release on its way: its name, what its pads are for, and its noise.

    `n_senders` is the public number of clients who send it: of a hidden cohort, what is expected.
    """

    name: str
    purpose: str
    round: int
    number: int  # of the release: rounds start at 0 again in a second run
    mechanism: Any
    n_senders: int


REFUSED = {
    "noisy_sum": "offers no noisy_sum",
    "collect": "does not let the server see single clients' messages (collect); use TrustedServer"
    " if that trust is justified",
    "reports": "offers no locally randomised reports",
}


class InProcess(Fixed, SingleUse, NoiseFactory):
    """Validation, clipping, ledger and transcript shared by all in-process federations.

    Public are the number of clients `n_clients` (M), of columns `n_features` (d), a bound on the
    number of records `n_records` (N; delta and range checks use it), perhaps of classes `n_labels`,
    and `bound`: rows lie in [-bound, bound]^d, or within length `bound`, after clipping at clients.
    """

    trust: str = ""
    offers: tuple[str, ...] = ()  # of noisy_sum, collect, reports
    receiver: Literal["server", "clients"] = "server"
    noise_from: str = "the server"
    nodes_add_noise: bool = False  # every node adds a share of the noise
    no_sampling: str = ""  # why a cohort would protect nobody
    sees: tuple[tuple[str, str], ...] = ()
    resolution: float = 0.0
    advice = (
        "it holds keys, pads, noise generators and a ledger, and a copy would use them a second"
        " time; make one federation in each process (threads may share one), all charged to the"
        " one ledger of the data set"
    )

    @checked
    def __init__(
        self,
        clients: Any,
        *,
        seed: int | np.random.SeedSequence | None = None,
        mode: Literal["teaching", "secure"] = "teaching",
        bound: float = 1.0,
        domain: Literal["box", "ball"] = "box",
        ledger: PrivacyLedger | None = None,
        budget: Budget | None = None,
        n_records: Count | None = None,
        n_clients: Count | None = None,
        n_labels: Count | None = None,
        noise: Literal["auto", "continuous", "discrete"] = "auto",
        keep_payloads: bool = False,
    ) -> None:
        if mode == "secure" and seed is not None:
            raise ValueError("seed must not be given in secure mode: it would remove the noise")
        if mode == "teaching" and seed is None:
            raise ValueError("seed must be given in teaching mode (or choose mode='secure')")
        if mode == "secure" and noise == "continuous":
            raise ValueError("noise must be discrete in secure mode: the last bits of floats leak")
        self.ledger = checks.check_ledger(ledger, budget)
        data = clients if isinstance(clients, ClientData) else ClientData.from_clients(clients)
        self.n_clients = n_clients or data.n_clients
        if data.n_clients > self.n_clients:  # a rule: nobody beyond the public number takes part
            data = data.take(np.arange(self.n_clients))
        clipped, counts = data.clipped(bound, domain=domain)
        warn_if_mostly_clipped(data, counts)
        self._data = clipped
        self.bound, self.domain = float(bound), domain
        self.clipped_counts = counts  # known to each client for itself, never sent
        self.client_memory = ClientMemory(clipped.n_clients)  # likewise
        self.n_features = data.n_features
        self.n_records, self.n_labels = n_records or len(data.points), n_labels
        self._noise = noise
        self.transcript = Transcript(keep_payloads)
        n_nodes = self._n_present if self.nodes_add_noise else 0
        self.randomness = (
            Randomness.secure(n_nodes) if seed is None else Randomness.teaching(seed, n_nodes)
        )
        self._following: Following | None = None
        self._n_releases = 0
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_clients} clients, {self.n_features} features,"
            f" {self.facts.mode} mode)"
        )

    # the facts, and the noise that follows from them ----------------------------------------------

    n_honest = 1
    bytes_per_number = 8
    wire = FederationFacts.wire

    @property
    def _n_present(self) -> int:
        """Clients who take part: here those whose rows this process holds."""
        return self._data.n_clients

    @property
    def messages_per_number(self) -> int:
        """Messages on the wire for each number that one client sends."""
        return self.n_clients

    @cached_property
    def facts(self) -> FederationFacts:
        """What is public about this federation."""
        kind = "distributed" if self.nodes_add_noise else self._noise
        if kind == "auto":
            kind = "discrete" if self.randomness.is_secure else "continuous"
        own = {
            name: getattr(self, name)
            for name in FederationFacts.__dataclass_fields__
            if name not in ("mode", "noise", "unit", "adjacency")
        }
        return FederationFacts(
            mode="secure" if self.randomness.is_secure else "teaching", noise=kind,
            unit=self.ledger.unit, adjacency=self.ledger.adjacency, **own,
        )  # fmt: skip

    # following a plan -----------------------------------------------------------------------------

    @contextmanager
    def follow(self, plan: Plan, progress: Progress = False) -> Iterator[Reservation]:
        """Make the releases of `plan`, in order and no others, while this context is open.

        Yields what the ledger holds for it: ``ledger.of`` that is the run alone, also where other
        threads charge the same ledger meanwhile.
        `progress` shows a bar over the releases, or is called as ``progress(done, total)`` after
        each of them.

        `PlanMismatchError` if the plan was made for another federation or changed by hand (see
        `planner`), and within the context for a release that is not its next one;
        `BudgetExceededError`, before anything is sent, if the releases cost more than the plan
        says, or than the ledger's budget has left.
        """
        check_instance(plan, Plan, "plan")
        with self._lock, showing(progress, len(plan.releases), plan.method) as done:
            self.check_process()
            if self._following is not None:
                raise PlanMismatchError("a run is under way on this federation: one plan at a time")
            self._following = following = Following(plan, self.facts, self.ledger, done)
            try:
                yield following.reservation
                done(following.n_made)
            finally:
                self._following = None
                self.ledger.close(following.reservation)

    def _charge(self, wanted: PlannedRelease, *, group: str | None = None) -> None:
        """Charge a release: the next one of the plan, or one alone; before data are touched."""
        self.check_process()
        wanted.check_source(self.facts.mode)
        reservation = None
        if self._following is not None:
            self._following.next(wanted)
            reservation = self._following.reservation
        self.ledger.charge(
            wanted.mechanisms, name=wanted.name, round=wanted.round, group=group,
            sampling=wanted.charged_sampling, reservation=reservation,
        )  # fmt: skip

    # releases -------------------------------------------------------------------------------------

    def noisy_sum(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """Release a noised sum of `statistic` over all clients, one array for each of its parts.

        Each of `mechanisms` must hide at least the sensitivity of its part. `round` is the number
        under which transcript and ledger record this release; `broadcast` are the arguments that
        every client receives (centres, radius). With `sampling` a cohort is drawn here, anew,
        instead of everyone. Who was drawn stays inside: the charge is amplified only against those
        who do not learn it. An empty cohort releases pure noise.

        What is wrong raises before any data is read or budget spent; `TrustModelError` if this
        trust model offers no such release.
        """
        how = broadcast | {"round": round, "sampling": sampling}
        return self._release("noisy_sum", statistic, mechanisms, **how)

    def collect(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], **how: Any
    ) -> tuple[Any, ...]:
        """As `noisy_sum`, but each client's exact message, for a trusted server's eyes only.

        Arrays (M, ...), or (m, ...) for a cohort. The mechanisms are those under which the server
        will release what it computes from the messages; they are charged now, because from here on
        the boundary is the server's word. Parts with a discrete mechanism come in whole steps of
        its grid (int64).
        """
        return self._release("collect", statistic, mechanisms, **how)

    def reports(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], **how: Any
    ) -> tuple[FloatArray, ...]:
        """As `noisy_sum`, but messages (M, ...) that each client noised: all that a server sees."""
        return self._release("reports", statistic, mechanisms, **how)

    def check_release(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> int:
        """Raise what a release with these arguments would raise: no budget, data or message.

        Returns how many numbers one client would send. The budget of the ledger is not asked. Wrong
        broadcast arguments are found by computing the statistic of one row of zeros. Everything
        that the sensitivity needs is the federation's own or read off the broadcast; none of it can
        be given beside.
        """
        _, shapes = self._checked(statistic, mechanisms, sampling, broadcast)
        return sum(int(np.prod(shape)) for shape in shapes)

    def _checked(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism],
        sampling: Sampling | None, broadcast: dict[str, Any],
    ) -> tuple[dict[str, Any], list[tuple[int, ...]]]:  # fmt: skip
        """The broadcast as all parties use it, and the shapes of one client's answer."""
        if sampling is not None and self.no_sampling:
            raise TrustModelError(f"{type(self).__name__} offers no sampling: {self.no_sampling}")
        broadcast = checks.check_statistic(self.facts, statistic, mechanisms, sampling, broadcast)
        shapes = self.shapes_of(statistic, broadcast)
        public = checks.public_of(self.facts, broadcast)
        changes = statistic.changes(**public)
        for part, mechanism, shape in zip(statistic.parts, mechanisms, shapes, strict=True):
            size = int(np.prod(shape))
            checks.check_noise(self.facts, statistic, part, mechanism, size, public)
            n, most = checks.largest_total(self.facts, statistic, mechanism, changes[part])
            self._check_range(part, mechanism, n, most)
        return broadcast, shapes

    def _check_range(self, part: str, mechanism: Mechanism, n: int, most: float) -> None:
        checks.check_integers(part, mechanism, n, most)

    def _require(self, capability: str) -> None:
        if capability in REFUSED and capability not in self.offers:
            raise TrustModelError(f"{type(self).__name__} {REFUSED[capability]}")

    def _release(
        self,
        capability: str,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        sampling: Sampling | None = None,
        **broadcast: Any,
    ) -> tuple[Any, ...]:
        """One release, the same for all: refuse, charge, draw, tell, compute; then part by part."""
        self._require(capability)
        step = getattr(self, f"_{capability}")
        with self._lock:
            broadcast, _ = self._checked(statistic, mechanisms, sampling, broadcast)
            self._charge(
                PlannedRelease.of(statistic, tuple(mechanisms), round=round, sampling=sampling)
            )
            cohort = self._draw(sampling)
            count = int(self.n_clients * (1.0 if sampling is None else sampling.share) + 0.5)
            if self.receiver == "server":  # else the clients computed it from what they unmasked
                self._tell(round, broadcast, count)
            values = self._answers(statistic, mechanisms, broadcast, cohort)
            number, self._n_releases = self._n_releases, self._n_releases + 1
            return tuple(
                step(Part(name, f"{statistic.name}/{name}", round, number, mechanism, count), value)
                for name, mechanism, value in zip(statistic.parts, mechanisms, values, strict=True)
            )

    def shapes_of(self, statistic: ClientStatistic, broadcast: Any) -> list[tuple[int, ...]]:
        """Shapes of one client's message, one for each part; a wrong broadcast raises."""
        return checks.shapes(self.facts, statistic, broadcast, self._data.labels is not None)

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

    def _tell(self, round: int, broadcast: dict[str, Any], count: int) -> None:
        """Record what the server sends to `count` clients."""
        for name, value in broadcast.items():
            array = np.asarray(value)
            if array.dtype.kind in "biuf":  # else a name or a model's form: part of the statistic
                self.transcript.record(
                    round, "server", "clients", name, array.astype(np.float64), count=count
                )

    def _answers(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        broadcast: dict[str, Any],
        cohort: IntArray | None,
    ) -> Sequence[Any]:
        """What the clients answer to a release, for each part: a row for each of them."""
        return self._values(statistic, broadcast, cohort)

    def _values(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], cohort: IntArray | None = None
    ) -> Sequence[FloatArray]:
        """The statistic of everyone or of a cohort, a row for each; it never raises.

        A client whose own computation fails answers as one without rows would: others who see that
        it failed would learn about its rows, free of charge.
        """
        clients = np.arange(self._data.n_clients) if cohort is None else cohort
        made = self._computed(statistic, broadcast, cohort) if len(clients) else None
        if made is not None:
            return made
        shapes = self.shapes_of(statistic, broadcast)
        values = [np.zeros((len(clients), *shape)) for shape in shapes]
        for i in range(len(clients) if len(clients) > 1 else 0):
            alone = self._computed(statistic, broadcast, clients[i : i + 1])
            if alone is not None and [a.shape[1:] for a in alone] == shapes:
                for value, own in zip(values, alone, strict=True):
                    value[i] = own[0]
        return values

    def _computed(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], cohort: IntArray | None,
        *, pooled: bool = False,
    ) -> Sequence[FloatArray] | None:  # fmt: skip
        """The statistic of all these clients, or the sums over them; None where it fails."""
        data = self._data if cohort is None else self._data.take(cohort)
        memory = self.client_memory if cohort is None else self.client_memory.of(cohort)
        own: dict[str, Any] = {"labels": data.labels, "memory": memory}
        given = {name: own[name] for name in statistic.reads} | broadcast
        offsets, n = data.offsets, 1 if pooled else data.n_clients
        try:
            with np.errstate(all="ignore"):
                if pooled and statistic.pooled is not None:
                    values = tuple(v[None] for v in statistic.pooled(data.points, offsets, **given))
                else:  # additive over rows: the sum over clients is that of one who has all
                    edges = offsets[[0, -1]] if pooled else offsets
                    values = statistic.compute(data.points, edges, **given)
            if checks.are_answers(values, n):
                return [v[0] for v in values] if pooled else values
        except Exception:  # its text may speak of the rows: it stays here
            log.exception("%s failed", statistic.name)
        return None

    def _exact(self, values: FloatArray, mechanism: Mechanism) -> Any:
        """Values as clients send them: rounded to whole steps where the mechanism has a grid."""
        if mechanism.grid is None:
            return values
        return np.rint(values / mechanism.grid).astype(np.int64)

    def noised(self, total: Any, mechanism: Any) -> FloatArray:
        """A total plus noise: floats, or whole steps that become floats only when all is added."""
        if mechanism.grid is None:
            return total + mechanism.sample(total.shape, rng=self.randomness.noise)
        noise = mechanism.sample_steps(total.shape, rng=self.randomness.noise)
        return (total + noise).astype(np.float64) * mechanism.grid


def require(federation: Any, capability: str) -> None:
    """Refuse a federation that does not offer "noisy_sum", "collect", "reports" or "ask".

    TypeError if it is no federation; `TrustModelError` if its trust model does not show as much.
    """
    offered = getattr(federation, check_instance(capability, str, "capability"), None)
    if not callable(offered) or isinstance(federation, type):
        raise TypeError(f"federation must offer {capability}, got {type(federation).__name__}")
    if isinstance(federation, InProcess):
        federation._require(capability)
