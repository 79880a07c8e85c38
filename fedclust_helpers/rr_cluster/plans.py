"""Plans of RR-Cluster: how the budget is split between identifiers and sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Natural, Share, check_positive
from fedclust_helpers.client_statistics import (
    ADDITIVE_UPDATES,
    CLIENT_UPDATES,
    NEAREST_UPDATES,
    ClientStatistic,
)
from fedclust_helpers.client_statistics.models import AdditiveModel
from fedclust_helpers.federation import SumFederation, planner
from fedclust_helpers.mechanisms import Mechanism, NoNoise
from fedclust_helpers.rr_cluster import accounting, planning
from fedclust_helpers.rr_cluster.identifiers import PURE, Identifiers, identifier_mechanism
from fedclust_helpers.rr_cluster.planning import Mechanisms, Setting, Training, TrainingPlan

Clusterer = Literal["ifca", "fesem", "fedcam"]
Rule = Literal["strict", "literal", "off"]

STATISTICS = {"ifca": CLIENT_UPDATES, "fesem": NEAREST_UPDATES, "fedcam": ADDITIVE_UPDATES}
EXACT = NoNoise("replace-one")


@dataclass(frozen=True, kw_only=True)
class RebalancingPlan(TrainingPlan):
    """A plan of RR-Cluster: `clusterer`, `identifiers` and `rebalance` as in `plan`.

    `min_size` is B, 0 without rebalancing; `sigma_s` and `sigma_theta` are the noise multipliers of
    identifiers and sums (`sigma_s` is inf where identifiers are exact or random answers).
    `identifier_epsilon` is that of one random answer, `answers_amplified` says whether these were
    calibrated by Theorem 4.2.
    """

    clusterer: str
    identifiers: str
    rebalance: Rule
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
            n_clients=self.facts.n_clients, cohort=self.training.cohort,
            n_clusters=self.n_clusters if self.identifiers == "krr" else 2,
            amplified=self.answers_amplified,
        )  # fmt: skip
        return min(total, mixed)


@planner
@checked
def plan(
    federation: SumFederation, training: Training, *, n_clusters: int, n_rounds: int,
    epsilon: float | None = None, sigma: float | None = None, delta: float, min_size: Natural = 8,
    clusterer: Clusterer = "ifca", identifiers: Identifiers = "corrected",
    rebalance: Rule = "strict", identifier_share: Share = 0.5, accountant: str | None = None,
) -> RebalancingPlan:  # fmt: skip
    """Plan RR-Cluster (Algorithms 1 and 2), or a private base clusterer with ``rebalance="off"``.

    Privacy (one client, replace-one): the identifiers count as released. Given them and the coins
    of rebalancing, the partition and its sizes are the same whatever one client's update is, so one
    sum moves, by at most 2C: rebalancing is post-processing, and dividing by the exact size is
    free. The identifiers themselves move by sqrt(2). (The argument of Appendix A.2, under
    add/remove, does not hold: claim R2.) A cohort is charged by the Renyi curve of both together,
    of which Theorem 4.2 is the same statement.

    Parameters
    ----------
    federation : TrustedServer
        With a ledger for one client under replace-one.
    training : Training
    n_clusters, n_rounds : int
        k and T.
    epsilon or sigma : float
        The total for the whole run (``math.inf``: no noise), or the noise multiplier sigma_eff of a
        round, 1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2.
    delta : float
    min_size : int
        B, at most cohort/n_clusters.
    clusterer : {"ifca", "fesem", "fedcam"}
        How a client chooses. What clients of FeSEM send depends on rounds in which
        they took part before: amplification is not proved then, and a drawn cohort is charged as if
        everyone took part. Both updates of FedCAM are cut jointly and are one release.
    identifiers : {"corrected", "printed", "exponential", "krr", "exact"}
        "printed" is noised for sensitivity 1 and really costs more than asked for: the plan says
        how much, as its `epsilon`. "exponential" and "krr" are no Gaussians: the library cannot
        amplify them by sampling, nor the sums that share their sample. The ledger charges such a
        round as if everyone took part; calibration and the total of the plan use Theorem 4.2, which
        holds for any mechanism, where that is less. "exact" shows identifiers as they are: not
        private, `epsilon` is inf.
    rebalance : {"strict", "literal", "off"}
        See `rebalance`.
    identifier_share : float
        Share of 1/sigma_eff^2 that goes to the identifiers.
    accountant : {"wor_rdp", "paper", "paper_tight"}
        What `epsilon` is calibrated with: Gaussian identifiers, a cohort, teaching mode. Else it is
        the exact curve where sampling does not count, and Renyi curves.
    """
    setting = planning.check_setting(
        federation, training, capability="collect", n_clusters=n_clusters, n_rounds=n_rounds,
        delta=delta, accountant=accountant,
    )  # fmt: skip
    if setting.facts.adjacency != "replace-one":
        raise ValueError(
            "federation must keep a ledger for replace-one: under add/remove a released partition"
            " and its sizes are not covered"
        )
    k, model = setting.n_clusters, training.model
    if k < 2:
        raise ValueError(f"n_clusters must be >= 2 (one model is plan_dp_fedavg), got {k}")
    statistic = STATISTICS[clusterer]
    if clusterer == "fedcam" and not isinstance(model, AdditiveModel):
        raise TypeError(f"model must have outputs() for FedCAM, got {type(model).__name__}")
    size = 0 if rebalance == "off" else min_size
    if size * k > training.cohort:
        raise ValueError(
            f"min_size must be <= cohort/n_clusters = {training.cohort / k:g} (B <= qM/k), got"
            f" {size}"
        )
    noise = _answer_noise if identifiers in PURE else _gaussian_noise
    found = noise(setting, statistic, identifiers, identifier_share, epsilon, sigma)
    return setting.settle(
        RebalancingPlan, ("rr_" if size else "") + clusterer, statistic, **found,
        sent={"common": np.zeros(model.n_parameters)} if clusterer == "fedcam" else {},
        trusted=identifiers in PURE, clusterer=clusterer, identifiers=identifiers,
        rebalance=rebalance, min_size=size,
    )  # fmt: skip


def _gaussian_noise(
    setting: Setting, statistic: ClientStatistic, identifiers: str, share: float,
    epsilon: float | None, sigma: float | None,
) -> dict[str, Any]:  # fmt: skip
    """Nominal epsilon, multipliers and mechanisms of a round with (discrete) Gaussian noise."""
    share = 0.0 if identifiers == "exact" else share

    def make(sigma_eff: float, *, as_printed: bool = False) -> Mechanisms:
        if sigma_eff == 0:
            return EXACT, EXACT
        sigma_s, sigma_theta = accounting.split_identifiers(sigma_eff, share)
        sums = _noise(setting, statistic, "updates", sigma_theta)
        if math.isinf(sigma_s):
            return EXACT, sums
        sigma_s /= math.sqrt(2) if as_printed else 1.0
        return _noise(setting, statistic, "identifiers", sigma_s), sums

    def shown(sigma_eff: float) -> Mechanisms:
        """What calibration counts: with exact identifiers nothing but the sums."""
        return make(sigma_eff)[1:] if identifiers == "exact" else make(sigma_eff)

    nominal, sigma_eff, accountant = setting.multiplier(
        shown, epsilon=epsilon, sigma=sigma, remembers=statistic.remembers
    )
    sigma_s, sigma_theta = math.inf, 0.0
    if sigma_eff > 0:
        sigma_s, sigma_theta = accounting.split_identifiers(sigma_eff, share)
    return {
        "nominal": nominal, "sigma": sigma_eff, "accountant": accountant, "sigma_s": sigma_s,
        "sigma_theta": sigma_theta,
        "mechanisms": make(sigma_eff, as_printed=identifiers == "printed"),
    }  # fmt: skip


def _answer_noise(
    setting: Setting, statistic: ClientStatistic, identifiers: str, share: float,
    epsilon: float | None, sigma: float | None,
) -> dict[str, Any]:  # fmt: skip
    """The same for random answers: by Theorem 4.2 or without amplification, whichever is better."""
    if setting.facts.noise != "continuous":
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
    found: dict[str, Any] = {
        "nominal": nominal, "sigma": 0.0, "accountant": "paper_tight", "sigma_s": math.inf,
        "sigma_theta": 0.0, "mechanisms": (EXACT, EXACT),
    }  # fmt: skip
    if math.isinf(nominal):
        return found
    run: dict[str, Any] = setting.rounds | {"delta": setting.delta}
    refusal = f"epsilon must be larger: no noise costs {nominal:g} at delta={setting.delta:g}"
    sigma_eff = accounting.smallest(  # of sums alone, by the bound that answers are charged by
        lambda t: accounting.mixed_epsilon(math.exp(t), 0.0, **run) - nominal,
        refusal, lowest=-nominal,
    )  # fmt: skip
    amplified = False
    by_theorem = run | {"accountant": "paper_tight"}
    drawn = setting.sampling is not None and not statistic.remembers
    if drawn and nominal > accounting.floor_epsilon(**by_theorem):
        smaller = accounting.calibrate(nominal, **by_theorem)
        amplified, sigma_eff = smaller < sigma_eff, min(smaller, sigma_eff)
    _, sigma_theta = accounting.split_identifiers(sigma_eff, share)
    answer = accounting.calibrate_identifiers(
        nominal, sigma_theta=sigma_theta, amplified=amplified,
        n_clusters=setting.n_clusters if identifiers == "krr" else 2, **run,
    )  # fmt: skip
    sums = _noise(setting, statistic, "updates", sigma_theta)
    return found | {
        "sigma": sigma_eff, "sigma_theta": sigma_theta, "identifier_epsilon": answer,
        "answers_amplified": amplified,
        "mechanisms": (identifier_mechanism(identifiers, answer), sums),
    }  # fmt: skip


def _noise(setting: Setting, statistic: ClientStatistic, part: str, multiplier: float) -> Mechanism:
    """Noise of one part: an identifier for each of the cohort, sums of all clusters (and FedCAM's
    common one)."""
    k, d = setting.n_clusters, setting.training.model.n_parameters
    drawn = {"identifiers": setting.training.cohort * k, "updates": (k + 1) * d}
    return setting.gaussian(statistic, part, multiplier, max(drawn[part], 2 * d))
