"""Wrong use of FedDP-KMeans: refused with a helpful message, before budget, data or message."""

import math

import numpy as np
import pytest
from fedclust_helpers.feddp_kmeans.plan import StepBudgets, lloyd_budgets_for_total

from fedclust_helpers import kmeans
from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
)
from fedclust_helpers.client_statistics import OUTER_PRODUCT, SERVER_POINT_WEIGHTS
from fedclust_helpers.feddp_kmeans.algorithm import (
    ClipBounds,
    feddp_init,
    feddp_kmeans,
    feddp_lloyds,
)
from fedclust_helpers.feddp_kmeans.baselines import (
    STARTS,
    k_fed,
    lloyds_from,
    optimal,
    server_lloyds,
)
from fedclust_helpers.federation import ClientData, TrustModelError, simulate
from fedclust_helpers.mechanisms import Gaussian, Laplace
from fedclust_helpers.secure_aggregation import RingOverflowError

D, K = 4, 3
RNG = np.random.default_rng(0)
POINTS = RNG.normal(0, 0.4, (300, D))
SERVER = RNG.normal(0, 0.4, (12, D))
BUDGETS = StepBudgets(1, 1, 1, 1)
CLIPS = ClipBounds(10, 1, 2, 3, 8, 10)
for _array in (POINTS, SERVER):
    _array.flags.writeable = False
DATA = ClientData(POINTS, np.arange(0, 301, 10))


def federation(trust="ideal", *, unit="point", adjacency="add/remove", budget=None, **options):
    options = {"seed": 1, "bound": 2.0, "domain": "ball"} | options
    ledger = PrivacyLedger(unit=unit, adjacency=adjacency, budget=budget)
    return simulate(DATA, trust, ledger=ledger, **options)


def run(fed, server=SERVER, *, k=K, budgets=BUDGETS, rng=None, **options):
    rng = np.random.default_rng(0) if rng is None else rng
    return feddp_kmeans(fed, server, n_clusters=k, budgets=budgets, rng=rng, **options)


def refused(fed, call, error, message):
    """`call` raises, and nothing was charged, read or sent."""
    n_messages = len(fed.transcript.messages)  # a masked federation agrees on keys first
    with pytest.raises(error, match=message) as caught:
        call()
    assert not fed.ledger.releases and len(fed.transcript.messages) == n_messages
    return str(caught.value)


# --- server data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "server, error, message",
    [
        (SERVER[:, :3], ValueError, "server_points must have 4 columns, got 3"),
        (np.hstack([SERVER, SERVER]), ValueError, "server_points must have 4 columns, got 8"),
        (SERVER[:2], ValueError, "server_points must hold at least n_clusters=3 rows, got 2"),
        (SERVER[0], ValueError, "server_points must have shape"),
        (SERVER[:0], ValueError, "server_points must have at least one row"),
        (np.where(np.eye(12, 4) > 0, np.nan, SERVER), ValueError, "server_points must be finite"),
        (SERVER.astype(str), TypeError, "server_points must be an array of real numbers"),
        (SERVER * 1j, TypeError, "server_points"),
    ],
)
@pytest.mark.parametrize("function", [feddp_kmeans, feddp_init])
def test_unusable_server_data(function, server, error, message):
    fed = federation()
    refused(
        fed,
        lambda: function(fed, server, n_clusters=K, budgets=BUDGETS, rng=np.random.default_rng(0)),
        error,
        message,
    )


@pytest.mark.parametrize("start", STARTS)
def test_unusable_server_data_of_the_baselines(start):
    fed = federation()
    budgets = lloyd_budgets_for_total(1.0, 1)

    def call(server, k=K):
        return lloyds_from(
            start, fed, server, n_clusters=k, budgets=budgets, rng=np.random.default_rng(0)
        )

    refused(fed, lambda: call(SERVER[:, :3]), ValueError, "columns")
    refused(fed, lambda: call(np.full((5, D), np.inf)), ValueError, "finite")
    if start != "sphere_packing":  # which needs no server point for each cluster
        refused(fed, lambda: call(SERVER[:2]), ValueError, "n_clusters")
    with pytest.raises(ValueError, match="start must be one of server_kmeanspp"):
        lloyds_from("random", fed, SERVER, n_clusters=K, budgets=budgets, rng=RNG)


# --- radius ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, clips", [("point", None), ("client", CLIPS)])
def test_a_radius_below_every_row_clips_all_and_works(unit, clips):
    fed = federation(bound=1e-3, unit=unit)
    assert fed.clipped_counts.sum() == 300
    result = run(fed, clips=clips)
    assert np.linalg.norm(result.centers, axis=1).max() <= 1e-3 * (1 + 1e-9)
    assert result.epsilon == pytest.approx(BUDGETS.total(), abs=1e-5)


