"""Algorithms 1 and 2: the rounds of RR-Cluster, and what its planner must know."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._index import bincount
from fedclust_helpers._validation import Count, FloatArray, Natural, Share
from fedclust_helpers.accounting.search import least
from fedclust_helpers.client_statistics import ADDITIVE_UPDATES, CLIENT_UPDATES, NEAREST_UPDATES
from fedclust_helpers.client_statistics.models import AdditiveModel, Model
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import (
    NO_NOISE,
    Algorithm,
    Members,
    Noise,
    Options,
    Public,
    Remember,
    Steps,
    SumsOf,
    gaussian,
)
from fedclust_helpers.program.algorithm import Cost
from fedclust_helpers.rr_cluster import costs, rebalancing
from fedclust_helpers.rr_cluster import training as tr
from fedclust_helpers.rr_cluster.identifiers import PURE, Identifiers
from fedclust_helpers.rr_cluster.rebalancing import Rule
from fedclust_helpers.rr_cluster.training import Dial, Rounds, Trained, Training

Clusterer = Literal["ifca", "fesem", "fedcam"]
STATISTICS = {"ifca": CLIENT_UPDATES, "fesem": NEAREST_UPDATES, "fedcam": ADDITIVE_UPDATES}
ANSWERED = "paper_tight"  # the accountant of random answers: Theorem 4.2, well converted
CLOSE = 0.01  # standard deviation between the starting models of FeSEM, per parameter


def rr_cluster(
    public: Public, dial: Dial, training: Training, *, n_clusters: Count, n_rounds: Rounds,
    min_size: Natural = 8, clusterer: Clusterer = "ifca", identifiers: Identifiers = "corrected",
    rebalance: Rule = "strict", identifier_share: Share = 0.5, initial: ArrayLike | None = None,
) -> Steps:  # fmt: skip
    """RR-Cluster (Algorithms 1 and 2), or a private base clusterer with ``rebalance="off"``.

    Privacy (one client, replace-one): the identifiers count as released. Given them and the coins
    of rebalancing, the partition and its sizes are the same whatever one client's update is, so one
    sum moves, by at most 2C: rebalancing is post-processing, and dividing by the exact size is
    free. The identifiers themselves move by sqrt(2). (The argument of Appendix A.2, under
    add/remove, does not hold: claim R2.) A cohort is charged by the Renyi curve of both together,
    of which Theorem 4.2 is the same statement.

    **Without a trusted server**, where everybody takes part (``"masked", noise_from="server"``).
    Proof for a server that follows the protocol; in a round it sees

    1. noised identifiers by name: the client itself adds all of the noise, for a change of sqrt(2),
       and sends the largest entry;
    2. the coins of rebalancing, which reads them and 1. They may be its own: step 3 holds for
       every partition that updates do not enter;
    3. uniform words: each client masks k blocks, its update in that of its group. The clients
       unmask the k noised sums. Given 1 and 2 one of them moves, by 2C.

    So all parties together see 1 and, given it, 3: two Gaussians, at sigma_s and sigma_theta, which
    are what a trusted server releases and what is charged, given all rounds before. Replace-one
    only, since names are seen, and no cohort. The server knows the noise of 3, so it must get no
    sum and no model. A share of noise in each identifier would not hide it: clients who add shares
    are refused.

    Parameters
    ----------
    public : Public
        Facts and coins. `plan` takes the `federation` that will run it, with a ledger for one
        client under replace-one.
    dial : Dial
        Noise of all rounds. `plan` takes `delta`, and `epsilon` or `sigma`: the total for the whole
        run (``math.inf``: no noise), or the noise multiplier sigma_eff of a round, 1/sigma_eff^2 =
        1/sigma_s^2 + 1/sigma_theta^2.
    training : Training
    n_clusters, n_rounds : int
        k and T.
    min_size : int
        B, at most cohort/n_clusters.
    clusterer : {"ifca", "fesem", "fedcam"}
        How a client chooses: by least loss; by the nearest model to its trained weights (FeSEM,
        Long et al. 2023); by least loss beside a common model that all train (FedCAM, Ma et al.
        2023). What clients of FeSEM send depends on rounds in which they took part before, so that
        a drawn cohort is charged as if everyone took part (`ClientStatistic`).
        Both updates of FedCAM are cut jointly and are one release.
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
    initial : array_like of shape (k, d)
        Public starting models; random ones by default (for FeSEM `close_models`).
    """
    k, gamma, statistic = n_clusters, training.server_rate, STATISTICS[clusterer]
    noise = noise_of(dial, identifiers, identifier_share)
    how = training.sent(public.facts)
    common: FloatArray | None = None
    if clusterer == "fesem" and initial is None:
        initial = close_models(training.model, k, rng=public.coins)
    history, sizes, moved = [training.start(public, k, initial)], [], []
    if clusterer == "fesem":  # a client trains the model that it chose last, at first any
        yield Remember("fesem", public.coins.integers(k, size=public.facts.n_clients))
    if clusterer == "fedcam":
        common = training.model.initial(1, rng=public.coins)[0]
        how |= {"n_vectors": 2, "n_groups": k + 1}
    for _ in range(n_rounds):  # line 2 of both
        # Lines 4 to 7: the server draws a cohort and sends the models; each client chooses one,
        # trains it, and answers with its clipped update and its identifier, which is noised
        # (Algorithm 2, lines 5 to 11).
        models = history[-1]
        sent = how if common is None else {"common": common} | how
        chosen = yield Members(statistic, noise, models=models, **sent)
        # lines 8 to 10 (12, 13)
        clusters = rebalancing.rebalance(chosen, k, min_size, rule=rebalance, rng=public.coins)
        groups, size = clusters, bincount(clusters, minlength=k)
        if common is not None:  # the first update of a client is for all
            groups = np.stack([np.full(len(clusters), k), clusters], axis=1)
        (sums,) = yield SumsOf(groups)  # line 12: noise for a change of 2C
        models, filled = models.copy(), size > 0  # a cluster without an update keeps its model
        models[filled] += gamma * sums[:k][filled] / size[filled, None]  # lines 12, 13
        if common is not None:
            common = common + gamma * sums[k] / max(len(chosen), 1)
        history.append(models)
        sizes.append(size)
        moved.append(np.count_nonzero(clusters != chosen))
    return Trained.of(history, sizes, moved=np.array(moved, dtype=np.int64), common=common)


def noise_of(dial: Dial, identifiers: str, share: float) -> tuple[Noise, Noise]:
    """Noise of identifiers and of sums.

    "corrected" identifiers get sqrt(2) sigma_s, "printed" ones sigma_s as in Algorithm 2.
    """
    if not dial.sigma:
        return NO_NOISE, NO_NOISE
    if identifiers == "exact":
        return NO_NOISE, gaussian(dial.sigma)
    sigma_s, sigma_theta = costs.split_identifiers(dial.sigma, share)
    if dial.answer is not None:
        return Noise(identifiers, dial.answer), gaussian(sigma_theta)
    printed = math.sqrt(2) if identifiers == "printed" else 1.0
    return gaussian(sigma_s / printed), gaussian(sigma_theta)


def close_models(model: Model, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
    """Starting models of FeSEM: one random model, and copies that differ by N(0, 0.01^2).

    Between unrelated models the distances are so large that nobody would ever leave the model
    drawn first.
    """
    one = model.initial(1, rng=rng)
    return np.asarray(one + rng.normal(0.0, CLOSE, (n_clusters, model.n_parameters)))


# --- the plan -------------------------------------------------------------------------------------


def of_partitions(facts: FederationFacts, options: Options) -> Options:
    """The options, for a federation where a released partition is covered."""
    options = tr.of_clients(facts, options)
    k, model = options["n_clusters"], options["training"].model
    if facts.adjacency != "replace-one":
        raise ValueError(
            "federation must keep a ledger for replace-one: under add/remove a released partition"
            " and its sizes are not covered"
        )
    if k < 2:
        raise ValueError(f"n_clusters must be >= 2 (one model is plan_dp_fedavg), got {k}")
    if options["clusterer"] == "fedcam" and not isinstance(model, AdditiveModel):
        raise TypeError(f"model must have outputs() for FedCAM, got {type(model).__name__}")
    if options["identifiers"] in PURE and facts.noise != "continuous":
        raise ValueError(
            f"identifiers must be 'corrected' or 'printed' where noise is discrete: random answers"
            f" ({options['identifiers']!r}) have no exact sampler here"
        )
    if options["rebalance"] == "off":
        options |= {"min_size": 0}
    return tr.check_min_size(options)


def least_noise(
    cost: Cost, public: Public, epsilon: float | None, delta: float, *, clusterer: str,
    identifiers: str, **options: Any,
) -> Dial:  # fmt: skip
    """The smallest sigma_eff; "printed" and "exact" identifiers get that of "corrected" ones."""
    remembers = STATISTICS[clusterer].remembers
    if identifiers in PURE:
        n_answers = options["n_clusters"] if identifiers == "krr" else 2
        return _random_answers(
            public, epsilon, delta, remembers=remembers, n_answers=n_answers, **options
        )
    corrected = partial(cost, identifiers="corrected")
    return tr.least_sigma(corrected, public, epsilon, delta, remembers=remembers, **options)


def _random_answers(
    public: Public, epsilon: float | None, delta: float, *, sigma: float | None, n_answers: int,
    training: Training, n_rounds: int, identifier_share: float, remembers: bool, **_: Any,
) -> Dial:  # fmt: skip
    """The same for random answers: amplified or as if everyone took part, whichever is better."""
    if sigma is not None or epsilon is None:
        raise ValueError(
            "epsilon or sigma must be given, and sigma must be None where identifiers are random"
            " answers: give epsilon"
        )
    if math.isinf(epsilon):
        return Dial(0.0, ANSWERED)
    m, cohort = public.facts.n_clients, training.cohort
    run: dict[str, Any] = {"n_rounds": n_rounds, "n_clients": m, "cohort": cohort, "delta": delta}
    refusal = f"epsilon must be larger: no noise costs {epsilon:g} at delta={delta:g}"
    sigma_eff = least(  # of sums alone, by the bound that answers are charged by
        lambda s: costs.mixed_epsilon(s, 0.0, **run) - epsilon, refusal, lowest=-epsilon
    )
    smaller = None
    if cohort < m and not remembers:
        smaller = costs.joint_multiplier(epsilon, **run)
    amplified = smaller is not None and smaller < sigma_eff
    if smaller is not None:
        sigma_eff = min(smaller, sigma_eff)
    sigma_theta = costs.split_identifiers(sigma_eff, identifier_share)[1]
    answer = costs.calibrate_identifiers(
        epsilon, sigma_theta=sigma_theta, amplified=amplified, n_clusters=n_answers, **run
    )
    return Dial(sigma_eff, ANSWERED, answer, amplified)


def total(plan: Plan) -> float:
    """What all rounds cost together at the plan's delta.

    For random answers as identifiers also by `costs.mixed_epsilon`, if that is smaller: the
    ledger bounds such a round as if everyone took part.
    """
    options, dial, by_ledger = plan.options, plan.dial, tr.total(plan)
    if dial.answer is None:
        return by_ledger
    _, sigma_theta = costs.split_identifiers(dial.sigma, options["identifier_share"])
    mixed = costs.mixed_epsilon(
        sigma_theta, dial.answer, delta=plan.delta, n_rounds=plan.n_rounds,
        n_clients=plan.facts.n_clients, cohort=options["training"].cohort,
        n_clusters=plan.n_clusters if options["identifiers"] == "krr" else 2,
        amplified=dial.amplified,
    )  # fmt: skip
    return min(by_ledger, mixed)


def says(plan: Plan, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Under masks the server sees identifiers too."""
    if plan.facts.receiver == "server":
        return rows
    at = [who for who, _ in rows].index("server sees")
    return [
        *rows[: at + 1],
        ("", "the identifier that each client noised, by name"),
        *rows[at + 1 :],
    ]


RR_CLUSTER = Algorithm(
    name="rr_cluster", steps=rr_cluster, check=of_partitions, budget=tr.BUDGET, search=least_noise,
    nominal=True, total=total, capability="members", says=says,
    title=lambda facts, options: ("rr_" if options["min_size"] else "") + options["clusterer"],
)  # fmt: skip
plan = RR_CLUSTER.planner()
