"""Algorithms 1 and 2: federated clustering of models with random rebalancing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, check_choice, check_int
from fedclust_helpers.client_statistics import (
    ADDITIVE_UPDATES,
    CLIENT_UPDATES,
    NEAREST_UPDATES,
    Model,
)
from fedclust_helpers.client_statistics.models import AdditiveModel
from fedclust_helpers.federation import TrustedServer
from fedclust_helpers.mechanisms import Gaussian, Mechanism, NoNoise
from fedclust_helpers.rr_cluster import accounting
from fedclust_helpers.rr_cluster.identifiers import (
    IDENTIFIERS,
    PURE,
    IdentifierMechanism,
    identifier_mechanism,
    privatise,
)
from fedclust_helpers.rr_cluster.plan import (
    Training,
    TrainingPlan,
    TrainingResult,
    check_accountant,
    check_training,
    initial_models,
    noise_multiplier,
    require_budget,
)
from fedclust_helpers.rr_cluster.rebalancing import RULES, rebalance

Clusterer = Literal["ifca", "fesem", "fedcam"]
Identifiers = Literal["none", "printed", "corrected", "exponential", "krr"]
Rule = Literal["strict", "literal", "off"]

CLUSTERERS = {"ifca": CLIENT_UPDATES, "fesem": NEAREST_UPDATES, "fedcam": ADDITIVE_UPDATES}
CLOSE = 0.01  # standard deviation between the starting models of FeSEM, per parameter


def _gaussian_noise(
    training: Training, n_clients: int, *, identifiers: str, share: float, epsilon: float | None,
    sigma: float | None, accountant: str,
) -> tuple[float, float, tuple[IdentifierMechanism, Mechanism], dict[str, Any]]:  # fmt: skip
    """Nominal epsilon, sigma_eff, the mechanisms of a round, and the numbers behind them."""
    nominal, sigma_eff = noise_multiplier(
        training, n_clients, epsilon=epsilon, sigma=sigma, accountant=accountant
    )
    exact = NoNoise("replace-one")
    if sigma_eff == 0:
        return nominal, 0.0, (exact, exact), {}
    if identifiers == "none":
        share = 0.0
    sigma_s, sigma_theta = accounting.split_identifiers(sigma_eff, share)
    to_identifiers = exact if identifiers == "none" else identifier_mechanism(identifiers, sigma_s)
    return (
        nominal, sigma_eff, (to_identifiers, _sum_noise(training, sigma_theta)),
        {"sigma_s": sigma_s, "sigma_theta": sigma_theta},
    )  # fmt: skip


def _answer_noise(
    training: Training, n_clients: int, *, identifiers: str, share: float, epsilon: float | None,
    sigma: float | None,
) -> tuple[float, float, tuple[IdentifierMechanism, Mechanism], dict[str, Any]]:  # fmt: skip
    """The same for random answers: by Theorem 4.2 or without amplification, whichever is better."""
    if sigma is not None:
        raise ValueError(f"sigma must be None with identifiers={identifiers!r}: give epsilon")
    if epsilon == math.inf:
        exact = NoNoise("replace-one")
        return math.inf, 0.0, (exact, exact), {}
    run = {"delta": training.delta, "n_rounds": training.n_rounds, "n_clients": n_clients}
    nominal, sigma_eff = noise_multiplier(
        replace(training, cohort=n_clients), n_clients, epsilon=epsilon, sigma=None,
        accountant="wor_rdp",
    )  # fmt: skip
    amplified = False
    if training.sampling is not None:
        by_theorem = {"cohort": training.cohort, "accountant": "paper_tight"}
        floor = accounting.floor_epsilon(**run, **by_theorem)  # type: ignore[arg-type]
        if nominal > floor:
            smaller = accounting.calibrate(nominal, **run, **by_theorem)  # type: ignore[arg-type]
            amplified = smaller < sigma_eff
            sigma_eff = min(smaller, sigma_eff)
    _, sigma_theta = accounting.split_identifiers(sigma_eff, share)
    answer = accounting.calibrate_identifiers(
        nominal, training.delta, sigma_theta=sigma_theta, n_rounds=training.n_rounds,
        n_clients=n_clients, cohort=training.cohort, amplified=amplified,
        n_clusters=training.n_models if identifiers == "krr" else 2,
    )  # fmt: skip
    return (
        nominal, sigma_eff,
        (identifier_mechanism(identifiers, answer), _sum_noise(training, sigma_theta)),
        {"identifier_epsilon": answer, "sigma_theta": sigma_theta, "amplified": amplified},
    )  # fmt: skip


def _sum_noise(training: Training, sigma_theta: float) -> Gaussian:
    return Gaussian(2 * training.clip, 2 * training.clip * sigma_theta, "replace-one")


def plan_rr_cluster(
    federation: TrustedServer,
    model: Model,
    *,
    n_models: int,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    min_size: int = 8,
    clusterer: Clusterer = "ifca",
    identifiers: Identifiers = "corrected",
    rebalance: Rule = "strict",
    identifier_share: float = 0.5,
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
) -> TrainingPlan:
    """Check everything and fix the noise of a run; see `rr_cluster` for the arguments."""
    training = check_training(
        federation, model, capability="collect", sampling="fixed", n_models=n_models,
        n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip, n_steps=n_steps,
        learning_rate=learning_rate, server_rate=server_rate,
    )  # fmt: skip
    if federation.ledger.adjacency != "replace-one":
        raise ValueError(
            "federation must keep a ledger for replace-one: under add/remove a released partition"
            " and its sizes are not covered"
        )
    if training.n_models < 2:
        raise ValueError(f"n_models must be >= 2 (one model is dp_fedavg), got {n_models}")
    check_choice(clusterer, "clusterer", tuple(CLUSTERERS))
    check_choice(identifiers, "identifiers", IDENTIFIERS)
    check_choice(rebalance, "rebalance", RULES)
    if clusterer == "fedcam" and not isinstance(model, AdditiveModel):
        raise TypeError(f"model must have outputs() for FedCAM, got {type(model).__name__}")
    size = 0 if rebalance == "off" else check_int(min_size, "min_size", minimum=0)
    if size * training.n_models > training.cohort:
        raise ValueError(
            f"min_size must be <= cohort/n_models = {training.cohort / training.n_models:g} (B <="
            f" qM/k), got {size}"
        )
    if not 0 < identifier_share < 1:
        raise ValueError(f"identifier_share must lie in (0, 1), got {identifier_share}")
    accountant = check_accountant(accountant, "fixed", "replace-one")
    noise: dict[str, Any] = {
        "identifiers": identifiers, "share": identifier_share, "epsilon": epsilon, "sigma": sigma,
    }  # fmt: skip
    if identifiers in PURE:
        accountant = "paper_tight"
        nominal, sigma_eff, mechanisms, details = _answer_noise(
            training, federation.n_clients, **noise
        )
    else:
        nominal, sigma_eff, mechanisms, details = _gaussian_noise(
            training, federation.n_clients, accountant=accountant, **noise
        )
    return TrainingPlan(
        ("rr_" if size else "") + clusterer, training.n_models, training.n_rounds, nominal,
        training.delta, sigma_eff, accountant, training.cohort, training.sampling,
        training.clip, training.n_steps, training.learning_rate, training.server_rate,
        mechanisms,
        {"clusterer": clusterer, "identifiers": identifiers, "rebalance": rebalance,
         "min_size": size} | details,
    )  # fmt: skip


def rr_cluster(
    federation: TrustedServer,
    model: Model,
    *,
    n_models: int,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    min_size: int = 8,
    clusterer: Clusterer = "ifca",
    identifiers: Identifiers = "corrected",
    rebalance: Rule = "strict",
    identifier_share: float = 0.5,
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
    initial: ArrayLike | None = None,
    keep_history: bool = False,
    diagnose: bool = False,
) -> TrainingResult:
    """RR-Cluster (Algorithms 1 and 2), and the private base clusterers with ``rebalance="off"``.

    Notation: k ``n_models``, T ``n_rounds``, qM ``cohort``, C_theta ``clip``, B ``min_size``,
    sigma_s and sigma_theta from ``sigma`` and ``identifier_share``, gamma ``server_rate``.

    Every round draws `cohort` clients without replacement. A client chooses a model, trains it and
    sends identifier and clipped update to the trusted server. The server releases noised
    identifiers, rebalances, and adds the noised mean update of each cluster to its model. A cluster
    without an update keeps its model.

    Privacy (one client, replace-one): the identifiers count as released. Given them and the coins
    of rebalancing, the partition and its sizes are the same whatever one client's update is, so one
    sum moves, by at most 2C: rebalancing is post-processing, and dividing by the exact size is
    free. The identifiers themselves move by sqrt(2). (The argument of Appendix A.2, under
    add/remove, does not hold: theory checks F1.)

    Parameters
    ----------
    federation : TrustedServer
        With a ledger for one client under replace-one.
    model : Model
    epsilon or sigma : float
        The total for the whole run (``math.inf``: no noise), or the noise multiplier sigma_eff of a
        round, 1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2.
    delta : float
    cohort : int
        Clients per round; all of them means no sampling.
    clip : float
        Bound C on the length of an update.
    min_size : int
        B, at most cohort/n_models.
    clusterer : {"ifca", "fesem", "fedcam"}
        How a client chooses. FeSEM: nearest model to the trained weights, starting from the model
        chosen last time (drawn at random before the first). FedCAM: a common model is added to each
        of the k; both updates of a client are one vector, cut to C jointly, one release instead of
        two (which would cost each a part of the budget).
    identifiers : {"corrected", "printed", "exponential", "krr", "none"}
        "printed" is noised for sensitivity 1 and really costs more than `epsilon`: the ledger and
        the result say how much. "exponential" and "krr" are no Gaussians: the library cannot
        amplify them by sampling, nor the sums that share their sample. The ledger charges such a
        round as if everyone took part; calibration and the result's epsilon use Theorem 4.2, which
        holds for any mechanism, where that is less. "none" shows exact identifiers: the ledger
        says inf.
    rebalance : {"strict", "literal", "off"}
        See `rebalancing.rebalance`.
    identifier_share : float
        Share of 1/sigma_eff^2 that goes to the identifiers.
    accountant : {"wor_rdp", "paper", "paper_tight"}
        What `epsilon` is calibrated with (Gaussian identifiers).
    n_steps, learning_rate
        Local full-batch gradient steps.
    initial : array_like of shape (k, d), optional
        Public starting models; random ones by default. For FeSEM one random model and copies that
        differ by N(0, 0.01^2): between unrelated models the distances are so large that nobody
        would ever leave the model drawn first.
    keep_history : bool
        Keep the models of every round.
    diagnose : bool
        Compare released with exact identifiers and say how many differ (``flip_rate``, (T,)), and
        ``true_sizes`` (T, k). A look behind the boundary that only a simulation can take: not part
        of what is released.

    Returns
    -------
    TrainingResult

    Raises
    ------
    ValueError, TypeError, TrustModelError, BudgetExceededError
        Before any data is read.
    """
    plan = plan_rr_cluster(
        federation, model, n_models=n_models, n_rounds=n_rounds, epsilon=epsilon, sigma=sigma,
        delta=delta, cohort=cohort, clip=clip, min_size=min_size, clusterer=clusterer,
        identifiers=identifiers, rebalance=rebalance, identifier_share=identifier_share,
        accountant=accountant, n_steps=n_steps, learning_rate=learning_rate,
        server_rate=server_rate,
    )  # fmt: skip
    rng = federation.randomness.public
    if clusterer == "fesem" and initial is None:
        initial = model.initial(1, rng=rng) + rng.normal(
            0.0, CLOSE, (plan.n_models, model.n_parameters)
        )
    models = initial_models(federation, model, plan.n_models, initial)
    common = model.initial(1, rng=rng)[0] if clusterer == "fedcam" else None
    arguments: dict[str, Any] = {
        "model": model, "clip": plan.clip, "n_steps": plan.n_steps,
        "learning_rate": plan.learning_rate, "sampling": plan.sampling,
    }  # fmt: skip
    if common is not None:
        arguments["common"] = common
    require_budget(federation, plan.mechanisms, plan.sampling, plan.n_rounds, plan.method)
    federation.check_release(CLUSTERERS[clusterer], plan.mechanisms, models=models, **arguments)
    n_before = len(federation.ledger.releases)
    if clusterer == "fesem":
        federation.client_memory.put(
            "fesem", rng.integers(plan.n_models, size=federation.n_clients)
        )
    history, sizes, moved, diagnoses = [models.copy()], [], [], []
    for t in range(plan.n_rounds):
        exact, updates = federation.collect(
            CLUSTERERS[clusterer], plan.mechanisms, round=t, models=models, **arguments
        )
        released, clusters, sums, common_sum = _server_round(
            federation, plan, exact, updates, common
        )
        counts = np.bincount(clusters, minlength=plan.n_models)
        filled = counts > 0
        models = models.copy()
        models[filled] += plan.server_rate * sums[filled] / counts[filled, None]
        if common is not None:
            common = common + plan.server_rate * common_sum / max(len(clusters), 1)
            arguments["common"] = common
        sizes.append(counts)
        moved.append(int((released != clusters).sum()))
        if keep_history:
            history.append(models)
        if diagnose:
            true = exact.argmax(axis=1)
            diagnoses.append(
                (float((true != released).mean()), np.bincount(true, minlength=plan.n_models))
            )
    return TrainingResult(
        models, plan, federation.ledger.since(n_before),
        plan.sigma > 0 and identifiers != "none" and federation.randomness.is_secure,
        sizes=np.array(sizes, dtype=np.float64), moved=np.array(moved), common=common,
        history=np.stack(history) if keep_history else None,
        diagnostics={} if not diagnose else {
            "flip_rate": np.array([d[0] for d in diagnoses]),
            "true_sizes": np.array([d[1] for d in diagnoses]),
        },
    )  # fmt: skip


def _server_round(
    federation: TrustedServer,
    plan: TrainingPlan,
    exact: FloatArray,
    updates: FloatArray,
    common: FloatArray | None,
) -> tuple[Any, Any, FloatArray, Any]:
    """Released and rebalanced cluster numbers, noised sums (k, d), noised common sum (d,)."""
    k, noise = plan.n_models, federation.randomness.noise
    to_identifiers, to_sums = plan.mechanisms
    released = privatise(exact, to_identifiers, rng=noise)  # type: ignore[arg-type]
    clusters = rebalance(
        released, k, plan.details["min_size"], rule=plan.details["rebalance"],
        rng=federation.randomness.public,
    )  # fmt: skip
    d = updates.shape[1] // (2 if common is not None else 1)
    member = (clusters == np.arange(k)[:, None]).astype(np.float64)
    sums = member @ updates[:, -d:] + to_sums.sample((k, d), rng=noise)
    if common is None:
        return released, clusters, sums, None
    return released, clusters, sums, updates[:, :d].sum(axis=0) + to_sums.sample((d,), rng=noise)
