"""Audits of RR-Cluster, its base clusterers and baselines, end to end through whole runs.

One client's data are exchanged (replace-one), or one client joins (add/remove); what a run hands
out is scored. `CASES` is one table of what runs, what is scored, and how it may be broken: each
row is audited as it is and once for each break.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from rr_cases import Table

from fedclust_helpers import audit
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger, gdp_mu
from fedclust_helpers.client_statistics import models as client_models
from fedclust_helpers.federation import ClientData, Federation, simulate
from fedclust_helpers.federation.aggregation import Aggregation

pytestmark = pytest.mark.slow

K, D, CLIP, DELTA = 2, 2, 1.0, 1e-5
RUNS = 300  # per world; a deterministic break gives mu >= 4


class Chosen(Table):
    """That begins at zero, and whose outputs FedCAM can add."""

    def initial(self, n_clusters, *, rng):
        return np.zeros((n_clusters, D))

    def losses(self, models, batch, *, offset=None):
        return super().losses(models, batch)

    def outputs(self, models, batch):
        return np.zeros((len(batch.features), 1, 1))

    def accuracy(self, models, batch, *, offset=None):
        return np.zeros(len(batch.features))


def row(block, update):
    """One client: the model it chooses, and its update."""
    return [*(0.0 if j == block else 1.0 for j in range(K)), *update, 0.0]


# clients choose 0, 0, 1, 1, 1 without the canary, who comes first
OTHERS = [row(0, (0.2, 0)), row(0, (0, 0.2)), row(1, (0, 0)), row(1, (0.1, 0)), row(1, (0, 0))]


def federation(canary, trust="trusted", *, adjacency="replace-one", seed=1, **options):
    rows = np.array([canary, *OTHERS] if canary is not None else OTHERS, dtype=float)
    clients = ClientData(rows, np.arange(len(rows) + 1))
    ledger = PrivacyLedger(unit="client", adjacency=adjacency)
    source = {"mode": "secure"} if seed is None else {"seed": seed}
    public = {"n_clients": 6, "n_records": 6} if trust != "trusted" else {}
    options |= {"noise_from": "server"} if trust == "masked" else {}
    return simulate(clients, trust, bound=30.0, ledger=ledger, **source, **public, **options)


TRAINING = rr.Training(Chosen(K, D), cohort=6, clip=CLIP, n_steps=1, learning_rate=1.0)


def planned(f, **options):
    how = {
        "n_clusters": K, "n_rounds": 1, "sigma": 1.0, "delta": DELTA, "min_size": 2,
        "rebalance": "strict", "initial": np.zeros((K, D)),
    } | options  # fmt: skip
    return rr.plan(f, TRAINING, **how)


def outputs(canary, *, seed, n_runs=RUNS, of=planned, trust="trusted", adjacency="replace-one",
            **how):  # fmt: skip
    """A plan, and what `n_runs` runs of it hand out."""
    f = federation(canary, trust, adjacency=adjacency, seed=seed)
    made = of(f, **how)
    return made, [rr.run(f, made) for _ in range(n_runs)]


# --- plans, scores, breaks ------------------------------------------------------------------------


def of_sums(f):
    return rr.plan_sums_only(
        f, TRAINING, n_clusters=K, n_rounds=1, sigma=1.0, delta=DELTA, min_size=1, reseed=False
    )


def of_fedper(f):
    return rr.plan_dp_fedper(f, TRAINING, n_rounds=1, sigma=1.0, delta=DELTA)


def of_rounds(f, share=1.0):
    """A whole run of four rounds with everybody, its canary loud in each."""
    how = {"n_clusters": K, "n_rounds": 4, "delta": DELTA, "reseed": False}
    made = rr.plan_sums_only(f, TRAINING, epsilon=8.0, **how)
    return rr.plan_sums_only(f, TRAINING, sigma=share * made.dial.sigma, **how)


def sees_sizes(result):
    return float(result.sizes[0, 0])


def along(result):
    """Where the canary's update goes, undone by the public size of its cluster."""
    return float(result.sizes[0] @ result.models[:, 0])


