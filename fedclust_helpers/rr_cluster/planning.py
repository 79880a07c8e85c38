"""What every training run fixes before its first round, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_delta,
    check_fits,
    check_instance,
    check_int,
    check_non_negative,
    check_positive,
)
from fedclust_helpers.accounting import PrivacyLedger, Release, Sampling, zcdp_rho
from fedclust_helpers.accounting.discrete import Gap, epsilon_across
from fedclust_helpers.client_statistics import ClientStatistic, Model
from fedclust_helpers.federation import (
    FederationFacts,
    Plan,
    PlannedRelease,
    RunResult,
    SumFederation,
    TrustModelError,
    require,
)
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.rr_cluster import accounting
from fedclust_helpers.rr_cluster.designs import DEFAULT, SCHEMES, WORTHWHILE, noise_multiplier

MOST = 100_000  # rounds, and local steps of a round: beyond, a run takes years
LARGEST = 2**31  # numbers in the largest array that a run may need

Mechanisms = tuple[Mechanism, ...]


@dataclass(frozen=True)
class Training:
    """What clients train, and what of it enters a round; the same for all algorithms.

    Clients take `n_steps` local full-batch gradient steps of `learning_rate` on `model`, and pay
    (mu/2) ||theta - start||^2 with mu = `proximal` (FedProx). The length of an update is cut to
    `clip` (C); one that is not finite counts as zero. A model takes the share `server_rate` (gamma)
    of a mean update.

    `cohort` are the clients of a round (qM): exactly so many, drawn without replacement, where the
    ledger is kept for replace-one; each with probability cohort/M (Poisson) under add/remove. The
    two are different promises. All clients means no sampling.
    """

    model: Model
    cohort: int
    clip: float
    n_steps: int = 5
    learning_rate: float = 0.3
    server_rate: float = 1.0
    proximal: float = 0.0

    def __post_init__(self) -> None:
        lacks = [n for n in ("losses", "train") if not callable(getattr(self.model, n, None))]
        if lacks or isinstance(self.model, type) or not hasattr(self.model, "n_parameters"):
            raise TypeError(f"model must be a Model, got {type(self.model).__name__}")
        check_int(self.cohort, "cohort")
        check_positive(self.clip, "clip")
        check_int(self.n_steps, "n_steps", maximum=MOST)
        check_positive(self.learning_rate, "learning_rate")
        check_positive(self.server_rate, "server_rate")
        check_non_negative(self.proximal, "proximal")

    def broadcast(self) -> dict[str, Any]:
        """What clients need of it."""
        sent: dict[str, Any] = {"model": self.model, "clip": float(self.clip)}
        sent |= {"n_steps": self.n_steps, "learning_rate": self.learning_rate}
        return sent | ({"proximal": self.proximal} if self.proximal else {})


@dataclass(frozen=True, kw_only=True)
class TrainingPlan(Plan):
    """All public numbers of a training run, the same for every party.

    `nominal` is the epsilon that the noise was calibrated for, by `accountant`; `epsilon` itself
    where noise was planned by `sigma`, less for identifiers "printed" and "exact", which cost more.
    `sigma` is the noise multiplier sigma_eff of a round, 0 without noise. Without `sampling`
    everyone takes part.
    """

    training: Training
    nominal: float
    sigma: float
    accountant: str
    sampling: Sampling | None

    @property
    def n_parameters(self) -> int:
        """d of the model."""
        return self.training.model.n_parameters

    @property
    def mechanisms(self) -> Mechanisms:
        """The mechanisms of a round."""
        return self.releases[0].mechanisms

    @cached_property
    def total_epsilon(self) -> float:
        """What all rounds cost together at `delta`.

        By the accountants of the ledger, or by Renyi orders alone if calibrated so.
        """
        return rounds_epsilon(self.lines(), self.delta, rdp=self.accountant.endswith("_rdp"))

    def broadcast(self) -> dict[str, Any]:
        """What clients receive besides the models of the round."""
        return self.training.broadcast() | {"sampling": self.sampling}


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingResult(RunResult):
    """Models of a run and everything a reader may ask about it.

    `models` (k, d), and `common` (d,) of FedCAM; `sizes` (T, k) is what the server knows of cluster
    sizes: after rebalancing (RR-Cluster), noised counts (sums only), empty where nothing of the
    kind is released. `moved` (T,) counts the updates that rebalancing moved, `reseeded` holds
    (round, dead model, split model). If asked for, `history` (T + 1, k, d) are all models and
    `diagnostics` what nobody in a real federation would know (see `run`).
    """

    plan: TrainingPlan
    models: FloatArray
    sizes: FloatArray = field(repr=False)
    moved: IntArray = field(repr=False)
    reseeded: tuple[tuple[int, int, int], ...] = ()
    common: FloatArray | None = field(repr=False, default=None)
    history: FloatArray | None = field(repr=False, default=None)
    diagnostics: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @cached_property
    def epsilon(self) -> float:
        """What the run cost at `delta`: the truth, where a method under-noises by its own nominal.

        The ledger's total of the releases that were made, or the bound of the plan if smaller.
        """
        made = self.ledger.releases
        total = rounds_epsilon(made, self.delta, rdp=self.plan.accountant.endswith("_rdp"))
        return min(total, self.plan.total_epsilon) if len(made) == self.plan.n_rounds else total


def rounds_epsilon(releases: Sequence[Release], delta: float, *, rdp: bool) -> float:
    """The ledger's total of equal rounds; the same question is asked of many seeds."""
    if not releases:
        return 0.0
    r = releases[0]
    by_rdp = rdp and r.sampling is not None
    return _rounds_epsilon(
        r.mechanisms, r.sampling, r.unit, r.adjacency, len(releases), delta, by_rdp
    )


