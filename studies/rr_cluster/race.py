"""One race: every method at one guarantee (replace-one) on the same clients, re-seeding on and off.

Some entries release what the library has no mechanism for: they are simulated, with the noise that
(epsilon, delta) asks for by the exact curve, and are no release. `notes.md` describes the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from fedclust_helpers import kmeans
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import PrivacyLedger, gdp_epsilon, gdp_mu
from fedclust_helpers.client_statistics import CLIENT_UPDATES, NEAREST_UPDATES, SHARED_UPDATE
from fedclust_helpers.client_statistics.clipping import clip_clients
from fedclust_helpers.federation import simulate
from fedclust_helpers.program import Members, Public, Release, Remember, Steps, SumsOf
from fedclust_helpers.rr_cluster import algorithm, costs, rebalancing, sums_only
from fedclust_helpers.rr_cluster import training as tr
from studies.bench import cell as bench
from studies.rr_cluster import cells, low_budget
from studies.rr_cluster.design import best_clips, tuned_clips
from studies.rr_cluster.problems import Clients, load_clients, model_named
from studies.rr_cluster.theory import argmax_accuracy

MIXED = 0.3  # share of a client's own model in what it uses
WORK = 20  # local steps of `sums_work`
SHOWN = 0.1  # share of mu^2 for what clients release one by one before the first round
SKETCH = 8  # numbers of a sketch


class Entry(NamedTuple):
    """One method at one guarantee; `reseed` is "on", "off", or "none" where it means nothing."""

    method: str
    who: str
    reseed: str
    B: int
    epsilon: float
    delta: float


def rule_reseeds(std: float, share: float) -> bool:
    """The public rule: re-seed where noise takes no model with an equal share for dead.

    That is where P(mean of 3 counts < 0.1 share) < 1/1000 for `share` = cohort/k clients and noise
    of `std` in the count of a round: all of it is known before the run.
    """
    return bool(norm.cdf(-0.9 * share * math.sqrt(sums_only.WINDOW) / std) < 1e-3)


# --- methods that the library has not -------------------------------------------------------------


def right_share(dial: tr.Dial, k: int) -> tuple[float, float]:
    """How often a noised identifier is the true one, and how often any one of the others."""
    p = argmax_accuracy(math.sqrt(2) * costs.split_identifiers(dial.sigma, 0.5)[0], k)
    return p, (1 - p) / (k - 1)


def identified(
    public: Public, dial: tr.Dial, training: rr.Training, *, n_clusters: int, n_rounds: tr.Rounds,
    min_size: int = 8, clusterer: str = "ifca", reseed: bool = True, initial: Any = None,
    identifiers: str = "corrected", rebalance: str = "strict", identifier_share: float = 0.5,
) -> Steps:  # fmt: skip
    """RR-Cluster that re-seeds by unbiased counts: of c in m identifiers, (c - m r)/(p - r)."""
    k, (p, r) = n_clusters, right_share(dial, n_clusters)
    noise = algorithm.noise_of(dial, identifiers, identifier_share)
    models, how = training.start(public, k, initial), training.sent(public.facts)
    statistic = NEAREST_UPDATES if clusterer == "fesem" else CLIENT_UPDATES
    if clusterer == "fesem":
        yield Remember("fesem", public.coins.integers(k, size=public.facts.n_clients))
    below = 0.1 * training.cohort / k if reseed else -math.inf
    seeding, moved = sums_only.Reseeding(k, below, n_rounds), []
    for t in range(n_rounds):
        chosen = yield Members(statistic, noise, models=models, **how)
        groups = rebalancing.rebalance(chosen, k, min_size, rng=public.coins)
        (sums,) = yield SumsOf(groups)
        named, size = (bincount(c, minlength=k) for c in (chosen, groups))
        alive = (size > 0) & ~seeding.observe((named - len(chosen) * r) / (p - r))
        step = np.where(alive, 1 / np.maximum(size, 1), 0)[:, None] * sums
        models, _ = seeding.act(t, models + step, rng=public.coins)
        moved.append(np.count_nonzero(groups != chosen))
    return rr.Trained(models, models[None], np.zeros((0, k)), np.array(moved))


FRESH_UPDATE = replace(SHARED_UPDATE, name="FRESH_UPDATE", remembers=False)
"""DP-FedPer of clients that forget their head after each round: see `fresh_fedper`."""


def fresh_fedper(
    public: Public, dial: tr.Dial, training: rr.Training, *, n_rounds: tr.Rounds,
    initial: Any = None,
) -> Steps:  # fmt: skip
    """DP-FedPer from the public initial head in each round, so that every sampling amplifies.

    A message is a function of own data and of the broadcast: given those before, a round is one
    sampled Gaussian. FeSEM made fresh (train the model of least loss, join the nearest) is DP-IFCA
    but for clients whose training ends nearer to another model.
    """
    shared, how = training.model.shared, training.sent(public.facts)
    models = training.start(public, 1, initial)
    for _ in range(n_rounds):
        yield Remember("head")
        (update,) = yield Release(FRESH_UPDATE, [tr.times(dial.sigma)], models=models, **how)
        models = models.copy()
        models[0, shared] += update / training.cohort
    return rr.Trained.of([models])


IDENTIFIED = replace(algorithm.RR_CLUSTER, name="identified", steps=identified, title=None)
FRESH = replace(sums_only.FEDAVG, name="fresh_fedper", steps=fresh_fedper, title=None)
plan_identified, plan_fresh = IDENTIFIED.planner(), FRESH.planner()


# --- an entry on its clients ----------------------------------------------------------------------


class Track:
    """One set of clients, one guarantee, one clip."""

    def __init__(self, clients: Clients, entry: Entry, k: int, clip: float) -> None:
        self.problem, self.entry, self.k, self.clip = load_clients(clients), entry, k, clip
        self.model: Any = model_named("softmax", self.problem)
        self.train, self.test = low_budget.both_batches(self.problem)
        self.n, sampled = self.problem.train.n_clients, entry.who == "sampled"
        self.cohort = cells.cohort_of(self.problem) if sampled else self.n
        self.rounds = low_budget.ROUNDS["sampled" if sampled else "everyone"]
        self.rng = bench.generator_of(f"race/{clients.name}/{entry.method}")
        self.reseed, self.counts_std, self.moved = entry.reseed == "on", math.inf, 0.0
        self.sigma = self.spent = self.paid = 0.0  # `paid` is mu^2 of what is simulated

    def shares(self) -> tuple[float, float]:
        """mu of what clients release one by one before the first round, and of each round."""
        mu = gdp_mu(self.entry.epsilon, self.entry.delta)
        self.paid += SHOWN * mu**2
        return mu * math.sqrt(SHOWN), mu * math.sqrt((1 - SHOWN) / self.rounds)

    def run(
        self, planner: Callable[..., Any], trust: Any = "ideal", *, k: int = 1, n_steps: int = 5,
        **how: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        """A run of `planner` with the whole budget, or the `sigma` that is given."""
        ledger = PrivacyLedger(unit="client", adjacency="replace-one")
        problem, epsilon = self.problem, None if "sigma" in how else self.entry.epsilon
        federation = simulate(
            problem.train, trust, seed=problem.seed, bound=problem.federation.bound, ledger=ledger
        )
        training = rr.Training(self.model, cohort=self.cohort, clip=self.clip, n_steps=n_steps)
        usual: dict[str, Any] = {"n_rounds": self.rounds, "delta": self.entry.delta}
        usual |= {"epsilon": epsilon, "initial": problem.initial(self.model, k)}
        done = rr.run(federation, planner(federation, training, **usual | how))
        self.sigma, self.spent = done.plan.dial.sigma, done.epsilon
        if "sigma" in how:
            mu = math.sqrt(self.paid + done.plan.n_rounds / self.sigma**2)
            self.spent = gdp_epsilon(mu, self.entry.delta)
        return federation, done

    def sums(self, **how: Any) -> FloatArray:
        """Models (k, d) of sums only."""
        options: dict[str, Any] = {"k": self.k, "n_clusters": self.k, "reseed": self.reseed}
        done = self.run(rr.plan_sums_only, **options | how)[1]
        self.counts_std = 2 * self.sigma
        return done.models

    def updates(self, models: FloatArray, n_steps: int = 5) -> FloatArray:
        """Clipped update (n, d) of each client from its own row of `models`."""
        trained = self.model.train(models, self.train, n_steps=n_steps, learning_rate=0.3)
        return clip_clients(trained - models, self.clip)

    def grouped(self, models: FloatArray, groups: IntArray, mu: float) -> FloatArray:
        """The models (k, d) after a round of noised sums by public groups, which costs `mu`."""
        member = np.eye(self.k)[groups]
        sums = member.T @ self.updates(models[groups])
        sums += self.rng.normal(0, 2 * self.clip / mu, sums.shape)
        self.paid += mu**2
        return models + sums / np.maximum(member.sum(axis=0), 1)[:, None]

    def alone(self) -> FloatArray:
        """Each client's own model, from its own examples."""
        return low_budget.trained_alone(self.model, self.train)

    def chosen(self, models: FloatArray) -> FloatArray:
        """For each client the model (n, d) of least loss."""
        return models[self.model.losses(models, self.train).argmin(axis=1)]