def along_common(result):
    return float(result.common[0])


def along_all_rounds(result):
    """What all rounds together released of the first number, undone by the divisors."""
    moved = np.diff(result.history[:, 0, 0])
    counts = result.sizes[:, 0] if result.sizes.size else 1.0
    return float(np.sum(moved * np.maximum(counts, 1.0)))


def mu_of_sums(made):
    """Of one client, in all sums of a round."""
    return made.mechanisms[0][1].gdp_mu


def exact_identifiers(monkeypatch, how):
    """Rebalancing sees the exact identifiers; the released ones are right."""
    seen, rebalance, collect = {}, rr.rebalancing.rebalance, Federation.collect

    def watching(*args, **how):
        sent = collect(*args, **how)
        seen["exact"] = sent[0].argmax(axis=1)
        return sent

    monkeypatch.setattr(Federation, "collect", watching)
    monkeypatch.setattr(rr.rebalancing, "rebalance", lambda clusters, *args, **how: (
        rebalance(seen.get("exact", clusters), *args, **how)))  # fmt: skip


def uncut(monkeypatch, how):
    monkeypatch.setattr(client_models, "clip_clients", lambda updates, clip: updates)


def less_noise(monkeypatch, how):
    noised = Aggregation.noised
    monkeypatch.setattr(Aggregation, "noised", lambda self, total, mechanism: (
        total + 0.3 * (noised(self, total, mechanism) - total)))  # fmt: skip


def noise_for_c(monkeypatch, how):
    """Noise for C, sold under a relation in which 2C moves."""
    how["share"] = 0.5


# --- the table ------------------------------------------------------------------------------------

MOVES = row(0, (0, 0)), row(1, (0, 0))  # the canary changes its model, not its update
LOUD = row(0, (20.0, 0)), row(0, (-20.0, 0))  # far longer than the clip
JOINS = None, LOUD[0]
# noise so large that the identifiers' part of mu is next to nothing: mu of the sums is nearly all
MOSTLY_SUMS = {"identifier_share": 0.02, "rebalance": "off"}
SECURE = {"seed": None}


class Case(NamedTuple):
    """Canaries, what is scored, how it runs, mu that is claimed, breaks, and mu that is seen."""

    canaries: Any
    score: Callable[..., float]
    how: dict[str, Any]
    mu: Any
    breaks: tuple[Callable[..., None], ...]
    real: float = 0.0  # the attack is no blind one


def sizes(rule, identifiers):
    """After rebalancing."""
    noise = {"sigma": 1.0} if identifiers == "corrected" else {"sigma": None, "epsilon": 2.0}
    how = {"rebalance": rule, "identifiers": identifiers} | noise
    return Case(MOVES, sees_sizes, how, noise["sigma"], (exact_identifiers,))


def updates(clusterer):
    score = along_common if clusterer == "fedcam" else along
    how = {"clusterer": clusterer, "n_runs": 800} | MOSTLY_SUMS
    return Case(LOUD, score, how, mu_of_sums, (uncut, less_noise), 0.2)


def sums(of, trust, **how):
    return Case(LOUD, along_all_rounds, {"of": of, "trust": trust} | how, 1.0, (uncut,))


def rounds(adjacency, canaries):
    how = {"of": of_rounds, "trust": "ideal", "adjacency": adjacency}
    mu = gdp_mu(8.0, DELTA)
    return Case(canaries, along_all_rounds, how, mu, (noise_for_c,), 0.3 * mu)


