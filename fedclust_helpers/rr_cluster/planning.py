"""What every training run fixes before its first round, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_delta,
    check_int,
    check_non_negative,
    check_positive,
)
from fedclust_helpers.accounting import PrivacyLedger, Release, Sampling, gdp_mu, zcdp_rho
from fedclust_helpers.accounting.totals import across_gap
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

DEFAULT_ACCOUNTANT = {"fixed": "wor_rdp", "poisson": "poisson_rdp"}
MOST = 100_000  # rounds, and local steps of a round: beyond, a run takes years
WORTHWHILE = (0.05, 100.0)  # epsilons outside: accountants of cohorts are slow and gain nothing
LARGEST = 2**31  # numbers in the largest array that a run may need
MODEL_METHODS = ("losses", "train")


@dataclass(frozen=True)
class Training:
    """How clients train, and what the server does with a mean update.

    Parameters
    ----------
    n_steps : int
        Local full-batch gradient steps.
    learning_rate : float
        Of these steps.
    server_rate : float
        gamma: the share of a mean update that a model takes.
    proximal : float
        mu of FedProx: clients pay (mu/2) ||theta - start||^2.

    Raises
    ------
    TypeError, ValueError
    """

    n_steps: int = 5
    learning_rate: float = 0.3
    server_rate: float = 1.0
    proximal: float = 0.0

    def __post_init__(self) -> None:
        check_int(self.n_steps, "n_steps", maximum=MOST)
        check_positive(self.learning_rate, "learning_rate")
        check_positive(self.server_rate, "server_rate")
        check_non_negative(self.proximal, "proximal")

    def broadcast(self) -> dict[str, Any]:
        """What a client needs of it."""
        return {"n_steps": self.n_steps, "learning_rate": self.learning_rate}


TRAINING = Training()
"""Five local steps of rate 0.3; a model takes the whole mean update."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan(Plan):
    """All public numbers of a training run, the same for every party.

    Attributes
    ----------
    n_parameters : int
        d of the model.
    nominal : float
        The epsilon that the noise was calibrated for; `epsilon` itself where noise was planned by
        `sigma`. Less than `epsilon` for identifiers "printed" and "exact", which cost more.
    sigma : float
        Noise multiplier sigma_eff of a round, 0 without noise.
    accountant : str
        What it was calibrated with.
    cohort : int
        Clients of a round, expected (Poisson) or exact.
    sampling : Sampling, optional
        None: everyone takes part.
    clip : float
        C.
    training : Training
    """

    n_parameters: int
    nominal: float
    sigma: float
    accountant: str
    cohort: int
    sampling: Sampling | None
    clip: float
    training: Training

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms of a round."""
        return self.releases[0].mechanisms

    @cached_property
    def total_epsilon(self) -> float:
        """What all rounds cost together at `delta`, by the accountant that noise was planned with.

        The accountants of the ledger, those by Renyi orders alone where the noise was calibrated by
        them.
        """
        return rounds_epsilon(self.lines(), self.delta, rdp=self.accountant.endswith("_rdp"))

    def broadcast(self, model: Model) -> dict[str, Any]:
        """What clients receive besides the models of the round."""
        check_model(model)
        return {"model": model, "clip": self.clip, "sampling": self.sampling} | (
            self.training.broadcast()
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingResult(RunResult):
    """Models of a run and everything a reader may ask about it.

    Attributes
    ----------
    models : ndarray of shape (k, d)
    sizes : ndarray of shape (T, k)
        What the server knows of cluster sizes: sizes after rebalancing (RR-Cluster), noised counts
        (sums only), empty where nothing of the kind is released.
    moved : ndarray of shape (T,)
        Updates that rebalancing moved.
    reseeded : tuple of (round, dead model, split model)
    common : ndarray of shape (d,), optional
        The common model of FedCAM.
    history : ndarray of shape (T + 1, k, d), optional
        All models, if asked for.
    diagnostics : mapping
        What nobody in a real federation would know, if asked for (`diagnose`): not part of what
        is released.
    """

    plan: TrainingPlan
    models: FloatArray
    sizes: FloatArray = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    moved: IntArray = field(repr=False, default_factory=lambda: np.zeros(0, dtype=np.int64))
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
        rdp = self.plan.accountant.endswith("_rdp")
        total = rounds_epsilon(made, self.delta, rdp=rdp)
        return min(total, self.plan.total_epsilon) if len(made) == self.plan.n_rounds else total


def rounds_epsilon(releases: Sequence[Release], delta: float, *, rdp: bool) -> float:
    """The ledger's total of equal rounds; the same question is asked of many seeds."""
    if not releases:
        return 0.0
    first = releases[0]
    return _rounds_epsilon(
        first.mechanisms, first.sampling, first.unit, first.adjacency, len(releases), delta,
        "rdp" if rdp and first.sampling is not None else "auto",
    )  # fmt: skip