def _one(on: Track, planner: Callable[..., Any]) -> FloatArray:
    federation, done = on.run(planner)
    if done.plan.algorithm is sums_only.FEDPER:
        return rr.personal_models(federation, done)
    if done.plan.algorithm is not FRESH:
        return done.models
    start = repeat(done.models, on.n, axis=0)  # each head is trained once, on the last model
    out = on.model.train(start, on.train, n_steps=5, learning_rate=0.3)
    out[:, on.model.shared] = start[:, on.model.shared]
    return out


def _identified(on: Track, clusterer: str) -> FloatArray:
    how: dict[str, Any] = {"clusterer": clusterer, "min_size": on.entry.B, "reseed": on.reseed}
    if clusterer == "fesem":
        how["initial"] = algorithm.close_models(on.model, on.k, rng=on.rng)
    done = on.run(plan_identified, "trusted", n_clusters=on.k, k=on.k, **how)[1]
    p, r = right_share(done.plan.dial, on.k)
    on.moved, on.counts_std = float(np.mean(done.moved)), math.sqrt(on.cohort * r * (1 - r))
    on.counts_std /= p - r
    return done.models


def _grouped_first(on: Track, sketches: bool) -> FloatArray:
    """Clients are grouped by what they release before the first round, then sums only.

    Each trains a common model, and releases its noised update. `sketches`: in 8 public random
    directions; k-means of them gives groups for one round. That is after the idea of PINA (arXiv
    2604.20596), of which we have the abstract alone: its low-rank adapters and normality-driven
    aggregation are not rebuilt. Else: all of it. A Gaussian mixture of two principal components
    groups softly, for up to half of the rounds, the more the surer it is; after R-DPCFL (TMLR
    2025), which does that for the guarantee of one record, where local noise is far less.
    """
    k, (part, step), one = on.k, on.shares(), on.problem.initial(on.model, 1)
    shown = on.updates(repeat(one, on.n, axis=0), WORK) / on.clip
    if sketches:
        shown = shown @ np.linalg.qr(on.rng.standard_normal((shown.shape[1], SKETCH)))[0]
    shown += on.rng.normal(0, 2 / part, shown.shape)
    if sketches:
        centres = kmeans.weighted_kmeans(shown, None, k, rng=on.rng, n_init=5)
        likely = np.eye(k)[((shown[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)]
        first, models = 1, repeat(one, k, axis=0)
    else:
        shown -= shown.mean(axis=0)
        plane = shown @ np.linalg.svd(shown, full_matrices=False)[2][:2].T
        mixture = GaussianMixture(k, random_state=int(on.rng.integers(2**31))).fit(plane)
        likely, models = mixture.predict_proba(plane), on.problem.initial(on.model, k)
        first = int((likely.max(axis=1).mean() * k - 1) / (k - 1) * on.rounds / 2)
    for _ in range(first):
        drawn = (likely.cumsum(axis=1) < on.rng.random((on.n, 1))).sum(axis=1)
        models = on.grouped(models, np.minimum(drawn, k - 1), step)
    return on.sums(n_rounds=on.rounds - first, sigma=1 / step, initial=models)


def _mixed(on: Track) -> FloatArray:
    """A client mixes its own model into the one it chose: post-processing, seen by nobody else."""
    return MIXED * on.alone() + (1 - MIXED) * on.chosen(on.sums())


METHODS: Mapping[str, Callable[[Track], FloatArray]] = {
    "alone": Track.alone,
    "fedavg": partial(_one, planner=rr.plan_dp_fedavg),
    "fedper": partial(_one, planner=rr.plan_dp_fedper),
    "fedper_fresh": partial(_one, planner=plan_fresh),
    "rr_ifca": partial(_identified, clusterer="ifca"),
    "fesem": partial(_identified, clusterer="fesem"),
    "sums_ifca": Track.sums,
    "sketched_start": partial(_grouped_first, sketches=True),
    "mixture_start": partial(_grouped_first, sketches=False),
    "sums_work": partial(Track.sums, n_steps=WORK),
    "sums_mixed": _mixed,
}
"""Name -> models (k, d), or one for each client (n, d)."""
TUNED_AS = {"sums_mixed": "sums_ifca", "sketched_start": "sums_ifca", "mixture_start": "sums_ifca"}


def raced(cell: bench.Cell, *, clients: Clients, entry: Entry, k: int, clip: float) -> Any:
    """Accuracy, and what a reader asks about it; `rule` is 1 where the public rule re-seeds."""
    on = Track(clients, entry, k, clip)
    models = METHODS[entry.method](on)
    own = models if len(models) == on.n else on.chosen(models)
    return {
        "accuracy": float(on.model.accuracy(own, on.test).mean()), "moved": on.moved,
        "sigma": on.sigma, "spent": on.spent,
        "rule": float(rule_reseeds(on.counts_std, on.cohort / k)),
    }  # fmt: skip


# --- which cells ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RaceDesign(bench.Design):
    """How large the tables are made."""

    data: str = "fashion_dct"
    seeds: int = 4
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 8.0)
    delta: float = 1e-5
    low: tuple[float, ...] = (0.5, 1.0)  # of the rows at delta 1/M, the paper's
    clips: tuple[float, ...] = (0.001, 0.003, 0.01, 0.1, 0.3, 1.0)
    sizes: tuple[int, ...] = (4, 8, 12)
    k: int = 4


FULL = RaceDesign()
QUICK = RaceDesign(data="digits_dct", epsilons=(1.0,), low=(), clips=(0.3, 1.0), sizes=(4,), runs=2)


def entries(design: RaceDesign) -> list[Entry]:
    """All entries: at the paper's delta those that others were compared with."""
    out, last, both = [], design.sizes[-1], ("off", "on")
    for e in design.epsilons:
        at = (e, design.delta)
        out += [Entry(name, "everyone", "none", 0, *at) for name in ("fedavg", "fedper")]
        out += [Entry("fedper_fresh", "sampled", "none", 0, *at)]
        for reseed in both:
            sizes = design.sizes if (e, reseed) == (design.epsilons[-1], "off") else (last,)
            out += [Entry("rr_ifca", "sampled", reseed, b, *at) for b in sizes]
            out += [Entry(m, "everyone", reseed, last, *at) for m in ("rr_ifca", "fesem")]
            out += [Entry("sums_ifca", "sampled", reseed, 0, *at)]
            out += [Entry(m, "everyone", reseed, 0, *at) for m in list(METHODS)[6:]]
    for e, method in product(design.low, ("sums_ifca", *list(METHODS)[9:])):
        out.append(Entry(method, "everyone", "on", 0, e, 1e-3))
    return [Entry("alone", "nobody", "none", 0, 0.0, 0.0), *out]


def _tuned_as(entry: Entry) -> tuple[str, str, float]:
    """What the entry shares its clip with."""
    return TUNED_AS.get(entry.method, entry.method), entry.who, entry.epsilon


def _clips(design: RaceDesign) -> Iterator[bench.Settings]:
    """Of entries that share a clip the last, re-seeded, on a partition of its own."""
    first = [e for e in entries(design) if e.delta == design.delta and e.method not in TUNED_AS]
    last = {_tuned_as(e): e for e in first}
    clients = Clients(design.data, "balanced", low_budget.TUNING_SEED)
    for entry, clip in product(last.values(), design.clips):
        yield {"clients": clients, "entry": entry, "k": design.k, "clip": clip}


def _race(design: RaceDesign) -> Iterator[bench.Settings]:
    clips = tuned_clips("rr_race_clips")
    for seed, entry in product(range(design.at_most(design.seeds)), entries(design)):
        clients = Clients(design.data, "balanced", seed)
        clip = clips.get(_tuned_as(entry), design.clips[-1])
        yield {"clients": clients, "entry": entry, "k": design.k, "clip": clip}


def _half(values: pd.Series) -> float:
    return math.nan if values.isna().any() else bench.ci95(values)  # alone, beside itself


def _gains(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """With the gains on the same clients over each client alone, and over sums only with everybody:
    with the same re-seeding, or re-seeded where the method has one model."""
    alone = frame[frame["method"] == "alone"].set_index("seed")["accuracy"]
    same = ["seed", "epsilon", "delta", "reseed"]
    sums = frame[(frame["method"] == "sums_ifca") & (frame["who"] == "everyone")]
    at = pd.MultiIndex.from_frame(frame[same].replace({"reseed": {"none": "on"}}))
    rival = sums.set_index(same)["accuracy"].reindex(at).to_numpy()
    frame = frame.assign(gain=frame["accuracy"] - frame["seed"].map(alone))
    frame = frame.assign(over=frame["accuracy"] - rival)
    means: dict[str, Any] = {n: (n, "mean") for n in ("moved", "sigma", "spent", "rule")}
    for name, number in (("acc", "accuracy"), ("gain", "gain"), ("over_sums", "over")):
        means |= {f"{name}_mean": (number, "mean"), f"{name}_ci95": (number, _half)}
    return bench.grouped(frame, [*Entry._fields, "clip"], **means)


TABLES = bench.tables_of(
    FULL, QUICK,
    bench.Table(
        "rr_race_clips", _clips, raced, "method,who,epsilon,clip,seeds,acc_mean,chosen",
        finish=partial(best_clips, keys=["method", "who", "epsilon"]), whole=("chosen",),
    ),
    bench.Table(
        "rr_race", _race, raced,
        "method,who,reseed,B,epsilon,delta,clip,seeds,acc_mean,acc_ci95,gain_mean,gain_ci95,"
        "over_sums_mean,over_sums_ci95,moved,sigma,spent,rule",
        finish=_gains, whole=("gain_mean", "gain_ci95", "over_sums_mean", "over_sums_ci95"),
    ),
)  # fmt: skip
"""In the order in which they are made."""
