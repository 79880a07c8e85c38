"""The adaptive variant: public choices, and that it helps. (Totals, wire: with the others.)"""

import numpy as np
import pytest
from feddp_cases import cost, plan_of

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers import kmeans
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.feddp_kmeans.adaptive import shrunk_step
from fedclust_helpers.federation import ClientData, simulate
from studies.paper_data import make_server_mixture

pytestmark = pytest.mark.slow

COUNTS = {"n_records": 20_000, "rows_per_client": 50}  # the design of `phones` is public


def federation(data, unit, seed=None):
    """Secure mode without a seed: the totals of discrete noise are quick to find."""
    options = {"mode": "secure"} if seed is None else {"seed": seed}
    return simulate(
        ClientData(*data.clients()), "ideal", bound=data.radius, domain="ball",
        ledger=PrivacyLedger(unit=unit), **options,
    )  # fmt: skip


def plan(data, unit, seed=None, **options):
    options = {"n_clusters": 10, "counts": COUNTS} | options
    return plan_of("auto", federation(data, unit, seed), data.server_points, **options)


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
def test_at_client_level_it_beats_both_feddp_and_the_server_start(phones):
    """400 clients, epsilon 2: measured about 1.5 against 8 and 5 (three seeds)."""
    best = cost(phones.points, kmeans.lloyd(phones.points, phones.true_centers, n_rounds=5))
    clips, server = fk.ClipBounds(1500, 1, 21, 10, 120, 50), phones.server_points
    ours = plan(phones, "client", 0, epsilon=2.0)
    paper = plan_of(
        "feddp", federation(phones, "client", 0), server, n_clusters=10, epsilon=2.0, clips=clips
    )
    for seed in range(3):
        rng = np.random.default_rng(seed)
        excess = [
            cost(
                phones.points,
                fk.run(federation(phones, "client", seed), p, rng=rng).centers,
            )
            - best
            for p in (ours, paper)
        ]
        start = cost(phones.points, fk.server_lloyds(server, 10, rng=rng)) - best
        assert excess[0] < 0.7 * min(excess[1], start)


@pytest.mark.parametrize("name", ["n_records", "rows_per_client"])
def test_public_counts_must_be_given_at_client_level(phones, name):
    how = {"n_clusters": 10, "epsilon": 1.0, "rng": np.random.default_rng(0)} | COUNTS
    room = federation(phones, "client")
    with pytest.raises(ValueError, match=f"{name} must be given"):
        fk.plan_adaptive(room, phones.server_points, **how | {name: None})
    assert not room.ledger.releases