@lru_cache(maxsize=256)
def _rounds_epsilon(
    mechanisms: Mechanisms, sampling: Sampling | None, unit: str, adjacency: str, n_rounds: int,
    delta: float, rdp: bool,
) -> float:  # fmt: skip
    line = Release(0, "round", mechanisms, unit, adjacency, sampling)
    if not rdp:
        return PrivacyLedger(unit, adjacency, None, [line] * n_rounds).epsilon(delta)

    def epsilon_of(line: Release, at: float) -> float:
        return accounting.event_epsilon(
            line.dp_event(), adjacency, n_rounds, at, orders=accounting.RUN_ORDERS
        )

    twin, gap = line.continuous()
    if gap == Gap():
        return epsilon_of(line, delta)
    near = epsilon_across(Gap.sum([gap] * n_rounds), delta, lambda at: epsilon_of(twin, at))
    return near if math.isfinite(near) else epsilon_of(line, delta)


# --- from checked arguments to a plan -------------------------------------------------------------

P = TypeVar("P", bound=TrainingPlan)


@dataclass(frozen=True)
class Setting:
    """Checked arguments that all planners share, and the noise that follows from them."""

    federation: Any
    training: Training
    n_clusters: int
    n_rounds: int
    delta: float
    sampling: Sampling | None
    accountant: str | None

    @property
    def facts(self) -> FederationFacts:
        """What is public about the federation."""
        facts: FederationFacts = self.federation.facts
        return facts

    @property
    def rounds(self) -> dict[str, int]:
        """T, M and qM, as the accountants take them."""
        m = self.facts.n_clients
        return {"n_rounds": self.n_rounds, "n_clients": m, "cohort": self.training.cohort}

    def gaussian(
        self, statistic: ClientStatistic, part: str, sigma: float, n_coordinates: int, **more: Any
    ) -> Mechanism:
        """The federation's Gaussian noise for one part of a statistic of models."""
        t = self.training
        mechanism: Mechanism = self.federation.gaussian(
            statistic, part, multiplier=sigma, n_coordinates=n_coordinates, clip=float(t.clip),
            model=t.model, **more,
        )  # fmt: skip
        return mechanism

    def plan(
        self, kind: type[P], method: str, statistic: ClientStatistic,
        make: Callable[[float], Mechanisms], *, epsilon: float | None, sigma: float | None,
        sent: Mapping[str, Any] | None = None, **own: Any,
    ) -> P:  # fmt: skip
        """The plan of rounds that release `statistic` with the mechanisms of one noise multiplier.

        `make` gives them for a sigma_eff > 0 or 0 (no noise); `sent` is what a client receives
        besides the training and the models.
        """
        nominal, sigma_eff, accountant = self.multiplier(
            make, epsilon=epsilon, sigma=sigma, remembers=statistic.remembers
        )
        return self.settle(
            kind, method, statistic, make(sigma_eff), nominal=nominal, sigma=sigma_eff,
            accountant=accountant, sent=sent, **own,
        )  # fmt: skip

    def settle(
        self, kind: type[P], method: str, statistic: ClientStatistic, mechanisms: Mechanisms, *,
        nominal: float, accountant: str, sent: Mapping[str, Any] | None = None,
        trusted: bool = False, **own: Any,
    ) -> P:  # fmt: skip
        """A plan with these mechanisms, checked against the federation.

        It states `nominal`, or what its releases cost where they were not made for it (unless
        `trusted`: `nominal` was proved in another way).
        """
        models = np.zeros((self.n_clusters, self.training.model.n_parameters))
        numbers = self.federation.check_release(
            statistic, mechanisms, sampling=self.sampling, models=models,
            **self.training.broadcast(), **(sent or {}),
        )  # fmt: skip
        releases = tuple(
            PlannedRelease.of(
                statistic, mechanisms, round=t, sampling=self.sampling, numbers=numbers
            )
            for t in range(self.n_rounds)
        )
        f, stated = self.facts, nominal
        if not trusted:
            lines = tuple(r.line(f.unit, f.adjacency) for r in releases)
            total = rounds_epsilon(lines, self.delta, rdp=accountant.endswith("_rdp"))
            if math.isnan(nominal) or total > nominal * (1 + 1e-9):
                stated = total
        return kind(
            method=method, n_clusters=self.n_clusters, n_features=f.n_features,
            n_rounds=self.n_rounds, epsilon=stated, delta=self.delta, releases=releases, facts=f,
            training=self.training, nominal=stated if math.isnan(nominal) else nominal,
            accountant=accountant, sampling=self.sampling, **own,
        )  # fmt: skip

    # how much noise -------------------------------------------------------------------------------

    def multiplier(
        self, make: Callable[[float], Mechanisms], *, epsilon: float | None, sigma: float | None,
        remembers: bool = False,
    ) -> tuple[float, float, str]:  # fmt: skip
        """(nominal epsilon, sigma_eff, accountant) from exactly one of `epsilon` and `sigma`.

        `make` gives the mechanisms of a round with a given sigma_eff. Clients that go on from
        earlier rounds (`remembers`) are not amplified by sampling; the exact curve is taken then.
        """
        if (epsilon is None) == (sigma is None):
            raise ValueError("epsilon or sigma must be given, and not both")
        same, continuous = self.facts.adjacency, self.facts.noise == "continuous"
        if self.accountant is not None:
            wanted, known = (same, SCHEMES[same]), accounting.ACCOUNTANTS.items()
            check_choice(self.accountant, "accountant", [n for n, a in known if a == wanted])
        cohort = self.accountant or DEFAULT[same]
        amplified = self.sampling is not None and not remembers
        everyone, drawn = ("gdp", cohort) if continuous else ("near", "renyi")
        accountant = drawn if amplified else everyone
        if sigma is not None:
            low, high = accounting.SIGMAS
            if not low <= check_positive(sigma, "sigma") <= high:
                raise ValueError(f"sigma must be >= {low:g} and <= {high:g}, got {sigma:g}")
            return math.nan, float(sigma), accountant
        epsilon = check_positive(epsilon, "epsilon", finite=False)
        if epsilon == math.inf:
            return math.inf, 0.0, accountant
        if not continuous:
            return epsilon, *self._discrete(make, epsilon, cohort, amplified)
        if amplified and self.accountant is not None:
            return epsilon, self._calibrated(epsilon, cohort), cohort
        rounds = self.rounds if amplified else self.rounds | {"cohort": self.facts.n_clients}
        return epsilon, *noise_multiplier(epsilon, self.delta, accountant=cohort, **rounds)

    def _discrete(
        self, make: Callable[[float], Mechanisms], epsilon: float, cohort: str, amplified: bool
    ) -> tuple[float, str]:
        """(sigma_eff, accountant) of discrete noise.

        As the Gaussian it is close to, unless the grid is too coarse for that; else by Renyi
        curves, or zero-concentrated DP where everyone takes part.
        """
        start = math.sqrt(self.n_rounds / (2 * zcdp_rho(epsilon, self.delta)))
        drawn = self.sampling if amplified else None

        def line(sigma: float) -> Release:
            unit, adjacency = self.facts.unit, self.facts.adjacency
            return Release(0, "round", make(sigma), unit, adjacency, drawn)

        def cost(sigma: float, *, rdp: bool = False) -> float:
            return rounds_epsilon([line(sigma)] * self.n_rounds, self.delta, rdp=rdp)

        rounds = self.rounds if amplified else self.rounds | {"cohort": self.facts.n_clients}
        near, by = noise_multiplier(  # with room for the gap
            epsilon * (1 - 1e-5), self.delta, accountant=cohort, **rounds
        )
        if near < min(start, accounting.MAX_SIGMA):
            if cost(near, rdp=by.endswith("_rdp")) <= epsilon:
                return near, "near" if by == "gdp" else by
        accountant = "renyi" if amplified else "zcdp"
        refusal = (
            f"epsilon must be larger: {epsilon:g} at delta={self.delta:g} takes noise of"
            f" {start:.2g} sensitivities in each of {self.n_rounds} rounds"
        )
        if start > accounting.MAX_SIGMA:
            raise ValueError(refusal)
        if not WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
            start *= 1 + 1e-12
            if cost(math.exp(math.log(start))) <= epsilon:
                return start, accountant
        found = accounting.smallest(
            lambda t: cost(math.exp(t)) - epsilon, refusal, start=math.log(start), step=0.1
        )
        return found, accountant

    def _calibrated(self, epsilon: float, accountant: str) -> float:
        return accounting.calibrate(epsilon, self.delta, accountant=accountant, **self.rounds)


