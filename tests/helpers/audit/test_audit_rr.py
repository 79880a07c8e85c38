"""Audits of RR-Cluster, its base clusterers and baselines, end to end through whole runs.

One client's data are exchanged (replace-one), or one client joins (add/remove); what a run hands
out is scored. Each release is audited as it is, and broken on purpose: exact identifiers behind
the rebalancing, sums without noise, updates that nobody cut.
"""

import numpy as np
import pytest
from conftest import first_of

from fedclust_helpers import audit
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger, gdp_mu
from fedclust_helpers.client_statistics import models as client_models
from fedclust_helpers.federation import ClientData, Federation, simulate
from fedclust_helpers.federation.ways import Way

pytestmark = pytest.mark.slow

K, D, CLIP, DELTA = 2, 2, 1.0, 1e-5
RUNS = 300  # per world; a deterministic break gives mu >= 4


class Table:
    """A model whose clients do what their one row says: (loss of each model, update)."""

    n_parameters = D
    shared = slice(0, D - 1)

    def initial(self, n_clusters, *, rng):
        return np.zeros((n_clusters, D))

    def losses(self, models, batch, *, offset=None):
        return batch.features[:, 0, :K]

    def outputs(self, models, batch):
        return np.zeros((len(batch.features), 1, 1))

    def train(self, starts, batch, *, n_steps, learning_rate, proximal=0.0, offset=None):
        return starts + batch.features[:, 0, K : K + D]

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
    return simulate(clients, trust, bound=30.0, ledger=ledger, **source, **public, **options)


TRAINING = rr.Training(Table(), cohort=6, clip=CLIP, n_steps=1, learning_rate=1.0)


def planned(f, **options):
    how = {
        "n_clusters": K, "n_rounds": 1, "sigma": 1.0, "delta": DELTA, "min_size": 2,
        "rebalance": "strict", "initial": np.zeros((K, D)),
    } | options  # fmt: skip
    return rr.plan(f, TRAINING, **how)


def outputs(canary, *, seed, n_runs=RUNS, of=None, trust="trusted", adjacency="replace-one", **how):
    """What `n_runs` runs of one plan hand out: a list of results."""
    f = federation(canary, trust, adjacency=adjacency, seed=seed)
    made = planned(f, **how) if of is None else of(f)
    return made, [rr.run(f, made) for _ in range(n_runs)]


def worlds(score, canaries, **how):
    """The plan, and the scores of its runs in the two worlds."""
    out = []
    for number, canary in enumerate(canaries):
        made, results = outputs(canary, seed=10 + number, **how)
        out.append(np.array([score(r) for r in results]))
    return made, *out


def judged(made, without, with_, mu):
    # 99.9 % each: at most 1e-3 false alarms of mu, seeded
    return audit.audit_canary(
        without, with_, confidence=0.999, delta=DELTA, claimed_mu=mu, claimed_epsilon=made.epsilon,
        smallest=0.05,
    )  # fmt: skip


# --- identifiers and rebalancing ------------------------------------------------------------------

MOVES = row(0, (0, 0)), row(1, (0, 0))  # the canary changes its model, not its update


def sees_sizes(result):
    return float(result.sizes[0, 0])


# the rules with one way to privatise, and the ways with one rule: they do not know of each other
RULES = pytest.mark.parametrize(("rule", "identifiers"), first_of([
    ("strict", "corrected"), ("literal", "corrected"), ("off", "corrected"),
    ("strict", "exponential"), ("strict", "krr"),
]))  # fmt: skip


@RULES
def test_sizes_after_rebalancing_tell_no_more_than_the_plan(rule, identifiers):
    how = {"sigma": 1.0} if identifiers == "corrected" else {"sigma": None, "epsilon": 2.0}
    made, *scores = worlds(sees_sizes, MOVES, rebalance=rule, identifiers=identifiers, **how)
    result = judged(made, *scores, mu=1.0 if identifiers == "corrected" else None)
    assert result.passed, str(result)


def by_exact_identifiers(monkeypatch):
    """Rebalancing sees the exact identifiers; the released ones are right."""
    seen, rebalance = watched(monkeypatch), rr.rebalancing.rebalance
    monkeypatch.setattr(
        rr.rebalancing,
        "rebalance",
        lambda clusters, *args, **how: rebalance(seen.get("exact", clusters), *args, **how),
    )