# the rules with one way to privatise, and the ways with one rule: they do not know of each other
CASES = {
    "sizes": sizes("strict", "corrected"),
    "sizes in secure mode": Case(
        MOVES, sees_sizes, SECURE | {"rebalance": "off", "sigma": 3.0}, None, (exact_identifiers,)),
    "updates of ifca": updates("ifca"),
    "sums under masks": sums(of_sums, "masked", **SECURE),
    "a client joins": Case(
        JOINS, along_all_rounds, {"of": of_sums, "trust": "ideal", "adjacency": "add/remove"}, 1.0,
        (uncut,)),
    "four rounds": rounds("replace-one", LOUD),
}  # fmt: skip
MORE = {
    **{f"sizes, {rule}, {way}": sizes(rule, way) for rule, way in (
        ("literal", "corrected"), ("off", "corrected"), ("strict", "exponential"),
        ("strict", "krr"))},
    **{f"updates of {clusterer}": updates(clusterer) for clusterer in ("fesem", "fedcam")},
    "one shared sum": sums(of_fedper, "ideal"), "sums": sums(of_sums, "ideal"),
    "one shared sum under masks": sums(of_fedper, "masked", **SECURE),
    "four rounds, a client joins": rounds("add/remove", JOINS),
}  # fmt: skip
EACH = [
    pytest.param(case, broken, id=f"{name}{'' if broken is None else ', ' + broken.__name__}",
                 marks=[pytest.mark.thorough] * (name in MORE))
    for name, case in (CASES | MORE).items() for broken in (None, *case.breaks)
]  # fmt: skip


@pytest.mark.parametrize(("case", "broken"), EACH)
def test_runs_tell_no_more_than_the_plan_and_broken_ones_are_caught(monkeypatch, case, broken):
    """99.9 % each: at most 1e-3 false alarms of mu; seeded but for secure mode."""
    how, scores = {"seed": 10} | case.how, []
    if broken is not None:
        broken(monkeypatch, how)
    for number, canary in enumerate(case.canaries):
        seed = None if how["seed"] is None else how["seed"] + number
        made, results = outputs(canary, **how | {"seed": seed})
        scores.append(np.array([case.score(r) for r in results]))
    result = audit.audit_canary(
        *scores, confidence=0.999, delta=DELTA, claimed_epsilon=made.epsilon, smallest=0.05,
        claimed_mu=case.mu(made) if callable(case.mu) else case.mu,
    )  # fmt: skip
    if broken is None:
        assert result.passed and result.mu_lower_bound >= case.real, str(result)
    else:
        assert result.verdict == "FAILED", str(result)


def test_fedcams_two_sums_do_not_share_their_noise(monkeypatch):
    """All sums of a run, common one included, against the noise that the plan states."""

    def release(seed):
        canary = row(0, (0.5, 0))
        made, results = outputs(canary, seed=seed, clusterer="fedcam", n_runs=500, **MOSTLY_SUMS)
        rows = np.array([canary, *OTHERS])[:, K : K + D]
        noise = np.array([[*(r.sizes[0] @ r.models), *(6 * r.common)] for r in results])
        exact = np.tile(rows.sum(axis=0), 2)
        std = made.mechanisms[0][1].std
        return noise, exact, np.array([np.sqrt(K) * std] * D + [std] * D)

    noise, exact, std = release(3)
    # each update is cut with its twin of the common model, which is as long: the sum is shorter
    exact = noise.mean(axis=0)
    good = audit.audit_noise_scale(
        lambda rng, n: noise, exact, std, n_runs=500, rng=np.random.default_rng(1)
    )
    assert not good.alarm, str(good)
    noised = Aggregation.noised

    def shared(self, total, mechanism):
        out = noised(self, total, mechanism)
        if total.shape == (K + 1, D):  # sums: the last one, of the common model, with their noise
            out[K] = total[K] + (out - total)[:K].sum(axis=0) / np.sqrt(K)
        return out

    monkeypatch.setattr(Aggregation, "noised", shared)
    noise, _, std = release(3)
    bad = audit.audit_noise_scale(
        lambda rng, n: noise, noise.mean(axis=0), std, n_runs=500, rng=np.random.default_rng(1)
    )
    assert bad.correlated