@lru_cache(maxsize=256)
def _rounds_epsilon(
    mechanisms: tuple[Mechanism, ...],
    sampling: Sampling | None,
    unit: str,
    adjacency: str,
    n_rounds: int,
    delta: float,
    method: str,
) -> float:
    line = Release(0, "round", mechanisms, unit, adjacency, sampling)
    if method == "rdp":
        # fine discrete noise is charged as the Gaussian it is close to; the gap is 0 for Gaussians
        twin, eta, b = line.near_gaussian() or (line, 0.0, 0.0)

        def epsilon_of(at: float) -> float:
            return accounting.event_epsilon(
                twin.dp_event(), adjacency, n_rounds, at, orders=accounting.RUN_ORDERS
            )

        if eta == 0:
            return epsilon_of(delta)
        return across_gap(n_rounds * eta, n_rounds * b, delta, epsilon_of)
    return PrivacyLedger(unit, adjacency, None, [line] * n_rounds).epsilon(delta)


# --- checks before anything is read ---------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Checked arguments that all algorithms share, and the noise that follows from them."""

    federation: SumFederation
    model: Model
    facts: FederationFacts
    n_clusters: int
    n_rounds: int
    delta: float
    cohort: int
    sampling: Sampling | None
    clip: float
    training: Training
    accountant: str | None

    def multiplier(
        self,
        make: Callable[[float], tuple[Mechanism, ...]],
        *,
        epsilon: float | None,
        sigma: float | None,
        remembers: bool = False,
    ) -> tuple[float, float, str]:
        """(nominal epsilon, sigma_eff, accountant) from exactly one of `epsilon` and `sigma`.

        Parameters
        ----------
        make : callable
            The mechanisms of a round with a given sigma_eff.
        remembers : bool
            Whether clients go on from earlier rounds: sampling does not count then.
        """
        if (epsilon is None) == (sigma is None):
            raise ValueError("epsilon or sigma must be given, and not both")
        amplified = self.sampling is not None and not remembers
        accountant = self._accountant(amplified)
        if sigma is not None:
            sigma = check_positive(sigma, "sigma")
            low, high = accounting.SIGMAS
            if not low <= sigma <= high:
                raise ValueError(f"sigma must be >= {low:g} and <= {high:g}, got {sigma:g}")
            return math.nan, sigma, accountant
        if check_positive(epsilon, "epsilon", finite=False) == math.inf:
            return math.inf, 0.0, accountant
        assert epsilon is not None
        # a hair more, so that rounding does not lift the total above epsilon
        exact = (1 + 1e-12) * math.sqrt(self.n_rounds) / gdp_mu(epsilon, self.delta)
        if accountant == "gdp":
            return epsilon, exact, accountant
        if accountant in accounting.ACCOUNTANTS and self.accountant is not None:
            return epsilon, self._calibrated(epsilon, accountant), accountant
        if accountant in accounting.ACCOUNTANTS:
            if not WORTHWHILE[0] < epsilon < WORTHWHILE[1] or epsilon <= self._floor(accountant):
                return epsilon, exact, "gdp"
            drawn = self._calibrated(epsilon, accountant)
            if exact <= drawn:  # so large a cohort that sampling gains nothing
                return epsilon, exact, "gdp"
            return epsilon, drawn, accountant
        start = math.sqrt(self.n_rounds / (2 * zcdp_rho(epsilon, self.delta)))
        if amplified and WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
            near = self._near_gaussian(make, epsilon)
            if near is not None and near[0] < start:
                return epsilon, *near

        def excess(log_sigma: float) -> float:
            f = self.facts
            drawn = self.sampling if amplified else None
            line = Release(0, "round", make(math.exp(log_sigma)), f.unit, f.adjacency, drawn)
            total = rounds_epsilon([line] * self.n_rounds, self.delta, rdp=False)
            return total - epsilon

        refusal = (
            f"epsilon must be larger: {epsilon:g} at delta={self.delta:g} takes noise of"
            f" {start:.2g} sensitivities in each of {self.n_rounds} rounds"
        )
        if start > accounting.MAX_SIGMA:
            raise ValueError(refusal)
        if not WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
            start *= 1 + 1e-12
            if excess(math.log(start)) <= 0:
                return epsilon, start, accountant
        found = accounting.smallest(excess, refusal, start=math.log(start), step=0.1)
        return epsilon, found, accountant

    def _near_gaussian(
        self, make: Callable[[float], tuple[Mechanism, ...]], epsilon: float
    ) -> tuple[float, str] | None:
        """(sigma_eff, accountant) of discrete noise that is charged as the Gaussian it is close to.

        None where its grid is too coarse for that, or where no noise would do.
        """
        scheme = "fixed" if self.facts.adjacency == "replace-one" else "poisson"
        accountant = self.accountant or DEFAULT_ACCOUNTANT[scheme]
        within = epsilon * (1 - 1e-5)  # room for the gap
        if within <= self._floor(accountant):
            return None
        sigma = self._calibrated(within, accountant)
        f = self.facts
        line = Release(0, "round", make(sigma), f.unit, f.adjacency, self.sampling)
        rdp = accountant.endswith("_rdp")
        if line.near_gaussian() is None:
            return None
        total = rounds_epsilon([line] * self.n_rounds, self.delta, rdp=rdp)
        return (sigma, accountant) if total <= epsilon else None

    def _accountant(self, amplified: bool) -> str:
        """What noise is calibrated with: the exact curve where sampling does not count."""
        scheme = "fixed" if self.facts.adjacency == "replace-one" else "poisson"
        if self.sampling is not None:
            scheme = self.sampling.scheme
        chosen = self.accountant
        if chosen is not None:
            fitting = tuple(
                name
                for name, a in accounting.ACCOUNTANTS.items()
                if (a.sampling, a.adjacency) == (scheme, self.facts.adjacency)
            )
            check_choice(chosen, "accountant", fitting)
        if self.facts.noise != "continuous":
            return "renyi" if amplified else "zcdp"
        if not amplified:
            return "gdp"
        return DEFAULT_ACCOUNTANT[scheme] if chosen is None else chosen

    def _floor(self, accountant: str) -> float:
        return accounting.floor_epsilon(
            delta=self.delta, n_rounds=self.n_rounds, n_clients=self.facts.n_clients,
            cohort=self.cohort, accountant=accountant,
        )  # fmt: skip

    def _calibrated(self, epsilon: float, accountant: str) -> float:
        return accounting.calibrate(
            epsilon, self.delta, n_rounds=self.n_rounds, n_clients=self.facts.n_clients,
            cohort=self.cohort, accountant=accountant,
        )  # fmt: skip

    def fields(
        self,
        statistic: ClientStatistic,
        mechanisms: tuple[Mechanism, ...],
        *,
        numbers: int,
        **broadcast: Any,
    ) -> dict[str, Any]:
        """The fields of a plan whose rounds release `statistic`; checked against the federation.

        `broadcast` holds what the statistic needs beside models, model, clip and training.
        """
        k, d = self.n_clusters, self.model.n_parameters
        self.federation.check_release(
            statistic, mechanisms, sampling=self.sampling, models=np.zeros((k, d)),
            model=self.model, clip=self.clip, **self.training.broadcast(), **broadcast,
        )  # fmt: skip
        releases = tuple(
            PlannedRelease.of(
                statistic, mechanisms, round=t, sampling=self.sampling, numbers=numbers
            )
            for t in range(self.n_rounds)
        )
        return {
            "n_clusters": k, "n_features": self.facts.n_features, "n_rounds": self.n_rounds,
            "delta": self.delta, "releases": releases, "facts": self.facts, "n_parameters": d,
            "cohort": self.cohort, "sampling": self.sampling, "clip": self.clip,
            "training": self.training,
        }  # fmt: skip


