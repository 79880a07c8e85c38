"""What every training run fixes before its first round, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    check_positive,
)
from fedclust_helpers.accounting import BudgetExceededError, PrivacyLedger, Release, Sampling
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.rr_cluster import accounting

DEFAULT_ACCOUNTANT = {"fixed": "wor_rdp", "poisson": "poisson_rdp"}


@dataclass(frozen=True)
class TrainingPlan:
    """All public numbers of a run, the same for every party.

    `epsilon` is the nominal total (inf without noise, nan if the run was planned by `sigma`), and
    `sigma` the noise multiplier sigma_eff of a round (0 without noise). Every round releases
    `mechanisms` on one sample drawn by `sampling` (None: everyone takes part).
    """

    method: str
    n_models: int
    n_rounds: int
    epsilon: float
    delta: float
    sigma: float
    accountant: str
    cohort: int
    sampling: Sampling | None
    clip: float
    n_steps: int
    learning_rate: float
    server_rate: float
    mechanisms: tuple[Mechanism, ...]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingResult:
    """Models of a run and everything a reader may ask about it.

    Attributes
    ----------
    models : ndarray of shape (k, d)
    plan : TrainingPlan
    ledger : PrivacyLedger
        The releases of this run alone.
    private : bool
        False in teaching mode: not private against anyone who knows the seed.
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

    models: FloatArray
    plan: TrainingPlan
    ledger: PrivacyLedger = field(repr=False)
    private: bool
    sizes: FloatArray = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    moved: IntArray = field(repr=False, default_factory=lambda: np.zeros(0, dtype=np.int64))
    reseeded: tuple[tuple[int, int, int], ...] = ()
    common: FloatArray | None = field(repr=False, default=None)
    history: FloatArray | None = field(repr=False, default=None)
    diagnostics: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def delta(self) -> float:
        """The delta at which the run was calibrated."""
        return self.plan.delta

    @cached_property
    def epsilon(self) -> float:
        """What the run cost at `delta`: the truth, where a method under-noises by its own nominal.

        The ledger's total, by the kind of accountant that the run was calibrated with. For random
        answers as identifiers Theorem 4.2 (`accounting.mixed_epsilon`) if that is smaller: the
        ledger bounds such a round as if everyone took part.
        """
        first, n = self.ledger.releases[0], len(self.ledger.releases)
        rdp = self.plan.accountant.endswith("rdp") and first.sampling is not None
        total = _rounds_epsilon(
            first.mechanisms, first.sampling, first.adjacency, n, self.delta,
            "rdp" if rdp else "auto",
        )  # fmt: skip
        if "identifier_epsilon" in self.plan.details:
            total = min(total, _mixed_epsilon(self.plan, n))
        return total

    @property
    def warning(self) -> str:
        """What this run does not give."""
        if not math.isfinite(self.epsilon):
            return "no privacy: exact statistics were released"
        if not self.private:
            return "teaching mode: not private against anyone who knows the seed"
        return ""


@lru_cache(maxsize=256)
def _rounds_epsilon(
    mechanisms: tuple[Mechanism, ...],
    sampling: Sampling | None,
    adjacency: str,
    n_rounds: int,
    delta: float,
    method: str,
) -> float:
    """The ledger's total of equal rounds; the same question is asked of many seeds."""
    line = Release(0, "round", mechanisms, "client", adjacency, sampling)
    return PrivacyLedger("client", adjacency, None, [line] * n_rounds).epsilon(delta, method=method)


def _mixed_epsilon(plan: TrainingPlan, n_rounds: int) -> float:
    """Theorem 4.2 for the rounds of a run with random answers as identifiers."""
    population = plan.cohort if plan.sampling is None else plan.sampling.population
    assert population is not None
    return accounting.mixed_epsilon(
        plan.details["sigma_theta"], plan.details["identifier_epsilon"], delta=plan.delta,
        n_rounds=n_rounds, n_clients=population, cohort=plan.cohort,
        n_clusters=plan.n_models if plan.details["identifiers"] == "krr" else 2,
        amplified=plan.details["amplified"],
    )  # fmt: skip


# --- checks before anything is read ---------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """Checked arguments that all algorithms share."""

    n_models: int
    n_rounds: int
    delta: float
    cohort: int
    sampling: Sampling | None
    clip: float
    n_steps: int
    learning_rate: float
    server_rate: float

    def broadcast(self, model: Model) -> dict[str, Any]:
        """What a client needs besides the models of the round."""
        return {
            "model": model, "clip": self.clip, "n_steps": self.n_steps,
            "learning_rate": self.learning_rate,
        }  # fmt: skip