def watched(monkeypatch):
    """What the trusted server is sent, in a dictionary that nobody should have."""
    seen, collect = {}, Federation.collect

    def watching(*args, **how):
        sent = collect(*args, **how)
        seen["exact"] = sent[0].argmax(axis=1)
        return sent

    monkeypatch.setattr(Federation, "collect", watching)
    return seen


@RULES
def test_rebalancing_by_exact_identifiers_is_caught(monkeypatch, rule, identifiers):
    by_exact_identifiers(monkeypatch)
    how = {"sigma": 1.0} if identifiers == "corrected" else {"sigma": None, "epsilon": 2.0}
    made, *scores = worlds(sees_sizes, MOVES, rebalance=rule, identifiers=identifiers, **how)
    result = judged(made, *scores, mu=1.0 if identifiers == "corrected" else None)
    assert result.verdict == "FAILED", str(result)


# --- noise and clip of the sums -------------------------------------------------------------------

CLUSTERERS = ["ifca", "fesem", "fedcam"]
LOUD = row(0, (20.0, 0)), row(0, (-20.0, 0))  # far longer than the clip


def along(result):
    """Where the canary's update goes, undone by the public size of its cluster."""
    return float(result.sizes[0] @ result.models[:, 0])


def along_common(result):
    return float(result.common[0])


# noise so large that the identifiers' part of mu is next to nothing: mu of the sums is nearly all
MOSTLY_SUMS = {"identifier_share": 0.02, "rebalance": "off"}


def mu_of_sums(made):
    """Of one client, in all sums of a round."""
    return made.mechanisms[0][1].gdp_mu


@pytest.mark.parametrize("clusterer", first_of(CLUSTERERS))
def test_updates_tell_no_more_than_the_plan(clusterer):
    score = along_common if clusterer == "fedcam" else along
    made, *scores = worlds(score, LOUD, clusterer=clusterer, n_runs=800, **MOSTLY_SUMS)
    result = judged(made, *scores, mu=mu_of_sums(made))
    assert result.passed, str(result)
    assert result.mu_lower_bound > 0.2  # the attack is real: the canary is not invisible


@pytest.mark.parametrize("clusterer", first_of(CLUSTERERS))
def test_updates_that_nobody_cuts_are_caught(monkeypatch, clusterer):
    monkeypatch.setattr(client_models, "clip_clients", lambda updates, clip: updates)
    score = along_common if clusterer == "fedcam" else along
    made, *scores = worlds(score, LOUD, clusterer=clusterer, **MOSTLY_SUMS)
    result = judged(made, *scores, mu=mu_of_sums(made))
    assert result.mu_alarm, str(result)


@pytest.mark.parametrize("clusterer", first_of(CLUSTERERS))
def test_sums_with_too_little_noise_are_caught(monkeypatch, clusterer):
    noised = Way.noised

    def less(self, total, mechanism):
        return total + 0.3 * (noised(self, total, mechanism) - total)

    monkeypatch.setattr(Way, "noised", less)
    score = along_common if clusterer == "fedcam" else along
    made, *scores = worlds(score, LOUD, clusterer=clusterer, **MOSTLY_SUMS)
    assert judged(made, *scores, mu=mu_of_sums(made)).mu_alarm


def test_fedcams_two_sums_do_not_share_their_noise(monkeypatch):
    """All sums of a run, common one included, against the noise that the plan states."""

    def release(seed):
        canary = row(0, (0.5, 0))
        made, results = outputs(canary, seed=seed, clusterer="fedcam", n_runs=500, **MOSTLY_SUMS)
        rows = np.array([canary, *OTHERS])[:, K : K + D]
        noise = np.array([
            [*(r.sizes[0] @ r.models), *(6 * r.common)] for r in results
        ])  # fmt: skip
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
    noised = Way.noised

    def shared(self, total, mechanism):
        out = noised(self, total, mechanism)
        if total.shape == (K + 1, D):  # sums: the last one, of the common model, with their noise
            out[K] = total[K] + (out - total)[:K].sum(axis=0) / np.sqrt(K)
        return out

    monkeypatch.setattr(Way, "noised", shared)
    noise, _, std = release(3)
    bad = audit.audit_noise_scale(
        lambda rng, n: noise, noise.mean(axis=0), std, n_runs=500, rng=np.random.default_rng(1)
    )
    assert bad.correlated