def check_setting(
    federation: SumFederation, training: Training, *, capability: str, n_clusters: int,
    n_rounds: int, delta: float, accountant: str | None, proximal: bool = False,
) -> Setting:  # fmt: skip
    """Check what all planners take; nothing of the data is looked at."""
    require(federation, capability)
    facts, model = federation.facts, check_instance(training, Training, "training").model
    if facts.unit != "client":
        raise ValueError(f"federation must keep a ledger for one client, got one {facts.unit}")
    if training.proximal and not proximal:
        raise ValueError("training must have proximal=0: only DP-FedProx has this term")
    k = check_int(n_clusters, "n_clusters")
    check_fits(k * model.n_parameters, "n_clusters", limit=LARGEST)
    rounds = check_int(n_rounds, "n_rounds", maximum=MOST)
    m, drawn = check_int(training.cohort, "cohort", maximum=facts.n_clients), None
    if m < facts.n_clients:
        if facts.receiver == "clients":
            raise TrustModelError(
                "cohort must be all clients on this federation: to unmask a sum the clients must"
                " know who took part, so that drawing a cohort hides nothing"
            )
        drawn = Sampling("poisson", rate=m / facts.n_clients)
        if SCHEMES[facts.adjacency] == "fixed":
            drawn = Sampling("fixed", size=m, population=facts.n_clients)
    n_classes = getattr(model, "n_classes", None)
    if facts.n_labels is not None and n_classes is not None and facts.n_labels > n_classes:
        raise ValueError(
            f"model must have at least the federation's n_labels={facts.n_labels} classes, got"
            f" n_classes={n_classes}"
        )
    return Setting(federation, training, k, rounds, check_delta(delta), drawn, accountant)
