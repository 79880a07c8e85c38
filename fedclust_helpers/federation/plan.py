"""Plan, then run: everything that is fixed before the first message, and a plan on its way.

A plan is a public object. It is made from the federation that will run it, lists every release with
its mechanism, and prints as the privacy statement of the run. A federation that follows a plan
makes the releases of the plan, in their order, and no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedclust_helpers._validation import Natural
from fedclust_helpers.accounting import BudgetExceededError, Entry, PrivacyLedger, Sampling
from fedclust_helpers.accounting.entries import costliest, differences
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.plan_statement import Pairs, as_html, as_text, pairs_of


class TrustModelError(TypeError):
    """An algorithm asked for more than the trust model of this federation may show."""


class PlanMismatchError(ValueError):
    """A plan was made for another federation, or a release is not the next one of the plan."""


class ClientsMissingError(RuntimeError):
    """More clients are missing than the federation may miss, or no repeat is left for a round."""


@dataclass(frozen=True)
class FederationFacts:
    """What is public about a federation, and what its noise depends on.

    `receiver` is who learns the released values, `noise` the kind of noise that this federation
    draws ("continuous", "discrete", or "distributed": every client adds a share), `n_honest` the
    number of shares that hide a value alone, or of shuffled users who hide one another. So many
    clients `may_miss` a release, and so many `repeats` are reserved for releases that are asked of
    a second set of clients (module `federation.missing`). `max_colluding` of the clients may pool
    what they know (None where nobody's privacy hangs on other clients); `pooling` is that of the
    trust model. With `public_data` something was read off the rows without noise, because they
    were declared public.
    `n_clients`, `n_records` and `n_labels` are public numbers (or bounds), not counts of the data.
    `wire` says which bytes a plan counts.
    """

    trust: str
    mode: str
    receiver: str
    noise: str
    noise_from: str
    unit: str
    adjacency: str
    n_clients: int
    n_records: int
    n_features: int
    n_labels: int | None
    bound: float
    domain: str
    resolution: float
    n_honest: int = 1
    may_miss: int = 0
    repeats: int = 0
    sees: tuple[tuple[str, str], ...] = ()
    max_colluding: int | None = None
    pooling: str = ""
    public_data: bool = False
    messages_per_number: int = 1
    bytes_per_number: int = 8
    wire: str = "for the releases of all clients"

    @property
    def clients_send(self) -> bool:
        """False where one sum is counted, whoever is in it (an ideal sum)."""
        return self.messages_per_number > 1

    @property
    def n_units(self) -> int:
        """The public number of what is protected: N for rows, else of clients."""
        return self.n_records if self.unit == "point" else self.n_clients

    def check_delta(self, delta: float) -> None:
        """Raise ValueError from 1/N on: whoever publishes one of N at random keeps that delta.

        For plans of private data; studies of a paper may plan with the paper's delta.
        """
        if delta * self.n_units >= 1:
            raise ValueError(
                f"delta must be far below one over the {self.n_units:,} that are protected, since"
                f" publishing one of them at random would keep it: at most {0.1 / self.n_units:.2g}"
            )

    @property
    def more_noise(self) -> float:
        """So many times the planned noise is in a sum of everybody: above 1 where all add shares.

        Those of the honest clients alone are the planned noise.
        """
        return math.sqrt(self.n_clients / self.n_honest) if self.noise == "distributed" else 1.0


@dataclass(frozen=True)
class PlannedRelease:
    """One release of a plan: mechanisms on one sample, one for each part of a statistic.

    `part` names a part of the users (local model). `numbers` is how many numbers one client sends.
    `amplified` is False where sampling is not counted: what clients send depends on earlier rounds,
    and the cohort has a fixed size (`ClientStatistic`).
    `n_bytes` are those of all reports to a question (about, where users are divided), else 0.
    """

    round: Natural
    name: str
    parts: tuple[str, ...]
    mechanisms: tuple[Any, ...]  # of `Mechanism`, or what a local query draws
    sampling: Sampling | None = None
    part: str | None = None
    numbers: Natural = 0
    amplified: bool = True
    n_bytes: float = 0.0

    @classmethod
    def of(
        cls, statistic: ClientStatistic, mechanisms: Sequence[Any], round: int,
        sampling: Sampling | None,
    ) -> PlannedRelease:  # fmt: skip
        """The release of a statistic."""
        return cls(
            round, statistic.name, statistic.parts, tuple(mechanisms), sampling,
            amplified=not statistic.remembers or getattr(sampling, "scheme", "") == "poisson",
        )  # fmt: skip

    @property
    def charged_sampling(self) -> Sampling | None:
        """The sampling that amplifies, if any."""
        return self.sampling if self.amplified else None

    def entry(self, unit: str, adjacency: str) -> Entry:
        """What the ledger will hold."""
        group = None if self.part is None else f"planned/{self.part}"
        return Entry(
            self.round, self.name, self.mechanisms, unit, adjacency, self.charged_sampling, group
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All public numbers of a run, fixed in advance and the same for every party.

    `method` is the name of the algorithm. `epsilon` and `delta` are what the run may cost in all,
    for one unit under the adjacency of `facts` (inf without noise). `releases` are all of them, in
    order; `facts` are those of the federation that the plan was made from: no other will follow it.
    `predicted_error` is what noise is expected to do to the result, where there is a formula, and
    `predicted_error_is` says in words and units what the number means. The `algorithm` asked for
    the releases in a dry run, with a `dial` that decides how much noise all of them have (a noise
    multiplier, or a set of budgets), and is started again with it. `parts` are those that the users
    are divided over.

    >>> import numpy as np
    >>> from fedclust_helpers import fastlloyd
    >>> from fedclust_helpers.federation import simulate
    >>> federation = simulate([np.zeros((900, 2))], "trusted", seed=0)
    >>> plan = fastlloyd.plan(federation, n_clusters=3, epsilon=1.0, delta=1e-6, n_rounds=4)
    >>> plan.method, len(plan.releases), plan.releases[0].name
    ('fastlloyd', 4, 'relative_sums_and_counts')
    """

    method: str
    n_clusters: int
    n_features: int
    n_rounds: int
    epsilon: float
    delta: float
    releases: tuple[PlannedRelease, ...]
    facts: FederationFacts = field(repr=False)
    predicted_error: float | None = None
    predicted_error_is: str = ""
    algorithm: Any = field(repr=False)
    dial: Any
    given: tuple[tuple[str, Any], ...] = field(repr=False, compare=False)
    sent: tuple[tuple[tuple[str, Any], ...], ...] = field(repr=False, compare=False)
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """The options that the algorithm takes, defaults included; a copy."""
        return dict(self.given)

    @property
    def mechanisms(self) -> tuple[tuple[Any, ...], ...]:
        """The noise of each release, one mechanism for each part."""
        return tuple(release.mechanisms for release in self.releases)

    def broadcasts(self, name: str) -> tuple[Any, ...]:
        """A number that is broadcast, for each release that has it, as the plan foresees it."""
        return tuple(dict(sent)[name] for sent in self.sent if name in dict(sent))

    def steps(self, public: Any) -> Any:
        """The algorithm, from its start."""
        return self.algorithm.steps(public, self.dial, **self.options)

    def vouched(self) -> Self:
        """This plan, which a federation follows as it is now, and not with a field changed.

        Whoever says so has asked the federation for every release of it, with what will be
        broadcast (`check_release`).
        """
        object.__setattr__(self, "_vouched", self._values())
        return self

    def check_vouched(self) -> None:
        """Raise `PlanMismatchError` unless every field is as it was vouched for."""
        now = self._values()
        made = vars(self).get("_vouched", [...] * len(now))
        if not all(a is b or (np.isscalar(a) and a == b) for a, b in zip(made, now, strict=True)):
            raise PlanMismatchError(
                "plan must be as a planner made it: with a field changed by hand it could fail on"
                " its way, when part of the budget is spent, or state what does not hold. Give the"
                " planner other arguments; it checks every round"
            )

    def _values(self) -> list[Any]:
        return [getattr(self, f.name) for f in fields(self)]

    def check_release(
        self, number: int, made: PlannedRelease, *, but: Collection[str] = ()
    ) -> None:
        """Raise `PlanMismatchError` unless this is release `number` of the plan, field by field."""
        planned = self.releases[number] if 0 <= number < len(self.releases) else None
        if wrong := differences(planned, made, but=but):
            raise PlanMismatchError(
                f"release {made.name!r} of round {made.round} is not the next one of the plan"
                + (f" (other {', '.join(wrong)})" if planned else " (all of it was released)")
                + ": what is asked for must not depend on answers"
            )

    def entries(self) -> tuple[Entry, ...]:
        """The releases as entries of a ledger."""
        return tuple(r.entry(self.facts.unit, self.facts.adjacency) for r in self.releases)

    def repeats(self) -> tuple[Entry, ...]:
        """The entries that are held for releases of a second set of clients: the costliest ones.

        Which release is made again is not known in advance, and who breaks a round may choose it.
        These are the ones with which all releases cost most, by the accountant that adds them up.
        """
        return costliest(
            self.entries() if self.facts.repeats else (), self.facts.repeats,
            lambda entries: self._ledger(entries).epsilon(self.delta),
        )  # fmt: skip

    def _ledger(self, entries: Sequence[Entry]) -> PrivacyLedger:
        return PrivacyLedger(self.facts.unit, self.facts.adjacency, None, entries)

    @cached_property
    def total_epsilon(self) -> float:
        """What all releases and repeats cost together at `delta`.

        By the ledger's accountants, or as the algorithm adds it up.
        """
        own = self.algorithm.total
        return self.record().epsilon(self.delta) if own is None else own(self)

    def epsilon_of(self, n_honest: int) -> float:
        """What all releases and repeats cost where so many shares or users hide a value.

        inf without noise. `facts.n_honest` of them are counted on.
        """
        hidden = [
            replace(one, mechanisms=tuple(_hidden_by(m, n_honest) for m in one.mechanisms))
            for one in self.record().releases
        ]
        return self._ledger(hidden).epsilon(self.delta)

    @cached_property
    def epsilon_against_more(self) -> float:
        """`epsilon_of` where one client more than `max_colluding` pools what it knows."""
        return self.epsilon_of(self.facts.n_honest - 1)

    @property
    def pure_epsilon(self) -> float:
        """What all releases cost together at delta = 0."""
        return self.record().pure_epsilon()

    def record(self, *, repeats: bool = True) -> PrivacyLedger:
        """A ledger that holds all releases of the plan, and what is held for repeats."""
        return self._ledger(self.entries() + (self.repeats() if repeats else ()))

    @property
    def n_bytes(self) -> int:
        """Bytes of all releases on the wire; public arrays that are broadcast come on top.

        Of clients that are drawn, those of the cohort, or of what is expected of it.
        """
        f = self.facts
        if asked := sum(r.n_bytes for r in self.releases):
            return round(asked)
        numbers = Fraction(0)
        for r in self.releases:
            drawn = r.sampling if f.clients_send else None
            numbers += r.numbers * Fraction(drawn.share if drawn else 1)
        return round(numbers * f.messages_per_number) * f.bytes_per_number

    def statement(self) -> Pairs:
        """The privacy statement of the run as (heading, text) pairs."""
        says = self.algorithm.says
        return pairs_of(self) if says is None else says(self, pairs_of(self))

    def __str__(self) -> str:
        return as_text(self.statement())

    def _repr_html_(self) -> str:
        return as_html(self.statement())


def _hidden_by(mechanism: Any, n_honest: int) -> Any:
    """The mechanism where so many shares or users hide a value."""
    fewer = getattr(mechanism, "hidden_by", None)
    return mechanism if fewer is None else fewer(n_honest)


class Following:
    """A plan whose budget is held; refused if it is another federation's, or costs too much.

    `done` is called with the number of releases that are finished.
    """

    def __init__(
        self,
        plan: Plan,
        facts: FederationFacts,
        ledger: PrivacyLedger,
        done: Callable[[int], object],
    ) -> None:
        plan.check_vouched()
        if plan.facts != facts:
            names = FederationFacts.__dataclass_fields__
            wrong = [n for n in names if getattr(plan.facts, n) != getattr(facts, n)]
            raise PlanMismatchError(f"plan was made for a federation with other {', '.join(wrong)}")
        if not plan.total_epsilon <= plan.epsilon * (1 + 1e-9):
            raise BudgetExceededError(
                f"the releases of the plan cost epsilon={plan.total_epsilon:g}, more than the"
                f" {plan.epsilon:g} that it states"
            )
        self.reservation = ledger.admit(
            plan.entries(), name=f"{plan.method} as planned", repeats=plan.repeats()
        )
        self.plan, self.done, self.n_made = plan, done, 0

    def next(self, wanted: PlannedRelease, *, again: bool = False) -> int:
        """The number of a release; refused if it is not the next one of the plan.

        `again`: if it is not the last one that was made.
        """
        number = self.n_made - again
        self.plan.check_release(number, wanted, but=("numbers", "n_bytes"))  # counted by planners
        self.n_made = number + 1  # first: what follows may be a function of the caller's
        if number and not again:
            self.done(number)
        return number