def check_training(
    federation: SumFederation,
    model: Model,
    *,
    capability: str,
    sampling: str,
    n_models: int,
    n_rounds: int,
    delta: float,
    cohort: int,
    clip: float,
    n_steps: int,
    learning_rate: float,
    server_rate: float,
) -> Training:
    """Check what all algorithms take; nothing of the data but its shape is looked at."""
    if not callable(getattr(federation, capability, None)):
        raise TypeError(f"federation must offer {capability}, got {type(federation).__name__}")
    if getattr(type(federation), capability, None) is getattr(InProcess, capability):
        getattr(federation, capability)()  # raises TrustModelError: it says what is not shown
    if not hasattr(model, "n_parameters") or not callable(getattr(model, "train", None)):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    check_choice(sampling, "sampling", ("poisson", "fixed"))
    k, rounds = check_int(n_models, "n_models"), check_int(n_rounds, "n_rounds")
    m = check_int(cohort, "cohort", maximum=federation.n_clients)
    delta = check_delta(delta)
    if federation.ledger.unit != "client":
        raise ValueError(
            f"federation must keep a ledger for one client, got one {federation.ledger.unit}"
        )
    drawn = None
    if m < federation.n_clients:
        drawn = (
            Sampling("fixed", size=m, population=federation.n_clients)
            if sampling == "fixed"
            else Sampling("poisson", rate=m / federation.n_clients)
        )
        if drawn.adjacency != federation.ledger.adjacency:
            raise ValueError(
                f"{sampling} sampling is accounted under {drawn.adjacency}, but the federation"
                f" keeps a ledger for {federation.ledger.adjacency}"
            )
    n_labels = getattr(federation, "n_labels", None)
    n_classes = getattr(model, "n_classes", None)
    if n_labels is not None and n_classes is not None and n_labels > n_classes:
        raise ValueError(f"labels must be class numbers below the model's n_classes={n_classes}")
    return Training(
        k, rounds, delta, m, drawn, check_positive(clip, "clip"), check_int(n_steps, "n_steps"),
        check_positive(learning_rate, "learning_rate"),
        check_positive(server_rate, "server_rate"),
    )  # fmt: skip


def noise_multiplier(
    training: Training,
    n_clients: int,
    *,
    epsilon: float | None,
    sigma: float | None,
    accountant: str,
) -> tuple[float, float]:
    """(nominal epsilon, sigma_eff) from exactly one of the two; (inf, 0) without noise."""
    if (epsilon is None) == (sigma is None):
        raise ValueError("epsilon or sigma must be given, and not both")
    if sigma is not None:
        return math.nan, check_positive(sigma, "sigma")
    assert epsilon is not None
    if check_positive(epsilon, "epsilon", finite=False) == math.inf:
        return math.inf, 0.0
    return epsilon, accounting.calibrate(
        epsilon, training.delta, n_rounds=training.n_rounds, n_clients=n_clients,
        cohort=training.cohort, accountant=accountant,
    )  # fmt: skip


def check_accountant(accountant: str | None, sampling: str, adjacency: str) -> str:
    """The accountant to calibrate with: one of those for this sampling and relation."""
    fitting = tuple(
        name
        for name, a in accounting.ACCOUNTANTS.items()
        if (a.sampling, a.adjacency) == (sampling, adjacency)
    )
    if accountant is None:
        return DEFAULT_ACCOUNTANT[sampling]
    return check_choice(accountant, "accountant", fitting)


def require_budget(
    federation: SumFederation, mechanisms: Sequence[Mechanism], sampling: Sampling | None,
    n_rounds: int, name: str,
) -> None:  # fmt: skip
    """Refuse a run whose last round the ledger could not pay; nothing is charged here."""
    ledger = federation.ledger
    release = ledger.check(mechanisms, name=name, sampling=sampling)
    if ledger.budget is None:
        return
    share = n_rounds * ledger.budget.cost(release) / ledger.budget.limit
    if share > ledger.remaining * (1 + 1e-9):
        raise BudgetExceededError(
            f"{n_rounds} rounds of {name!r} would exceed the budget"
            f" epsilon={ledger.budget.epsilon:g}, delta={ledger.budget.delta:g}: they take"
            f" {share:.1%} of it, {ledger.remaining:.1%} is left (filter {ledger.budget.filter})"
        )


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