def test_a_radius_below_every_row_may_be_refused_instead():
    with pytest.raises(ValueError, match="outside"):
        federation(bound=1e-3, outside="refuse")


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_impossible_radius(bound):
    with pytest.raises(ValueError, match="bound"):
        federation(bound=bound)


def test_rows_in_a_box_have_no_radius():
    """A row of the box has norm up to sqrt(d) bound: the noise would be too small."""
    fed = federation(domain="box")
    refused(fed, lambda: run(fed), ValueError, "domain='ball'")
    refused(
        fed,
        lambda: feddp_lloyds(fed, SERVER[:K], budgets=StepBudgets(0, 0, 0, 0, 1, 1, 1)),
        ValueError,
        "domain='ball'",
    )


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "sums", "counts"])
def test_a_step_that_cannot_be_skipped(name):
    fed = federation()
    budgets = StepBudgets(**{"outer": 1, "weights": 1, "sums": 1, "counts": 1} | {name: 0})
    refused(fed, lambda: run(fed, budgets=budgets), ValueError, f"budgets.{name} must be > 0")


@pytest.mark.parametrize(
    "budgets",
    [StepBudgets(1, 1, 1, 1), StepBudgets(0.05, 0.05, 0.05, 0.05, 2, 2, 2)],
)
def test_budgets_that_the_ledger_cannot_meet(budgets):
    fed = federation(budget=Budget(0.8, 1e-6, "rdp"))
    message = refused(fed, lambda: run(fed, budgets=budgets), BudgetExceededError, "all steps")
    assert "epsilon=0.8" in message and fed.ledger.remaining == 1


def test_a_filter_that_cannot_bound_the_mix_of_gaussian_and_laplace_says_so():
    fed = federation(budget=Budget(8.0, 1e-6))  # the default filter is for Gaussian releases
    refused(fed, lambda: run(fed), LedgerMismatchError, "filter='rdp'")


def test_lloyd_alone_is_refused_as_a_whole():
    fed = federation(budget=Budget(0.8, 1e-6, "rdp"))
    # one round would fit, three do not
    budgets = StepBudgets(0, 0, 0, 0, 1.2, 1.2, 3)
    refused(fed, lambda: feddp_lloyds(fed, SERVER[:K], budgets=budgets), BudgetExceededError, "all")


@pytest.mark.parametrize("n_rounds", [-1, 1.5, True, None])
def test_impossible_numbers_of_rounds(n_rounds):
    with pytest.raises((ValueError, TypeError), match="n_rounds"):
        StepBudgets(1, 1, 1, 1, 1, 1, n_rounds)
    with pytest.raises((ValueError, TypeError), match="n_rounds"):
        lloyd_budgets_for_total(1.0, n_rounds)


# --- unit, adjacency, clips -----------------------------------------------------------------------


def test_clips_belong_to_client_level_only():
    point, client = federation(), federation(unit="client")
    refused(point, lambda: run(point, clips=CLIPS), ValueError, "clips must be None at data-point")
    refused(client, lambda: run(client), ValueError, "clips must be given at client level")
    refused(
        client,
        lambda: lloyds_from(
            "server_lloyds", client, SERVER, n_clusters=K, rng=np.random.default_rng(0),
            budgets=lloyd_budgets_for_total(1.0, 1),
        ),
        ValueError,
        "clips must be given",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["outer", "weights", "means", "filled", "sums", "counts"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_clips(name, value):
    values = {"outer": 1, "weights": 1, "means": 1, "filled": 1, "sums": 1, "counts": 1}
    with pytest.raises(ValueError, match=name):
        ClipBounds(**values | {name: value})


def test_suggested_clips_need_public_counts():
    for options in (
        {"rows_per_client": 0, "n_clusters": 3},
        {"rows_per_client": 5, "n_clusters": 0},
    ):
        with pytest.raises(ValueError, match="rows_per_client|n_clusters"):
            ClipBounds.suggest(SERVER, **options)


def test_a_ledger_of_another_adjacency_or_unit():
    fed = federation(adjacency="replace-one")
    refused(fed, lambda: run(fed), ValueError, "add/remove")
    person = federation(unit="person")
    refused(person, lambda: run(person), ValueError, "one point or one client")
    refused(person, lambda: run(person, clips=CLIPS), ValueError, "one point or one client")


def test_a_statistic_of_the_other_unit_is_refused_by_the_federation():
    fed = federation(unit="client")
    refused(
        fed,
        lambda: fed.noisy_sum(OUTER_PRODUCT, [Gaussian(4.0, 1.0)], round=0),
        LedgerMismatchError,
        "one point",
    )


# --- other arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"k": 0}, "n_clusters"),
        ({"k": 13}, "at least n_clusters=13"),
        ({"k": 301}, "n_clusters"),
        ({"k": 2.0}, "n_clusters"),
        ({"k": True}, "n_clusters"),
        ({"rng": 7}, "rng must be a numpy.random.Generator"),
        ({"rng": np.random.RandomState(0)}, "rng"),
        ({"rank": 0}, "rank"),
        ({"rank": 5}, "rank"),
        ({"margin": 0.0}, "margin"),
        ({"margin": 1.5}, "margin"),
        ({"margin": math.nan}, "margin"),
        ({"n_init": 0}, "n_init"),
        ({"minimum_weight": math.nan}, "minimum_weight"),
        ({"minimum_weight": -1.0}, "minimum_weight"),
        ({"minimum": 3.0}, "minimum"),
    ],
)
def test_other_wrong_arguments(options, message):
    fed = federation()
    refused(fed, lambda: run(fed, **options), (ValueError, TypeError), message)


