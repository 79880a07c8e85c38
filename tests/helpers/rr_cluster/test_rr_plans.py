"""Plans of RR-Cluster, sums only and the baselines: how much noise they take."""

import itertools
import math

import numpy as np
import pytest
from algorithms import ALGORITHMS
from conftest import refuses
from rr_cases import clients, federation
from scipy import stats

from fedclust_helpers import accounting as acc
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting.renyi import ORDERS, sampled_rdp
from fedclust_helpers.client_statistics import NEAREST_UPDATES, SHARED_UPDATE
from fedclust_helpers.federation import TrustModelError
from fedclust_helpers.mechanisms import DiscreteGaussian

pytestmark = pytest.mark.slow

M = 60


def trust_of(name):
    """The one with the least trust that samples clients."""
    return ALGORITHMS[name].trusts[-1]


def planned(name, f=None, **changes):
    """Of six rounds, as the table of all algorithms says otherwise."""
    f = federation(trust=trust_of(name)) if f is None else f
    return f, ALGORITHMS[name].plan(f, **{"n_rounds": 6} | changes)


# --- the plan is the statement of the run ---------------------------------------------------------


@pytest.mark.parametrize(
    ("trust", "adjacency", "cohort", "numbers", "words"),
    [
        # the cohorts of fixed size, to the byte: 6 rounds, 15 parameters and 2 counts for 2 models
        ("trusted", "replace-one", 21, 21 * 6 * 2 * 16, "for the releases of all clients drawn"),
        ("trusted", "add/remove", 21, 21 * 6 * 2 * 16, "of all clients drawn (expected)"),
        # one noised sum, whoever is in it
        ("ideal", "add/remove", 21, 6 * 2 * 16, "of noised sums leave the ideal functionality"),
    ],
)
def test_a_plan_counts_the_bytes_of_those_who_are_drawn(trust, adjacency, cohort, numbers, words):
    f = federation(trust=trust, adjacency=adjacency)
    _, made = planned("sums only", f, cohort=cohort)
    wire = dict(made.statement())["wire"]
    assert wire.startswith(f"{8 * numbers:,} bytes ") and wire.endswith(words)
    result = rr.run(f, made)
    if (trust, adjacency) != ("trusted", "add/remove"):
        sent = [m for m in result.transcript.messages if m.receiver == "server"]
        assert made.n_bytes == sum(m.n_bytes * m.count for m in sent)


# --- everyone takes part: the exact curve ---------------------------------------------------------


def test_a_cohort_so_large_that_nothing_is_gained_is_charged_exactly():
    _, most = planned("sums only", cohort=M - 1)
    assert most.dial.accountant == "gdp" and most.releases[0].sampling == acc.Sampling(
        "fixed", size=59, population=60
    )
    assert most.dial.sigma == pytest.approx(math.sqrt(6) / acc.gdp_mu(3.0, 1e-3), rel=1e-9)
    assert most.total_epsilon <= 3.0


# --- memory of earlier rounds: no amplification ---------------------------------------------------


@pytest.mark.parametrize("name", ["fesem", "fedper"])
@pytest.mark.parametrize("mode", ["teaching", "secure"])
def test_what_depends_on_earlier_rounds_is_charged_as_if_everyone_took_part(name, mode):
    assert NEAREST_UPDATES.remembers and SHARED_UPDATE.remembers
    f = federation(trust=trust_of(name), mode=mode)
    _, made = planned(name, f, cohort=6)  # a tenth: others are amplified a lot
    _, stateless = planned("rr" if name == "fesem" else "fedavg", cohort=6)
    _, everyone = planned(name, federation(trust=trust_of(name), mode=mode), cohort=M)
    assert made.dial.sigma == everyone.dial.sigma > 2 * stateless.dial.sigma
    assert made.releases[0].sampling is not None and "not counted" in str(made)
    result = rr.run(f, made)
    assert all(line.sampling is None for line in f.ledger.releases)
    assert 2.9 < result.epsilon <= 3.0
    drawn = [m for m in f.transcript.messages if m.sender == "clients"]
    assert all(m.count == 6 for m in drawn)  # the cohort is drawn all the same


def test_clients_that_remember_are_amplified_by_poisson_sampling():
    """Two rounds, two clients that send by their state: exact, never above clients without one."""
    f = federation(trust="ideal", adjacency="add/remove")
    made, stateless = (planned(name, f, cohort=6)[1] for name in ("fedper", "fedavg"))
    assert made.dial == stateless.dial and "not counted" not in str(made)
    q, grid, coins = 0.3, np.linspace(-8, 8, 161), list(itertools.product((0, 1), repeat=4))

    def density(mean):
        return stats.norm.pdf(grid, mean) * (grid[1] - grid[0])

    def joint(own, other):  # (first round, second if drawn before, second if not) of each
        out = 0.0
        for a, b, a2, b2 in coins:
            weight = np.prod(np.where((a, b, a2, b2), q, 1 - q))
            first = a * own[0] + b * other[0]
            second = a2 * own[2 - a] + b2 * other[2 - b]
            out = out + weight * np.outer(density(first), density(second))
        return out

    one, none = (1 - q) * density(0) + q * density(1), density(0)
    worst = np.outer(one, one), np.outer(none, none)
    for own in itertools.product((-1, 1), repeat=3):
        for other in ((1, -1, 1), (1, 1, -1), (-1, 1, 0)):
            pair = joint(own, other), joint((0, 0, 0), other)
            for e in np.exp((0.1, 0.5, 1.0)):
                for i in (0, 1):
                    delta, most = (np.maximum(p[i] - e * p[1 - i], 0).sum() for p in (pair, worst))
                    assert delta <= most + 1e-9


