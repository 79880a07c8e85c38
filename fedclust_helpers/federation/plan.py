"""Plan, then run: everything that is fixed before the first message, and the result that follows.

A plan is a public object. It is made from the federation that will run it, lists every release with
its mechanism, and prints as the privacy statement of the run. A federation that follows a plan
makes the releases of the plan, in their order, and no others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import Any

from fedclust_helpers._headings import as_html, as_text
from fedclust_helpers._validation import FloatArray, Natural
from fedclust_helpers.accounting import PrivacyLedger, Release, Sampling
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.transcript import Transcript


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
    a second set of clients (module `federation.missing`).
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
    messages_per_number: int = 1
    bytes_per_number: int = 8
    wire: str = "for the releases of all clients"


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
        cls,
        statistic: ClientStatistic,
        mechanisms: tuple[Any, ...],
        *,
        round: int,
        sampling: Sampling | None = None,
        numbers: int = 0,
    ) -> PlannedRelease:
        """The release of a statistic."""
        return cls(
            round, statistic.name, statistic.parts, tuple(mechanisms), sampling, None, numbers,
            not statistic.remembers or (sampling is not None and sampling.scheme == "poisson"),
        )  # fmt: skip

    @property
    def charged_sampling(self) -> Sampling | None:
        """The sampling that amplifies, if any."""
        return self.sampling if self.amplified else None

    def line(self, unit: str, adjacency: str) -> Release:
        """The line that the ledger will hold."""
        group = None if self.part is None else f"planned/{self.part}"
        return Release(
            self.round, self.name, self.mechanisms, unit, adjacency, self.charged_sampling, group
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All public numbers of a run, fixed in advance and the same for every party.

    `method` is the name of the algorithm. `epsilon` and `delta` are what the run may cost in all,
    for one unit under the adjacency of `facts` (inf without noise). `releases` are all of them, in
    order; `facts` are those of the federation that the plan was made from: no other will follow it.
    `predicted_error` is what noise is expected to do to the result, where there is a formula, and
    `predicted_error_is` says in words and units what the number means.
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

    def lines(self) -> tuple[Release, ...]:
        """The releases as lines of a ledger."""
        return tuple(r.line(self.facts.unit, self.facts.adjacency) for r in self.releases)

    def repeats(self) -> tuple[Release, ...]:
        """The lines that are held for releases of a second set of clients: of the costliest one.

        Which release is made again is not known in advance, and who breaks a round may choose it.
        Under each history a repeat is then as private as the costliest release, or more so: for
        Gaussian noise that is the one with the largest rho, and so are all together.
        """
        lines = self.lines() if self.facts.repeats else ()
        worst = sorted(lines, key=lambda line: math.inf if line.rho is None else line.rho)[-1:]
        return tuple(worst) * self.facts.repeats

    @cached_property
    def total_epsilon(self) -> float:
        """What all releases and repeats cost together at `delta`, by the ledger's accountants."""
        return self._cost(self.lines() + self.repeats())

    def _cost(self, lines: tuple[Release, ...]) -> float:
        ledger = PrivacyLedger(self.facts.unit, self.facts.adjacency, None, lines)
        return ledger.epsilon(self.delta)

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
            drawn = r.sampling if self._clients_send else None
            numbers += r.numbers * Fraction(drawn.share if drawn else 1)
        return round(numbers * f.messages_per_number) * f.bytes_per_number

    @property
    def _clients_send(self) -> bool:
        """False where one sum is counted, whoever is in it (an ideal sum)."""
        return self.facts.messages_per_number > 1

    def _public(self) -> list[str]:
        """In words, where rows lie, and how many clusters there are."""
        f = self.facts
        where = "rows as they are" if f.domain == "raw" else f"{f.domain} of size {f.bound:g}"
        return [where, *([f"{self.n_clusters} clusters"] if self.n_clusters else [])]

    def statement(self) -> list[tuple[str, str]]:
        """The privacy statement of the run as (heading, text) pairs."""
        f = self.facts
        mode = "secure mode" if f.mode == "secure" else "teaching mode: private against nobody who"
        plural = "" if self.n_rounds == 1 else "s"
        counts = [f"{f.n_clients} clients", f"{f.n_records} records (or bounds of these)"]
        if f.unit == "client" and f.n_records == f.n_clients:
            counts.pop()  # records are no public number, and no release needs one
        rows = [
            ("method", f"{self.method}, {self.n_rounds} round{plural}"),
            ("protects", f"one {f.unit}, {f.adjacency} neighbours"),
            (
                "guarantee",
                "none: exact values are released"
                if not math.isfinite(self.epsilon)
                else f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.3g}"
                f" (the releases below{' and all repeats' * bool(f.repeats)} add up to"
                f" {self.total_epsilon:.6g})",
            ),
            ("trust", f"{f.trust}, {mode}{'' if f.mode == 'secure' else ' knows the seed'}"),
            *((f"{who} see{'' if who.endswith('s') else 's'}", what) for who, what in f.sees),
            ("noise", f"{f.noise}, added by {f.noise_from}"),
            ("public", ", ".join([*counts, f"{f.n_features} features", *self._public()])),
        ]
        if f.may_miss:
            rows.append(("missing", self._missing()))
        same = groupby(self.releases, key=lambda r: (r.name, r.mechanisms, r.sampling, r.part))
        for (name, mechanisms, sampling, part), group in same:
            members = list(group)
            rounds = f"{members[0].round}"
            rounds += f" to {members[-1].round}" if len(members) > 1 else ""
            who = "" if part is None else f", users of part {part!r}"
            drawn = "" if sampling is None else f", {_drawn(sampling, members[0].amplified)}"
            noise = "; ".join(
                f"{p}: {_noise(m)}" for p, m in zip(members[0].parts, mechanisms, strict=False)
            )
            rows.append((f"round {rounds}", f"{name.replace('_', ' ')}{who}{drawn}: {noise}"))
        if self.n_bytes:
            schemes = {r.sampling.scheme for r in self.releases if r.sampling}
            drawn = " drawn" if schemes and self._clients_send else ""
            drawn += " (expected)" if drawn and "poisson" in schemes else ""
            rows.append(("wire", f"{self.n_bytes:,} bytes {f.wire}{drawn}"))
        if self.predicted_error is not None:
            rows.append(("predicted", f"{self.predicted_error:.4g} {self.predicted_error_is}"))
        return rows

    def _missing(self) -> str:
        """What happens when clients are missing, and what being ready for it costs."""
        f = self.facts
        text = f"up to {f.may_miss} of {f.n_clients} clients in each release"
        if f.noise == "distributed":
            more = math.sqrt(f.n_clients / f.n_honest)
            text += (
                f" (a share of the noise is sized for {f.n_honest}: with everybody there a sum has"
                f" {more:.3g} times the noise below)"
            )
        if not f.repeats:
            return text + "; no repeat is reserved: who begins a round has to end it"
        alone = self._cost(self.lines())
        plural = "" if f.repeats == 1 else "s"
        return text + (
            f"; {f.repeats} repeat{plural} reserved for rounds that are asked of a second set of"
            " clients, each charged like the costliest release (without repeats: epsilon ="
            f" {alone:.6g})"
        )

    def __str__(self) -> str:
        return as_text(self.statement())

    def _repr_html_(self) -> str:
        return as_html(self.statement())


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult:
    """What every run returns, beside `centers` (k, d), or `models` where these are trained.

    `ledger` is the record of the releases of this run alone, `transcript` what crossed the wire on
    this federation. `history` (T + 1, k, d) are the centres or models before the first round and
    after each, where a run keeps them.
    """

    plan: Plan
    ledger: PrivacyLedger = field(repr=False)
    transcript: Transcript = field(repr=False)
    history: FloatArray | None = field(repr=False, default=None)

    @property
    def private(self) -> bool:
        """False in teaching mode (not private for who knows the seed) and without noise."""
        return self.plan.facts.mode == "secure" and math.isfinite(self.plan.epsilon)

    @property
    def delta(self) -> float:
        """The delta at which the run was planned."""
        return self.plan.delta

    @cached_property
    def epsilon(self) -> float:
        """What the run cost at `delta`, from the ledger's record of it."""
        return self.ledger.epsilon(self.delta)

    @property
    def warning(self) -> str:
        """What this run does not give."""
        if not math.isfinite(self.epsilon):
            return "no privacy: exact statistics were released"
        if not self.private:
            return "teaching mode: not private against anyone who knows the seed"
        return ""


def _drawn(sampling: Sampling, amplified: bool) -> str:
    how = (
        f"each client with probability {sampling.rate:g}"
        if sampling.scheme == "poisson"
        else f"{sampling.size} of {sampling.population} clients"
    )
    return how + ("" if amplified else " (not counted)")


def _noise(mechanism: Any) -> str:
    std, sensitivity = getattr(mechanism, "std", None), getattr(mechanism, "sensitivity", None)
    name = type(mechanism).__name__
    if std == 0 or not isinstance(std, float | int):  # a randomised response has no one std
        pure = mechanism.pure_epsilon
        return f"{name}" + (f", epsilon {pure:.4g}" if math.isfinite(pure) else "")
    return f"{name}, std {std:.4g}, hides {sensitivity:.4g} (L{mechanism.norm})"