def test_the_margin_has_no_client_level():
    fed = federation(unit="client")
    refused(fed, lambda: run(fed, clips=CLIPS, margin=0.5), ValueError, "margin must be 1")


@pytest.mark.parametrize("trust", ["local", "serverless"])
def test_trust_models_without_a_noised_sum_for_one_server(trust):
    fed = federation(trust)
    refused(fed, lambda: run(fed), (TrustModelError, ValueError), "noisy_sum|Distributed")


@pytest.mark.parametrize("other", [None, POINTS, DATA])
def test_something_that_is_no_federation(other):
    with pytest.raises(TypeError, match="federation must offer noisy_sum"):
        run(other)
    with pytest.raises(TypeError, match="federation must offer noisy_sum"):
        lloyds_from(
            "server_lloyds", other, SERVER, n_clusters=K, rng=np.random.default_rng(0),
            budgets=lloyd_budgets_for_total(1.0, 1),
        )  # fmt: skip


@pytest.mark.parametrize("bound, part", [(2.0, "outer"), (0.1, "weights")])
def test_a_ring_that_is_too_small_is_found_before_anything_is_spent(bound, part):
    # 32 bits hold numbers up to 32 768: too few for outer products of norm 4, or for the counts
    fed = federation("masked", bits=32, n_records=40_000, bound=bound)
    refused(fed, lambda: run(fed), RingOverflowError, part)


def test_continuous_noise_is_refused_in_secure_mode():
    fed = simulate(DATA, "ideal", mode="secure", bound=2.0, domain="ball", ledger=PrivacyLedger())
    refused(
        fed,
        lambda: fed.noisy_sum(
            SERVER_POINT_WEIGHTS, [Laplace(1.0, 1.0)], round=0, basis=np.eye(D),
            server_points=SERVER,
        ),
        ValueError,
        "discrete in secure mode",
    )  # fmt: skip


def test_baselines_without_privacy_check_their_arguments():
    for call in (
        lambda: k_fed(DATA, 0, rng=np.random.default_rng(0)),
        lambda: k_fed(DATA, 3, rng=np.random.default_rng(0), n_local=4),
        lambda: optimal(DATA, 301, rng=np.random.default_rng(0)),
        lambda: server_lloyds(SERVER, 13, rng=np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match="n_clusters|n_local"):
            call()
    with pytest.raises(TypeError, match="rng"):
        k_fed(DATA, 3, rng=0)


# --- never ----------------------------------------------------------------------------------------


def test_inputs_are_not_changed_and_one_run_leaves_no_trace_in_the_next():
    points, server = POINTS.copy(), SERVER.copy()
    a, b = run(federation()), run(federation())
    assert np.array_equal(a.centers, b.centers)
    assert np.array_equal(points, POINTS) and np.array_equal(server, SERVER)


def test_messages_do_not_quote_rows_of_the_clients():
    secret = POINTS.copy()
    secret[0, 0] = 123456.789
    fed = simulate(
        ClientData(secret, DATA.offsets), "ideal", seed=1, bound=2.0, domain="ball",
        ledger=PrivacyLedger(budget=Budget(0.1, 1e-6, "rdp")),
    )  # fmt: skip
    with pytest.raises(BudgetExceededError) as caught:
        run(fed)
    assert "123456" not in str(caught.value)
    with pytest.raises(ValueError) as refusal:
        simulate(
            ClientData(secret, DATA.offsets), "ideal", seed=1, bound=2.0, domain="ball",
            outside="refuse",
        )  # fmt: skip
    assert "123456" not in str(refusal.value)


def test_far_rows_cannot_pull_a_center_out_of_the_ball():
    wild = POINTS.copy()
    wild[:100] *= 1e8
    fed = simulate(
        ClientData(wild, DATA.offsets), "ideal", seed=1, bound=2.0, domain="ball",
        ledger=PrivacyLedger(),
    )  # fmt: skip
    result = run(fed)
    assert np.linalg.norm(result.centers, axis=1).max() <= 2 + 1e-9
    assert kmeans.kmeans_cost(POINTS, result.centers, normalize=True) < 16