def test_fesem_from_sums_alone_is_amplified_under_add_remove_only():
    dials, results = {}, {}
    for adjacency in ("add/remove", "replace-one"):
        f = federation(trust="ideal", adjacency=adjacency)
        made = {c: planned("sums only", f, cohort=12, clusterer=c)[1] for c in ("ifca", "fesem")}
        dials[adjacency] = {c: plan.dial for c, plan in made.items()}
        results[adjacency] = rr.run(f, made["fesem"])
        assert results[adjacency].epsilon <= 3.0
    assert dials["add/remove"]["fesem"] == dials["add/remove"]["ifca"]
    exact = math.sqrt(6) / acc.gdp_mu(3.0, made["fesem"].delta)
    assert dials["replace-one"]["fesem"].sigma == pytest.approx(exact, rel=1e-6)


def test_without_noise_fesem_from_sums_is_the_same_as_from_single_updates():
    """Everybody takes part, nobody is re-seeded: the same coins, the same means of members."""
    one, other = (federation(trust=t) for t in ("trusted", "ideal"))
    how = {"epsilon": math.inf, "cohort": M, "clusterer": "fesem"}
    from_updates = planned("rr", one, identifiers="exact", rebalance="off", **how)[1]
    sums = planned("sums only", other, reseed=False, min_size=1, **how)[1]
    assert np.allclose(rr.run(one, from_updates).models, rr.run(other, sums).models)


# --- secure mode ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "scheme"), [("replace-one", "fixed"),
                                                   ("add/remove", "poisson")])  # fmt: skip
@pytest.mark.parametrize("name", ["sums only", "fedavg", "fedprox"])
def test_secure_cohorts_cost_what_seeded_ones_cost(name, adjacency, scheme):
    """Fine discrete noise is charged as the Gaussian it is close to, never above any theorem."""
    f = federation(trust="ideal", adjacency=adjacency, mode="secure")
    _, made = planned(name, f, cohort=6)
    (mechanism,) = made.mechanisms[0]
    assert isinstance(mechanism, DiscreteGaussian)
    _, seeded = planned(name, federation(trust="ideal", adjacency=adjacency), cohort=6)
    assert made.dial.accountant == seeded.dial.accountant
    assert seeded.dial.sigma < made.dial.sigma < seeded.dial.sigma * (1 + 1e-4)
    # the theorem for any mechanism, written out: T rounds at the best order
    rho = mechanism.sensitivity**2 / (2 * mechanism.scale**2)
    rdp = 6 * np.array(sampled_rdp(scheme, rho, 0.1, ORDERS))
    a = np.array(ORDERS, dtype=float)
    bound = (rdp + np.log1p(-1 / a) - np.log(1e-3 * a) / (a - 1)).min()
    assert 2.9 < made.total_epsilon <= 3.0 and made.total_epsilon <= bound * (1 + 1e-5)
    again = federation(trust="ideal", adjacency=adjacency, mode="secure")
    _, everyone = planned(name, again, cohort=M)
    assert made.dial.sigma < 0.8 * everyone.dial.sigma  # amplified
    assert rr.run(f, made).private


@pytest.mark.parametrize("clusterer", ["ifca", "fesem", "fedcam"])
def test_identifiers_and_sums_are_noised_in_whole_steps(clusterer):
    f = federation(trust="trusted", mode="secure", keep_payloads=True)
    _, made = planned("rr", f, clusterer=clusterer)
    assert all(isinstance(m, DiscreteGaussian) for m in made.mechanisms[0])
    result, seen = rr.diagnose(f, made)
    sent = [m for m in f.transcript.messages if m.receiver == "server"]
    assert {m.payload.dtype for m in sent} == {np.dtype(np.int64)}
    assert result.private and np.isfinite(result.models).all()
    assert (seen.flip_rate > 0).any()
    # noise on a grid far below 1: the argmax has no ties to break
    assert made.mechanisms[0][0].grid < 2**-20


# --- who may see what -----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["masked", "serverless"])
@pytest.mark.parametrize("name", ["sums only", "fedavg", "fedper"])
def test_where_clients_unmask_everyone_takes_part(trust, name):
    f = federation(trust=trust)
    refuses(TrustModelError, "cohort must be all clients", planned, name, f)
    _, made = planned(name, f, cohort=M)
    result = rr.run(f, made)
    assert 2.9 < result.epsilon <= 3.0 and len(f.ledger.releases) == 6


# --- budgets that used to hang --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rr", "sums only", "fedavg"])
@pytest.mark.parametrize("mode", ["teaching", "secure"])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1e3, 1e6])
def test_small_and_large_budgets_are_planned(name, mode, epsilon):
    f = federation(trust=trust_of(name), data=clients(1000, 1)[0], mode=mode, n_records=1000)
    _, made = planned(name, f, epsilon=epsilon, cohort=100, n_rounds=50)
    assert 0.5 * epsilon < made.total_epsilon <= epsilon or epsilon < 1e-2
    assert made.total_epsilon <= epsilon


def test_what_noise_cannot_reach_is_refused_by_its_name():
    f = federation(trust="ideal", mode="secure")
    refuses(
        ValueError, "epsilon must be larger", planned, "sums only", f, epsilon=1e-12, delta=1e-12
    )


def test_the_floor_of_the_divisor_grows_with_the_cohort():
    for cohort, k, floor in ((12, 2, 2), (M, 2, 10), (M, 4, 5), (4, 4, 1)):
        given = {"n_clusters": k, "cohort": cohort, "min_size": None}
        _, plan = planned("sums only", federation(trust="ideal"), **given)
        assert plan.options["min_size"] == floor == max(1, round(0.32 * cohort / k))