# --- secure mode ----------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [False, True])
def test_rr_cluster_in_secure_mode(monkeypatch, broken):
    # at most 1e-3 false alarms
    if broken:
        by_exact_identifiers(monkeypatch)
    scores = []
    for canary in MOVES:
        made, results = outputs(canary, seed=None, rebalance="off", sigma=3.0)
        scores.append(np.array([sees_sizes(r) for r in results]))
    result = judged(made, *scores, mu=None)
    assert result.verdict == ("FAILED" if broken else "passed"), str(result)


# --- sums only, DP-FedPer -------------------------------------------------------------------------


def of_sums(f):
    return rr.plan_sums_only(
        f, TRAINING, n_clusters=K, n_rounds=1, sigma=1.0, delta=DELTA, min_size=1, reseed=False
    )


def of_fedper(f):
    return rr.plan_dp_fedper(f, TRAINING, n_rounds=1, sigma=1.0, delta=DELTA)


def along_first(result):
    """What was released of the first number, undone by the divisor."""
    counts = result.sizes[0, 0] if result.sizes.size else 1.0
    return float(result.models[0, 0] * max(counts, 1.0))


@pytest.mark.parametrize(
    ("of", "trust", "secure"),
    first_of([(of_sums, "masked", True), (of_fedper, "ideal", False),
              (of_sums, "ideal", False), (of_fedper, "masked", True)]),
)  # fmt: skip
@pytest.mark.parametrize("uncut", [False, True])
def test_noised_sums_of_updates(monkeypatch, of, trust, secure, uncut):
    if uncut:
        monkeypatch.setattr(client_models, "clip_clients", lambda updates, clip: updates)
    scores = []
    for number, canary in enumerate(LOUD):
        made, results = outputs(
            canary, seed=None if secure else 20 + number, of=of, trust=trust, n_runs=300
        )
        scores.append(np.array([along_first(r) for r in results]))
    result = judged(made, *scores, mu=1.0)
    assert result.mu_alarm == uncut, str(result)
    assert result.passed == (not uncut)


@pytest.mark.parametrize("uncut", [False, True])
def test_a_client_that_joins(monkeypatch, uncut):
    if uncut:
        monkeypatch.setattr(client_models, "clip_clients", lambda updates, clip: updates)
    made, *scores = worlds(
        along_first, (None, LOUD[0]), of=of_sums, trust="ideal", adjacency="add/remove"
    )
    assert judged(made, *scores, mu=1.0).mu_alarm == uncut


def along_all_rounds(result):
    """What all rounds together released of the first number, undone by the divisors."""
    moved = np.diff(result.history[:, 0, 0])
    return float(moved @ np.maximum(result.sizes[:, 0], 1.0))


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("adjacency", first_of(["replace-one", "add/remove"]))
def test_everybody_in_every_round_costs_what_the_exact_curve_says(adjacency, halved):
    """A whole run of four rounds, its canary loud in each: mu of (epsilon, delta) and no more."""
    others = LOUD if adjacency == "replace-one" else (None, LOUD[0])
    scores = []
    for number, canary in enumerate(others):
        f = federation(canary, "ideal", adjacency=adjacency, seed=40 + number)
        how = {"n_clusters": K, "n_rounds": 4, "delta": DELTA, "reseed": False}
        made = rr.plan_sums_only(f, TRAINING, epsilon=8.0, **how)
        if halved:  # noise for C, sold under a relation in which 2C moves
            made = rr.plan_sums_only(f, TRAINING, sigma=made.dial.sigma / 2, **how)
        runs = [rr.run(f, made) for _ in range(RUNS)]
        scores.append(np.array([along_all_rounds(r) for r in runs]))
    claimed = gdp_mu(8.0, DELTA)
    # 99.9 % each: at most 1e-3 false alarms of mu, seeded
    found = audit.audit_canary(
        *scores, confidence=0.999, delta=DELTA, claimed_mu=claimed, smallest=0.05
    )
    assert found.mu_alarm == halved, str(found)
    assert found.mu_lower_bound > 0.3 * claimed  # the attack is real
