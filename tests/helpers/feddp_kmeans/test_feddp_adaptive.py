"""The adaptive variant: public choices. (Totals, wire, neighbours: with the others.)"""

import numpy as np
import pytest
from feddp_cases import plan_of

from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.feddp_kmeans.adaptive import shrunk_step
from fedclust_helpers.federation import ClientData, simulate
from studies.paper_data import make_server_mixture

pytestmark = pytest.mark.slow

COUNTS = {"n_records": 20_000, "rows_per_client": 50}  # the design of `phones` is public


def federation(data, unit):
    """Secure mode: the totals of discrete noise are quick to find."""
    ledger = PrivacyLedger(unit=unit)
    rows = ClientData(*data.clients())
    return simulate(rows, "ideal", bound=data.radius, domain="ball", ledger=ledger, mode="secure")


def plan(data, unit, **options):
    options = {"n_clusters": 10, "counts": COUNTS} | options
    return plan_of("auto", federation(data, unit), data.server_points, **options)


@pytest.fixture(scope="module")
def phones():
    """400 clients of 50 rows: small, and the first step of FedDP-Init drowns in its noise."""
    return make_server_mixture(n_clients=400, rows_per_client=50, rng=np.random.default_rng(0))


def test_a_step_within_its_noise_is_not_taken_and_a_clear_one_is():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 5.0, size=(400, 50))
    shrunk = shrunk_step(noise, np.full(400, 100.0), std=5.0, floor=1.0)
    raw = noise / 100
    assert (shrunk**2).sum() < 0.05 * (raw**2).sum()  # pure noise: nearly nothing is left
    signal = np.full((3, 50), 500.0)
    kept = shrunk_step(signal, np.full(3, 100.0), std=5.0, floor=1.0)
    np.testing.assert_allclose(kept, 5.0, rtol=1e-3)


def test_it_spends_on_the_first_step_only_where_that_can_work(phones):
    branches = make_server_mixture(n_clients=20, rows_per_client=1000, rng=np.random.default_rng(1))
    assert plan(phones, "client", epsilon=1.0, n_rounds=1).dial.initial == "server"
    assert plan(branches, "point", epsilon=0.25, n_rounds=1).dial.initial == "server"
    assert plan(branches, "point", epsilon=20.0, n_rounds=1).dial.initial == "weighted"


@pytest.mark.thorough
def test_it_takes_more_rounds_where_their_noise_is_small(phones):
    few, many = (plan(phones, "client", epsilon=e).n_rounds for e in (0.5, 16.0))
    assert 1 <= few < many <= 6