def planned_epsilon(
    releases: tuple[PlannedRelease, ...], facts: FederationFacts, nominal: float, delta: float,
    *, rdp: bool,
) -> float:  # fmt: skip
    """What a run may cost: `nominal`, or what its releases cost where they were not made for it."""
    lines = tuple(r.line(facts.unit, facts.adjacency) for r in releases)
    total = rounds_epsilon(lines, delta, rdp=rdp)
    if math.isnan(nominal) or total > nominal * (1 + 1e-9):
        return total
    return nominal


def check_setting(
    federation: SumFederation,
    model: Model,
    *,
    capability: str,
    sampling: str | None,
    n_clusters: int,
    n_rounds: int,
    delta: float,
    cohort: int,
    clip: float,
    training: Training,
    accountant: str | None,
) -> Setting:
    """Check what all algorithms take; nothing of the data is looked at."""
    require(federation, capability)
    check_model(model)
    if not isinstance(training, Training):
        raise TypeError(f"training must be a Training, got {type(training).__name__}")
    facts = federation.facts
    if sampling is None:
        sampling = "fixed" if facts.adjacency == "replace-one" else "poisson"
    check_choice(sampling, "sampling", ("poisson", "fixed"))
    if facts.unit != "client":
        raise ValueError(f"federation must keep a ledger for one client, got one {facts.unit}")
    k, d = check_int(n_clusters, "n_clusters"), model.n_parameters
    rounds = check_int(n_rounds, "n_rounds", maximum=MOST)
    m = check_int(cohort, "cohort", maximum=facts.n_clients)
    if k * d > LARGEST:
        raise ValueError(
            f"n_clusters must be at most {LARGEST // d} for models of {d} parameters, got {k}"
        )
    drawn = None
    if m < facts.n_clients:
        drawn = (
            Sampling("fixed", size=m, population=facts.n_clients)
            if sampling == "fixed"
            else Sampling("poisson", rate=m / facts.n_clients)
        )
        if facts.receiver == "clients":
            raise TrustModelError(
                "cohort must be all clients on this federation: to unmask a sum the clients must"
                " know who took part, so that drawing a cohort hides nothing"
            )
        if drawn.adjacency != facts.adjacency:
            raise ValueError(
                f"{sampling} sampling is accounted under {drawn.adjacency}, but the federation"
                f" keeps a ledger for {facts.adjacency}"
            )
    n_classes = getattr(model, "n_classes", None)
    if facts.n_labels is not None and n_classes is not None and facts.n_labels > n_classes:
        raise ValueError(
            f"model must have at least the federation's n_labels={facts.n_labels} classes, got"
            f" n_classes={n_classes}"
        )
    return Setting(
        federation, model, facts, k, rounds, check_delta(delta), m, drawn,
        check_positive(clip, "clip"), training, accountant,
    )  # fmt: skip


