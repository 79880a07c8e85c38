"""A federation in one process: the boundary that every release crosses, charged before it is made.

One class for all trust models. What differs between them is a row of `trust.TRUST_MODELS`; here is
what is the same: what is public, the plan that is followed, the charge, and what is on record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._state import Fixed, SingleUse
from fedclust_helpers._validation import Count, FloatArray, IntArray, Natural, check_instance
from fedclust_helpers.accounting import Budget, PrivacyLedger, Reservation, Sampling
from fedclust_helpers.client_statistics import ClientMemory, ClientStatistic
from fedclust_helpers.federation import checks, missing
from fedclust_helpers.federation.aggregation import Context, Part
from fedclust_helpers.federation.clients import Clients, failed_everywhere
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.local import Named, UserSplit, check_shares
from fedclust_helpers.federation.members import Grouping
from fedclust_helpers.federation.noise import NoiseFactory
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Following,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    TrustModelError,
)
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.reports import LocalQuery
from fedclust_helpers.federation.transcript import Transcript
from fedclust_helpers.federation.trust import TrustModel
from fedclust_helpers.mechanisms import Mechanism

CAPABILITIES = ("noisy_sum", "collect", "members", "reports", "ask")


class Federation(Fixed, SingleUse, Grouping, NoiseFactory):
    """Clients with their rows, and who of the others sees what of them: see `simulate`.

    What is public of them are its `facts`: the number of clients `n_clients` (M), of columns
    `n_features` (d), a bound on the number of records `n_records` (N; delta and range checks use
    it), perhaps of classes `n_labels`, and `bound`: rows lie in [-bound, bound]^d, or within length
    `bound`, after clipping at clients.
    In the domain "raw" they are as they are, also with missing numbers: statistics that take them
    so get them so, and others get them in the box, once bounds of the columns are public (`scale`).

    >>> import numpy as np
    >>> from fedclust_helpers.federation import simulate
    >>> federation = simulate([np.ones((5, 2)), np.ones((3, 2))], "masked", seed=0)
    >>> federation.facts.n_clients, federation.facts.n_records, federation.facts.receiver
    (2, 8, 'clients')
    """

    advice = (
        "it holds keys, pads, noise generators and a ledger, and a copy would use them a second"
        " time; make one federation in each process (threads may share one), all charged to the"
        " one ledger of the data set"
    )

    @checked
    def __init__(
        self,
        clients: Any,
        trust: TrustModel,
        *,
        seed: int | np.random.SeedSequence | None = None,
        mode: Literal["teaching", "secure"] = "teaching",
        bound: float = 1.0,
        domain: Literal["box", "ball", "raw"] | None = None,
        ledger: PrivacyLedger | None = None,
        budget: Budget | None = None,
        n_records: Count | None = None,
        n_clients: Count | None = None,
        n_labels: Count | None = None,
        noise: Literal["auto", "continuous", "discrete"] = "auto",
        keep_payloads: bool = False,
        max_colluding: Natural | None = None,
        may_miss: Natural = 0,
        repeats: Natural = 0,
        away: missing.Gone | None = None,
        silent: missing.Gone | None = None,
        public_data: bool = False,
        **aggregation: Any,
    ) -> None:
        if mode == "secure" and seed is not None:
            raise ValueError("seed must not be given in secure mode: it would remove the noise")
        if mode == "teaching" and seed is None:
            raise ValueError("seed must be given in teaching mode (or choose mode='secure')")
        if mode == "secure" and noise == "continuous":
            raise ValueError("noise must be discrete in secure mode: the last bits of floats leak")
        if noise == "auto":
            noise = "discrete" if mode == "secure" else "continuous"
        self.trust, within = trust, domain or trust.aggregation.domain
        self.ledger = checks.check_ledger(ledger, budget, trust.aggregation.adjacency)
        trust.aggregation.check_ledger(self.ledger)
        data = trust.aggregation.clients(clients)
        n_clients = n_clients or data.n_clients
        if data.n_clients > n_clients:  # cut to it, one client gone would bring in another
            raise ValueError(
                f"n_clients must be the public number of clients or a bound of it: {n_clients} is"
                " less than there are"
            )
        if within == "raw" and "ask" in trust.aggregation.offers:
            raise TrustModelError(f"{trust.title} offers no domain 'raw': reports need a box")
        self._clients = Clients.clipping(data, bound, within)
        n_records = n_records or len(data.points)
        self.transcript = Transcript(keep_payloads)
        true = (n_clients, n_records) == (data.n_clients, len(data.points))
        shares = trust.adder.shares
        self._n_present = n_present = self._present(data, n_clients)
        may_miss, repeats = missing.check_missing(trust, n_present, may_miss, repeats)
        n_honest = missing.honest(trust, n_present, may_miss, max_colluding)
        self._absences = missing.Absences(n_present, may_miss, away, silent)
        self.randomness = self._sources(seed, n_present if shares else 0)
        context = Context(
            trust.receiver, trust.adder, n_clients, n_present, n_honest, self.randomness,
            self.transcript, true,
        )  # fmt: skip
        self.aggregation = trust.aggregation(context, **aggregation)
        self.facts = FederationFacts(
            trust=trust.title, mode=mode, receiver=trust.receiver,
            noise="distributed" if shares else noise, noise_from=trust.adder.words,
            unit=self.ledger.unit, adjacency=self.ledger.adjacency, n_clients=n_clients,
            n_records=n_records, n_features=data.n_features, n_labels=n_labels,
            bound=float(bound), domain=within, resolution=self.aggregation.resolution,
            n_honest=n_honest, may_miss=may_miss, repeats=repeats, sees=trust.sees,
            max_colluding=trust.max_colluding if max_colluding is None else max_colluding,
            pooling=trust.pooling, public_data=public_data,
            messages_per_number=self.aggregation.messages_per_number,
            bytes_per_number=self.aggregation.bytes_per_number, wire=self.aggregation.wire,
        )  # fmt: skip
        self._following: Following | None = None
        self._n_releases = self._n_repeated = 0
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        f = self.facts
        size = f"{f.n_clients} clients, {f.n_features} features"
        return f"Federation({f.trust}, {size}, {f.mode} mode)"

    @property
    def client_memory(self) -> ClientMemory:
        """What clients keep from round to round; it crosses no wire."""
        return self._clients.memory

    @property
    def clipped_counts(self) -> IntArray:
        """Rows (M,) that each client clipped: known to it alone, and never sent."""
        return self._clients.clipped_counts

    def scale(self, lower: FloatArray, upper: FloatArray) -> None:
        """Tell all clients public bounds (d,) of the columns of raw rows: nothing is charged.

        From here on statistics that need a box get the rows between these bounds mapped to [-bound,
        bound]^d, clipped, without those that have missing numbers.
        """
        self._clients.scale(lower, upper, self.facts.bound)
        if self.facts.receiver == "server":
            self._tell(0, {"lower": lower, "upper": upper}, self.facts.n_clients)

    def _present(self, held: ClientData, n_clients: int) -> int:
        """How many clients take part: here those whose rows this process holds."""
        return held.n_clients

    def _sources(self, seed: int | np.random.SeedSequence | None, n_nodes: int) -> Randomness:
        """All random sources, one for each node that draws noise."""
        return Randomness.secure(n_nodes) if seed is None else Randomness.teaching(seed, n_nodes)

    # following a plan -----------------------------------------------------------------------------

    @contextmanager
    def follow(self, plan: Plan, progress: Progress = False) -> Iterator[Reservation]:
        """Make the releases of `plan`, in order and no others, while this context is open.

        Yields what the ledger holds for it: ``ledger.record_of`` gives the run alone, also where
        other threads charge the same ledger meanwhile.
        `progress` shows a bar over the releases, or is called as ``progress(done, total)`` after
        each of them.

        `PlanMismatchError` if the plan was made for another federation or changed by hand, and
        within the context for a release that is not its next one;
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

    def _charge(
        self, wanted: PlannedRelease, *, group: str | None = None, again: bool = False
    ) -> None:
        """Charge the next release of the plan, one alone, or the last `again`; before data."""
        self.check_process()
        reservation = number = None
        if self._following is not None:
            reservation = self._following.reservation
            number = self._following.next(wanted, again=again)
        if again:
            made = self._n_repeated if reservation is None else reservation.n_repeated
            missing.check_left(self.facts.repeats, made, wanted.round)
            self._n_repeated += reservation is None
        self.ledger.charge(
            wanted.mechanisms, name=wanted.name, round=wanted.round, group=group,
            sampling=wanted.charged_sampling, reservation=reservation, number=number,
        )  # fmt: skip

    # releases -------------------------------------------------------------------------------------

    def noisy_sum(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], *, round: int,
        sampling: Sampling | None = None, **broadcast: Any,
    ) -> tuple[FloatArray, ...]:  # fmt: skip
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
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], *, round: int = 0,
        sampling: Sampling | None = None, **broadcast: Any,
    ) -> PlannedRelease:  # fmt: skip
        """Raise what a release with these arguments would raise: no budget, data or message.

        Returns the release as a plan would hold it, without what is sent for it. The budget of the
        ledger is not asked. Wrong broadcast arguments are found by computing the statistic of one
        row of zeros. Everything that the sensitivity needs is the federation's own or read off the
        broadcast; none of it can be given beside.
        """
        self._checked(statistic, mechanisms, sampling, broadcast)
        return PlannedRelease.of(statistic, mechanisms, round, sampling)

    def _checked(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism],
        sampling: Sampling | None, broadcast: dict[str, Any],
    ) -> tuple[dict[str, Any], list[tuple[int, ...]]]:  # fmt: skip
        """The broadcast as all parties use it, and the shapes of one client's answer."""
        if sampling is not None and self.trust.no_sampling:
            raise TrustModelError(
                f"{self.facts.trust} offers no sampling: {self.trust.no_sampling}"
            )
        self.aggregation.check_ledger(self.ledger)
        broadcast = checks.check_statistic(self.facts, statistic, mechanisms, sampling, broadcast)
        shapes = self.shapes_of(statistic, broadcast)
        public = checks.public_of(self.facts, broadcast)
        changes = statistic.changes(**public)
        for part, mechanism, shape in zip(statistic.parts, mechanisms, shapes, strict=True):
            size = int(np.prod(shape))
            checks.check_noise(self.facts, statistic, part, mechanism, size, public)
            n, most = checks.largest_total(self.facts, statistic, mechanism, changes[part])
            self.aggregation.check_range(self.facts, part, mechanism, n, most)
        return broadcast, shapes

    def require(self, capability: str) -> None:
        """Raise `TrustModelError` where this trust model does not offer a capability."""
        if capability in {*CAPABILITIES} - {*self.aggregation.offers}:
            offers = ", ".join(self.aggregation.offers)
            raise TrustModelError(f"{self.facts.trust} offers no {capability} (but {offers})")
        if self.facts.may_miss and capability in {*CAPABILITIES} - {"noisy_sum"}:
            raise TrustModelError(f"{capability} needs all clients: may_miss must be 0")

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
        self.require(capability)
        step = getattr(self.aggregation, capability)
        with self._lock:
            broadcast, shapes = self._checked(statistic, mechanisms, sampling, broadcast)
            clients = self._clients.seen_by(statistic)
            wanted = PlannedRelease.of(statistic, mechanisms, round, sampling)
            number, again = self._n_releases, False
            for asked in self._absences.sets(number, blind=self.aggregation.blind):
                self._charge(wanted, again=again)
                self._n_releases, again = number + 1, True
                gone = self._n_present - len(asked.who) if asked.who is not None else 0
                share = sampling.share if sampling else 1.0
                count = int((self.facts.n_clients - gone) * share + 0.5)
                if self.facts.receiver == "server":  # else clients computed it from what they read
                    self._tell(round, broadcast, count)
                values = self._answers(clients, statistic, broadcast, shapes, wanted, asked)
                parts = [
                    Part(name, f"{statistic.name}/{name}", round, number, mechanism, count,
                         asked.who)
                    for name, mechanism in zip(statistic.parts, mechanisms, strict=True)
                ]  # fmt: skip
                if asked.is_complete:
                    break
                for part, value in zip(parts, values, strict=True):
                    self.aggregation.broken_off(part, value, asked.answering)
            return tuple(step(part, value) for part, value in zip(parts, values, strict=True))

    def _answers(
        self, clients: Clients, statistic: ClientStatistic, broadcast: dict[str, Any],
        shapes: list[tuple[int, ...]], wanted: PlannedRelease, asked: missing.Asked,
    ) -> Sequence[FloatArray]:  # fmt: skip
        """The statistic of those who answer, or of a cohort that is drawn of them."""
        cohort = None
        if wanted.sampling is not None:
            cohort = self.randomness.cohort(wanted.sampling, self._clients.data.n_clients)
        if asked.answering is not None:
            here = np.array(asked.answering)
            cohort = here if cohort is None else np.intersect1d(cohort, here)
        with clients.together(statistic, cohort):
            if not self.aggregation.pools:
                return clients.values(statistic, broadcast, shapes, cohort)
            if all(m.grid is None for m in wanted.mechanisms):
                pooled = clients.pooled(statistic, broadcast, cohort)
                return pooled or clients.values(statistic, broadcast, shapes, cohort)
            how = self.aggregation.encode, wanted.mechanisms
            return clients.added(statistic, broadcast, shapes, cohort, *how)

    def shapes_of(self, statistic: ClientStatistic, broadcast: Any) -> list[tuple[int, ...]]:
        """Shapes of one client's message, one for each part; a wrong broadcast raises."""
        return checks.shapes(
            self.facts, statistic, broadcast, self._clients.data.labels is not None
        )

    def _tell(self, round: int, broadcast: dict[str, Any], count: int) -> None:
        """Record what the server sends to `count` clients."""
        for name, value in broadcast.items():
            array = np.asarray(value)
            if array.dtype.kind in "biuf":  # else a name or a model's form: part of the statistic
                self.transcript.record(
                    round, "server", "clients", name, array.astype(np.float64), count=count
                )

    # questions to users ---------------------------------------------------------------------------

    @property
    def split(self) -> UserSplit | None:
        """The last division of the users, or None."""
        return self.users.split

    @property
    def users(self) -> Named:
        """The aggregation of users' reports; `TrustModelError` where there are none."""
        self.require("ask")
        return cast(Named, self.aggregation)

    def check_ask(
        self, query: LocalQuery, *, part: str | None = None, round: int = 0
    ) -> PlannedRelease:
        """Raise what `ask` would raise before its first report, the budget apart.

        Returns the release as a plan would hold it, without what is sent for it.
        """
        users = self.users
        users.check_ledger(self.ledger)
        data = self._clients.data
        if data.n_clients != len(data.points):
            raise ValueError(
                "clients must hold one point each to answer local queries (give one array of"
                " shape (n, d), or let every client choose one of its rows at random)"
            )
        users.check_ask(query, part, self.facts)
        charged, parts = users.charged(query.mechanisms), query.parts
        if len(charged) > len(parts):  # several answers of one form
            parts = tuple(f"{parts[0]} {i + 1}" for i in range(len(charged)))
        return PlannedRelease(round, query.name, parts, charged, part=part)

    def divide(self, shares: Mapping[str, float]) -> UserSplit:
        """Divide the users over named parts by public coins; later `ask`s may name a part.

        Users of different parts answer different questions, so their costs do not add up: the
        ledger keeps one group for each part of this division.
        """
        users, shares = self.users, check_shares(shares)  # raises before the ledger counts it
        with self._lock:  # users are asked in the division that is charged
            seed = int(self.randomness.public.integers(2**63))
            split = UserSplit(shares, seed)
            object.__setattr__(split, "number", self.ledger.new_division())
            users.divided(split)
            return split

    def ask(self, query: LocalQuery, *, round: int, part: str | None = None) -> None:
        """Put one question to all users, or to those of one part; the query collects the answers.

        Each user's report is randomised on the device. It is charged once for each user: reports of
        different users compose in parallel, because a neighbouring data set changes one user. What
        is wrong raises before any data is read or budget spent; what fails of all of them, after.
        """
        users = self.users
        with self._lock:
            wanted = self.check_ask(query, part=part, round=round)
            group = None if part is None or users.split is None else users.split.group(part)
            self._charge(wanted, group=group)
            users.asked(query, part)
            self._tell(round, dict(query.public), self.facts.n_clients)
            users.ask(query, part, round, self._clients.data.points)
        if users.failed:
            raise failed_everywhere(f"query {query.name!r}")
