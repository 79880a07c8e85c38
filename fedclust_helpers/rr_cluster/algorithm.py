"""Algorithms 1 and 2: federated clustering of models with random rebalancing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from tqdm.auto import trange

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_positive,
    check_real,
)
from fedclust_helpers.client_statistics import (
    ADDITIVE_UPDATES,
    CLIENT_UPDATES,
    NEAREST_UPDATES,
    ClientStatistic,
    Model,
)
from fedclust_helpers.client_statistics.models import AdditiveModel
from fedclust_helpers.federation import TrustedServer
from fedclust_helpers.mechanisms import DiscreteGaussian, Mechanism, NoiseSource, NoNoise
from fedclust_helpers.rr_cluster import accounting
from fedclust_helpers.rr_cluster.identifiers import (
    IDENTIFIERS,
    PURE,
    identifier_mechanism,
    privatise,
)
from fedclust_helpers.rr_cluster.planning import (
    TRAINING,
    Setting,
    Training,
    TrainingPlan,
    TrainingResult,
    check_setting,
    planned_epsilon,
)
from fedclust_helpers.rr_cluster.rebalancing import RULES, rebalance

Clusterer = Literal["ifca", "fesem", "fedcam"]
Identifiers = Literal["exact", "printed", "corrected", "exponential", "krr"]
Rule = Literal["strict", "literal", "off"]

CLUSTERERS = {"ifca": CLIENT_UPDATES, "fesem": NEAREST_UPDATES, "fedcam": ADDITIVE_UPDATES}


@dataclass(frozen=True, kw_only=True)
class RebalancingPlan(TrainingPlan):
    """A plan of RR-Cluster.

    Attributes
    ----------
    clusterer, identifiers, rebalance
        See `plan`.
    min_size : int
        B; 0 without rebalancing.
    sigma_s, sigma_theta : float
        Noise multipliers of identifiers and sums; `sigma_s` is inf where identifiers are exact or
        random answers.
    identifier_epsilon : float, optional
        Epsilon of one random answer.
    answers_amplified : bool
        Whether random answers were calibrated by Theorem 4.2.
    """

    clusterer: str
    identifiers: str
    rebalance: str
    min_size: int
    sigma_s: float
    sigma_theta: float
    identifier_epsilon: float | None = None
    answers_amplified: bool = False

    @cached_property
    def total_epsilon(self) -> float:
        """What all rounds cost together at `delta`.

        For random answers as identifiers also by Theorem 4.2 (`accounting.mixed_epsilon`), if that
        is smaller: the ledger bounds such a round as if everyone took part.
        """
        total = super().total_epsilon
        if self.identifier_epsilon is None:
            return total
        mixed = accounting.mixed_epsilon(
            self.sigma_theta, self.identifier_epsilon, delta=self.delta, n_rounds=self.n_rounds,
            n_clients=self.facts.n_clients, cohort=self.cohort,
            n_clusters=self.n_clusters if self.identifiers == "krr" else 2,
            amplified=self.answers_amplified,
        )  # fmt: skip
        return min(total, mixed)


def plan(
    federation: TrustedServer,
    model: Model,
    *,
    n_clusters: int,
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
    training: Training = TRAINING,
) -> RebalancingPlan:
    """Plan RR-Cluster (Algorithms 1 and 2), or a private base clusterer with ``rebalance="off"``.

    Notation: k ``n_clusters``, T ``n_rounds``, qM ``cohort``, C_theta ``clip``, B ``min_size``,
    sigma_s and sigma_theta from sigma_eff and ``identifier_share``.

    Every round draws `cohort` clients without replacement. A client chooses a model, trains it and
    sends identifier and clipped update to the trusted server. The server releases noised
    identifiers, rebalances, and adds the noised mean update of each cluster to its model. A cluster
    without an update keeps its model.

    Privacy (one client, replace-one): the identifiers count as released. Given them and the coins
    of rebalancing, the partition and its sizes are the same whatever one client's update is, so one
    sum moves, by at most 2C: rebalancing is post-processing, and dividing by the exact size is
    free. The identifiers themselves move by sqrt(2). (The argument of Appendix A.2, under
    add/remove, does not hold: see `sensitivity.TWO_CLUSTERS`.)

    In secure mode identifiers and sums get discrete Gaussian noise. A cohort is charged by the
    Renyi curve of both together (`accounting.renyi` of the package, of which Theorem 4.2 is the
    same statement).

    Parameters
    ----------
    federation : TrustedServer
        With a ledger for one client under replace-one.
    model : Model
    n_clusters, n_rounds : int
    epsilon or sigma : float
        The total for the whole run (``math.inf``: no noise), or the noise multiplier sigma_eff of a
        round, 1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2.
    delta : float
    cohort : int
        Clients per round; all of them means no sampling. What clients of FeSEM send depends on
        rounds in which they took part before: their cohorts are drawn, but charged as if everyone
        took part, since amplification round by round is not proved then.
    clip : float
        Bound C on the length of an update. An update that is not finite counts as zero.
    min_size : int
        B, at most cohort/n_clusters.
    clusterer : {"ifca", "fesem", "fedcam"}
        How a client chooses. FeSEM: nearest model to the trained weights, starting from the model
        chosen last time (drawn at random before the first). FedCAM: a common model is added to each
        of the k; both updates of a client are one vector, cut to C jointly, one release instead of
        two (which would cost each a part of the budget).
    identifiers : {"corrected", "printed", "exponential", "krr", "exact"}
        "printed" is noised for sensitivity 1 and really costs more than asked for: the plan says
        how much, as its `epsilon`. "exponential" and "krr" are no Gaussians: the library cannot
        amplify them by sampling, nor the sums that share their sample. The ledger charges such a
        round as if everyone took part; calibration and the total of the plan use Theorem 4.2, which
        holds for any mechanism, where that is less. "exact" shows identifiers as they are: not
        private, `epsilon` is inf.
    rebalance : {"strict", "literal", "off"}
        See `rebalancing.rebalance`.
    identifier_share : float
        Share of 1/sigma_eff^2 that goes to the identifiers.
    accountant : {"wor_rdp", "paper", "paper_tight"}
        What `epsilon` is calibrated with: Gaussian identifiers, a cohort, teaching mode. Else it is
        the exact curve where sampling does not count, and Renyi curves.
    training : Training

    Returns
    -------
    RebalancingPlan

    Raises
    ------
    ValueError, TypeError, TrustModelError
        Nothing of the data is looked at.
    """
    setting = check_setting(
        federation, model, capability="collect", sampling="fixed", n_clusters=n_clusters,
        n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip, training=training,
        accountant=accountant,
    )  # fmt: skip
    if setting.facts.adjacency != "replace-one":
        raise ValueError(
            "federation must keep a ledger for replace-one: under add/remove a released partition"
            " and its sizes are not covered"
        )
    k = setting.n_clusters
    if k < 2:
        raise ValueError(f"n_clusters must be >= 2 (one model is plan_dp_fedavg), got {k}")
    statistic = CLUSTERERS[check_choice(clusterer, "clusterer", tuple(CLUSTERERS))]
    check_choice(identifiers, "identifiers", IDENTIFIERS)
    check_choice(rebalance, "rebalance", RULES)
    if clusterer == "fedcam" and not isinstance(model, AdditiveModel):
        raise TypeError(f"model must have outputs() for FedCAM, got {type(model).__name__}")
    if training.proximal:
        raise ValueError("training must have proximal=0: only FedProx has this term")
    check_int(min_size, "min_size", minimum=0)
    size = 0 if rebalance == "off" else int(min_size)
    if size * k > setting.cohort:
        raise ValueError(
            f"min_size must be <= cohort/n_clusters = {setting.cohort / k:g} (B <= qM/k), got"
            f" {size}"
        )
    if not 0 < check_real(identifier_share, "identifier_share") < 1:
        raise ValueError(f"identifier_share must lie in (0, 1), got {identifier_share}")
    noise = _answer_noise if identifiers in PURE else _gaussian_noise
    found = noise(
        setting, statistic, identifiers=identifiers, share=identifier_share, epsilon=epsilon,
        sigma=sigma,
    )  # fmt: skip
    d = model.n_parameters
    extra: dict[str, Any] = {"common": np.zeros(d)} if clusterer == "fedcam" else {}
    fields = setting.fields(
        statistic, found.pop("mechanisms"), numbers=k + d * (2 if extra else 1), **extra
    )
    nominal = found["nominal"]
    if identifiers in PURE:
        asked = nominal
    else:
        asked = planned_epsilon(
            fields["releases"], setting.facts, nominal, setting.delta,
            rdp=found["accountant"].endswith("_rdp"),
        )  # fmt: skip
    found["nominal"] = asked if math.isnan(nominal) else nominal
    return RebalancingPlan(
        method=("rr_" if size else "") + clusterer, epsilon=asked, clusterer=clusterer,
        identifiers=identifiers, rebalance=rebalance, min_size=size, **fields, **found,
    )  # fmt: skip


def _gaussian_noise(
    setting: Setting, statistic: ClientStatistic, *, identifiers: str, share: float,
    epsilon: float | None, sigma: float | None,
) -> dict[str, Any]:  # fmt: skip
    """Nominal epsilon, multipliers and mechanisms of a round with (discrete) Gaussian noise."""
    share = 0.0 if identifiers == "exact" else share
    exact = NoNoise("replace-one")

    def make(sigma_eff: float, *, as_printed: bool = False) -> tuple[Mechanism, ...]:
        if sigma_eff == 0:
            return exact, exact
        sigma_s, sigma_theta = accounting.split_identifiers(sigma_eff, share)
        sums = _noise(setting, statistic, "updates", sigma_theta)
        if math.isinf(sigma_s):
            return exact, sums
        return _noise(
            setting, statistic, "identifiers", sigma_s / (math.sqrt(2) if as_printed else 1.0)
        ), sums  # fmt: skip

    def shown(sigma_eff: float) -> tuple[Mechanism, ...]:
        """What calibration counts: with exact identifiers nothing but the sums."""
        return make(sigma_eff)[1:] if identifiers == "exact" else make(sigma_eff)

    nominal, sigma_eff, accountant = setting.multiplier(
        shown, epsilon=epsilon, sigma=sigma, remembers=statistic.remembers
    )
    multipliers = (math.inf, 0.0)
    if sigma_eff > 0:
        multipliers = accounting.split_identifiers(sigma_eff, share)
    return {
        "nominal": nominal, "sigma": sigma_eff, "accountant": accountant,
        "mechanisms": make(sigma_eff, as_printed=identifiers == "printed"),
        "sigma_s": multipliers[0], "sigma_theta": multipliers[1],
    }  # fmt: skip


def _answer_noise(
    setting: Setting, statistic: ClientStatistic, *, identifiers: str, share: float,
    epsilon: float | None, sigma: float | None,
) -> dict[str, Any]:  # fmt: skip
    """The same for random answers: by Theorem 4.2 or without amplification, whichever is better."""
    facts = setting.facts
    if facts.noise != "continuous":
        raise ValueError(
            f"identifiers must be 'corrected' or 'printed' where noise is discrete: random answers"
            f" ({identifiers!r}) have no exact sampler here"
        )
    if sigma is not None or epsilon is None:
        raise ValueError(
            f"epsilon or sigma must be given, and sigma must be None with identifiers="
            f"{identifiers!r}: give epsilon"
        )
    nominal = check_positive(epsilon, "epsilon", finite=False)
    exact = NoNoise("replace-one")
    if math.isinf(nominal):
        return {
            "nominal": math.inf, "sigma": 0.0, "accountant": "paper_tight", "sigma_s": math.inf,
            "sigma_theta": 0.0, "mechanisms": (exact, exact),
        }  # fmt: skip
    run: dict[str, Any] = {
        "n_rounds": setting.n_rounds, "n_clients": facts.n_clients, "cohort": setting.cohort,
    }  # fmt: skip
    sigma_eff = accounting.calibrate(
        nominal, setting.delta, accountant="wor_rdp", **run | {"cohort": facts.n_clients}
    )
    amplified = False
    if setting.sampling is not None and not statistic.remembers:
        by_theorem: dict[str, Any] = {"delta": setting.delta, "accountant": "paper_tight"}
        if nominal > accounting.floor_epsilon(**run, **by_theorem):
            smaller = accounting.calibrate(nominal, setting.delta, accountant="paper_tight", **run)
            amplified = smaller < sigma_eff
            sigma_eff = min(smaller, sigma_eff)
    _, sigma_theta = accounting.split_identifiers(sigma_eff, share)
    answer = accounting.calibrate_identifiers(
        nominal, setting.delta, sigma_theta=sigma_theta, amplified=amplified,
        n_clusters=setting.n_clusters if identifiers == "krr" else 2, **run,
    )  # fmt: skip
    return {
        "nominal": nominal, "sigma": sigma_eff, "accountant": "paper_tight",
        "sigma_s": math.inf, "sigma_theta": sigma_theta, "identifier_epsilon": answer,
        "answers_amplified": amplified,
        "mechanisms": (
            identifier_mechanism(identifiers, answer),
            _noise(setting, statistic, "updates", sigma_theta),
        ),
    }  # fmt: skip


def _noise(setting: Setting, statistic: ClientStatistic, part: str, multiplier: float) -> Mechanism:
    """Noise of one part: an identifier for each of the cohort, sums of all clusters (and FedCAM's
    common one)."""
    k, d = setting.n_clusters, setting.model.n_parameters
    drawn = {"identifiers": setting.cohort * k, "updates": (k + 1) * d}
    return setting.federation.gaussian(
        statistic, part, multiplier=multiplier, n_coordinates=max(drawn[part], 2 * d),
        clip=setting.clip, model=setting.model,
    )  # fmt: skip


# --- the rounds -----------------------------------------------------------------------------------


def follow(
    federation: TrustedServer, plan: RebalancingPlan, model: Model, models: FloatArray, *,
    keep_history: bool, progress: bool, diagnose: bool,
) -> TrainingResult:  # fmt: skip
    """Algorithm 1 with any of the base clusterers."""
    statistic, rate = CLUSTERERS[plan.clusterer], plan.training.server_rate
    rng = federation.randomness.public
    arguments = plan.broadcast(model)
    common = model.initial(1, rng=rng)[0] if plan.clusterer == "fedcam" else None
    if plan.clusterer == "fesem":
        memory = federation.client_memory
        memory.put("fesem", rng.integers(plan.n_clusters, size=memory.n_clients))
    history, sizes, moved, looks = [models], [], [], []
    with federation.follow(plan) as n_before:
        for t in trange(plan.n_rounds, disable=not progress, desc=plan.method):
            if common is not None:
                arguments["common"] = common
            exact, updates = federation.collect(
                statistic, plan.mechanisms, round=t, models=models, **arguments
            )
            released, clusters, sums, common_sum = server_round(
                plan, exact, updates, noise=federation.randomness.noise, rng=rng
            )
            counts = np.bincount(clusters, minlength=plan.n_clusters)
            filled = counts > 0
            models = models.copy()
            models[filled] += rate * sums[filled] / counts[filled, None]
            if common is not None:
                common = common + rate * common_sum / max(len(clusters), 1)
            sizes.append(counts)
            moved.append(int((released != clusters).sum()))
            history += [models] if keep_history else []
            looks += [_look(exact, released, plan.n_clusters)] if diagnose else []
    return TrainingResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=math.isfinite(plan.epsilon) and federation.facts.mode == "secure",
        models=models, sizes=np.array(sizes, dtype=np.float64), moved=np.array(moved),
        common=common, history=np.stack(history) if keep_history else None,
        diagnostics={} if not diagnose else {
            "flip_rate": np.array([flips for flips, _ in looks]),
            "true_sizes": np.array([true for _, true in looks]),
        },
    )  # fmt: skip


def server_round(
    plan: RebalancingPlan, exact: Any, updates: Any, *, noise: NoiseSource,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:  # fmt: skip
    """What the trusted server makes of the messages of a round.

    The exact identifiers are read once, to be noised; all that follows sees the released ones.

    Parameters
    ----------
    plan : RebalancingPlan
    exact : ndarray of shape (m, k)
        One-hot identifiers as `federation.collect` hands them out.
    updates : ndarray of shape (m, d), or (m, 2d) in FedCAM
    noise : NoiseSource
    rng : numpy.random.Generator
        The coins of rebalancing.

    Returns
    -------
    released, clusters : ndarray of int, shape (m,)
        Noised identifiers, and the clusters after rebalancing.
    sums : ndarray of shape (k, d)
        Noised sums of the updates in each cluster.
    common_sum : ndarray of shape (d,)
        FedCAM: the noised sum of everyone's update of the common model. Else nothing of use.
    """
    k, d = plan.n_clusters, plan.n_parameters
    to_identifiers, to_sums = plan.mechanisms
    released = privatise(exact, to_identifiers, rng=noise)
    clusters = rebalance(released, k, plan.min_size, rule=plan.rebalance, rng=rng)
    sums = np.zeros((k, d), dtype=updates.dtype)
    for j in range(k):
        sums[j] = updates[clusters == j, -d:].sum(axis=0)
    noised = _noised(sums, to_sums, noise)
    if plan.clusterer != "fedcam":
        return released, clusters, noised, noised[0]
    return released, clusters, noised, _noised(updates[:, :d].sum(axis=0), to_sums, noise)


def _noised(total: Any, mechanism: Mechanism, noise: NoiseSource) -> FloatArray:
    """A total plus noise; whole steps of a grid stay integers until all is added."""
    if isinstance(mechanism, DiscreteGaussian):
        steps = total + mechanism.sample_steps(total.shape, rng=noise)
        return steps.astype(np.float64) * mechanism.grid
    return np.asarray(total + mechanism.sample(total.shape, rng=noise))


def _look(exact: Any, released: IntArray, n_clusters: int) -> tuple[float, IntArray]:
    """Share of identifiers that differ, and true sizes (k,): for a simulation's eyes only."""
    true = exact.argmax(axis=1)
    return float((true != released).mean()), np.bincount(true, minlength=n_clusters)