def check_model(model: Any) -> None:
    """Refuse what is no model, naming what it lacks."""
    lacks = [name for name in MODEL_METHODS if not callable(getattr(model, name, None))]
    if lacks or isinstance(model, type) or not hasattr(model, "n_parameters"):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")


def check_run(
    federation: SumFederation, plan: TrainingPlan, model: Model, *, keep_history: bool
) -> None:
    """Refuse what a run cannot follow, before it starts."""
    if not isinstance(plan, TrainingPlan):
        raise TypeError(f"plan must be a plan of rr_cluster, got {type(plan).__name__}")
    if isinstance(federation, type) or not callable(getattr(federation, "follow", None)):
        raise TypeError(f"federation must be a federation, got {type(federation).__name__}")
    check_model(model)
    if model.n_parameters != plan.n_parameters:
        raise ValueError(
            f"model must have the {plan.n_parameters} parameters of the plan, got"
            f" {model.n_parameters}"
        )
    size = (plan.n_rounds + 1) * plan.n_clusters * plan.n_parameters
    if keep_history and size > LARGEST:
        raise ValueError(f"keep_history must be False: {size:.3g} numbers do not fit in memory")


def initial_models(
    federation: SumFederation, model: Model, n_models: int, initial: ArrayLike | None
) -> FloatArray:
    """Starting models from public randomness, or as given (public: not computed from the data)."""
    if initial is None:
        return model.initial(n_models, rng=federation.randomness.public)
    models = as_points(initial, "initial", n_features=model.n_parameters)
    if len(models) != n_models:
        raise ValueError(f"initial must hold {n_models} models, got {len(models)}")
    return models.copy()
