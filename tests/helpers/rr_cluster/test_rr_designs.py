"""Designs compared before any data is touched, against closed forms and against plans."""

import math

import pytest
from rr_cases import MODEL, federation, planned

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.rr_cluster.accounting import calibrate
from studies.rr_cluster.cohorts import compare_designs

pytestmark = pytest.mark.slow

M = 60  # clients of the federation


def rows_of(epsilon=1.0, delta=1e-3, **options):
    """Rows by relation, cohort and rounds."""
    rows = compare_designs(epsilon, delta, **{"n_clients": 1000} | options)
    return {(r.adjacency, r.cohort, r.n_rounds): r for r in rows}


@pytest.mark.parametrize(("epsilon", "delta", "sizes"), [
    (0.5, 1e-3, (1000,)), (1.0, 1e-3, (100, 1000)), (2.0, 1e-5, (1000,)),
])  # fmt: skip
def test_everybody_is_recommended_and_has_the_closed_form(epsilon, delta, sizes):
    """2/mu and 1/(mu sqrt(0.9)), whatever T is; everybody wins under both relations."""
    times, mu = (30, 10) if len(sizes) == 1 else (30,), gdp_mu(epsilon, delta)
    rows = rows_of(epsilon, delta, cohorts=sizes, n_rounds=times)
    for adjacency, noise in (("replace-one", 2 / mu), ("add/remove", 1 / (mu * math.sqrt(0.9)))):
        ours = [r for r in rows.values() if r.adjacency == adjacency]
        everybody = [rows[adjacency, 1000, t] for t in times]
        assert [r.noise for r in everybody] == pytest.approx([noise] * len(times), rel=1e-9)
        sigmas = [math.sqrt(t) / mu for t in times]
        assert [r.sigma for r in everybody] == pytest.approx(sigmas, rel=1e-9)
        # the rounds named first, where noise is the same
        assert [r for r in ours if r.recommended] == everybody[:1]
        assert all(r.noise > 1.2 * noise for r in ours if r.cohort < 1000)


def test_a_sample_is_charged_by_the_accountant_of_cohorts():
    row = rows_of(cohorts=(100,), n_rounds=(50,))["replace-one", 100, 50]
    sigma = calibrate(1.0, 1e-3, n_rounds=50, n_clients=1000, cohort=100, accountant="wor_rdp")
    assert row.sigma == sigma and row.accountant == "wor_rdp" and row.participations == 5.0
    # the note's 12.2, and the only row is the recommended one
    assert (
        row.noise == pytest.approx(2 * sigma * 10 / math.sqrt(50)) == pytest.approx(12.2, rel=0.01)
    )
    assert row.recommended


@pytest.mark.parametrize("adjacency", ["replace-one", "add/remove"])
@pytest.mark.parametrize("cohort", [12, M])
def test_the_prediction_is_the_noise_of_the_plan(adjacency, cohort):
    """Blocks of the plan: noise of a round over its clients of a model, over sqrt(T)."""
    k, rounds, clip = 2, 6, 0.7
    plan = planned(
        rr.plan_sums_only, federation(trust="ideal", adjacency=adjacency), MODEL, n_clusters=k,
        n_rounds=rounds, cohort=cohort, clip=clip, epsilon=2.0, delta=1e-3,
    )  # fmt: skip
    rows = rows_of(2.0, n_clients=M, cohorts=(cohort,), n_rounds=(rounds,))
    row = rows[adjacency, cohort, rounds]
    per_round = plan.mechanisms[0][0].std / (cohort / k)
    assert per_round / math.sqrt(rounds) / (clip * k / M) == pytest.approx(row.noise, rel=1e-9)
    assert plan.dial.sigma == pytest.approx(row.sigma, rel=1e-9)
    assert plan.dial.accountant == row.accountant


def test_the_floor_of_the_divisor_grows_with_the_cohort():
    for cohort, k, floor in ((12, 2, 2), (M, 2, 10), (M, 4, 5), (4, 4, 1)):
        f = federation(trust="ideal")
        plan = planned(rr.plan_sums_only, f, MODEL, n_clusters=k, n_rounds=2, cohort=cohort,
                       clip=1.0, epsilon=2.0, delta=1e-3)  # fmt: skip
        assert plan.options["min_size"] == floor == max(1, round(0.32 * cohort / k))
