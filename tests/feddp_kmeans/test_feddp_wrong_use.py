"""Wrong use of FedDP-KMeans: refused with a helpful message, before budget, data or message."""

import math

import numpy as np
import pytest
from conftest import refuses
from feddp_cases import (
    CLIPS,
    DATA,
    DELTA,
    ONES,
    ROWS,
    SERVER,
    SIX,
    VARIANTS,
    D,
    K,
    cost,
    federation,
    follow,
    plan_of,
    refused,
    run,
)

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers.accounting import Budget, BudgetExceededError, LedgerMismatchError
from fedclust_helpers.client_statistics import OUTER_PRODUCT, SERVER_POINT_WEIGHTS
from fedclust_helpers.feddp_kmeans import STARTS, StepBudgets
from fedclust_helpers.federation import ClientData, ClippedDataWarning
from fedclust_helpers.mechanisms import Gaussian, Laplace
from fedclust_helpers.studies.feddp_kmeans import theory

# --- server data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["feddp", "lloyds", "server"])
@pytest.mark.parametrize(
    "server, error, message",
    [
        (SERVER[:, :3], ValueError, "server_points must have 4 columns, got 3"),
        (np.hstack([SERVER, SERVER]), ValueError, "server_points must have 4 columns, got 8"),
        (SERVER[:2], ValueError, "server_points must hold at least n_clusters=3 rows, got 2"),
        (SERVER[:0], ValueError, "server_points must have at least one row"),
        (None, (TypeError, ValueError), "server_points"),
    ],
)
def test_unusable_server_data(server, error, message, variant):
    fed = federation()
    refused(fed, lambda: plan_of(variant, fed, server), error, message)
    plan = plan_of(variant, fed, n_rounds=1)
    refused(fed, lambda: follow(fed, plan, server), (TypeError, ValueError), "server_points")


def test_only_sphere_packing_needs_no_server_point_for_each_cluster():
    for start in STARTS:
        fed = federation()
        if start == "sphere_packing":
            assert plan_of("lloyds", fed, SERVER[:2], initial=start).initial == start
            continue
        call = lambda f=fed, s=start: plan_of("lloyds", f, SERVER[:2], initial=s)  # noqa: E731
        refused(fed, call, ValueError, "n_clusters")
    with pytest.raises(ValueError, match="initial must be one of server_kmeanspp"):
        plan_of("lloyds", fed, initial="random")


# --- radius ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, clips", [("point", None), ("client", CLIPS)])
def test_a_radius_below_every_row_clips_all_and_works(unit, clips):
    fed = federation(bound=1e-3, unit=unit)
    assert fed.clipped_counts.sum() == 600
    result = run(fed, clips=clips)
    assert np.linalg.norm(result.centers, axis=1).max() <= 1e-3 * (1 + 1e-9)
    assert result.epsilon == pytest.approx(SIX.total(), abs=1e-5)


def test_rows_in_a_box_have_no_radius():
    """A row of the box has norm up to sqrt(d) bound: the noise would be too small."""
    fed = federation(domain="box")
    for variant in VARIANTS:
        refused(fed, lambda v=variant: plan_of(v, fed), ValueError, "domain='ball'")


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "sums", "counts"])
def test_a_step_that_cannot_be_skipped(name):
    fed = federation()
    budgets = StepBudgets(**{"outer": 1, "weights": 1, "sums": 1, "counts": 1} | {name: 0})
    refused(fed, lambda: run(fed, budgets=budgets), ValueError, f"budgets.{name} must be > 0")


@pytest.mark.parametrize(
    "variant, options",
    [
        ("feddp", {"budgets": ONES}),
        ("feddp", {"budgets": StepBudgets(0.05, 0.05, 0.05, 0.05, 2, 2, 2)}),  # Init would fit
        ("given", {"budgets": StepBudgets(0, 0, 0, 0, 1.2, 1.2, 3)}),  # one round would fit
        ("server", {"epsilon": 1.0, "n_rounds": 1}),
    ],
)
def test_budgets_that_the_ledger_cannot_meet(variant, options):
    fed = federation(budget=Budget(0.8, DELTA, "rdp"))
    plan = plan_of(variant, fed, **options)
    message = refused(fed, lambda: follow(fed, plan), BudgetExceededError, "as planned")
    assert "epsilon=0.8" in message and fed.ledger.remaining == 1


@pytest.mark.parametrize("mode", ["teaching", "secure"])
def test_the_default_budget_admits_a_plan_of_just_that_total(mode):
    """Gaussian and Laplace side by side, continuous or discrete: a whole plan takes all of it."""
    fed = federation(mode=mode, budget=Budget(1.0, DELTA))
    plan = plan_of("feddp", fed, n_rounds=2)
    assert 0.99 < follow(fed, plan).epsilon <= 1.0 and fed.ledger.remaining < 0.02
    refuses(BudgetExceededError, "", follow, fed, plan)


# --- unit, adjacency, clips -----------------------------------------------------------------------


def test_clips_belong_to_client_level_only():
    point, client = federation(), federation(unit="client")
    for clips in (CLIPS, (1, 2, 3)):
        for planner in (fk.plan, fk.plan_lloyds):
            call = lambda p=planner, c=clips: p(  # noqa: E731
                point, SERVER, n_clusters=K, epsilon=1.0, clips=c
            )
            refused(point, call, (ValueError, TypeError), "clips must be (None at|a ClipBounds)")
    for variant in ("feddp", "lloyds", "given"):
        call = lambda v=variant: plan_of(v, client, clips={})  # noqa: E731
        refused(client, call, ValueError, "clips must be given at client level")


def test_a_ledger_of_another_adjacency_or_unit():
    for options, message in (
        ({"adjacency": "replace-one"}, "add/remove"),
        ({"unit": "person"}, "one point or one client"),
    ):
        fed = federation(**options)
        for variant in VARIANTS:
            refused(fed, lambda v=variant, f=fed: plan_of(v, f), ValueError, message)


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
        ({"n_clusters": 21}, "at least n_clusters=21"), ({"n_clusters": 601}, "n_clusters"),
        ({"n_rounds": 10**12, "budgets": None, "epsilon": 1.0}, "n_rounds"),
        ({"budgets": None, "epsilon": None}, "epsilon must be given"),
        ({"budgets": 1.0}, "budgets must be a StepBudgets"),
        ({"budgets": None, "epsilon": math.nan}, "epsilon"),
        ({"budgets": None, "epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"n_features": 3}, "n_features"), ({"minimum": 3.0}, "minimum"),
    ],
)  # fmt: skip
def test_other_wrong_arguments(options, message):
    fed = federation()
    refused(fed, lambda: run(fed, **options), (ValueError, TypeError), message)


@pytest.mark.parametrize("other", [None, ROWS, DATA, "ideal"])
def test_something_that_is_no_federation(other):
    rng, call = np.random.default_rng(0), {"n_clusters": K, "epsilon": 1.0}
    some = {"epsilon": 1.0, "min_weight": 0.2}
    plan = plan_of("feddp", federation())
    for wrong in (
        lambda: fk.plan(other, SERVER, **call),
        lambda: fk.plan_lloyds(other, SERVER, **call),
        lambda: fk.plan_adaptive(other, SERVER, rng=rng, **call),
        lambda: follow(other, plan),
        lambda: theory.simplify_server_data(other, SERVER, np.eye(D), rng=rng, **some),
        lambda: theory.reduce_diameter(other, SERVER, sigma=1.0, **some),
        lambda: theory.theory_kmeans(
            other, SERVER, n_clusters=K, delta=1e-6, n_rounds=1, rng=rng, **some
        ),
    ):
        refuses(TypeError, "federation must be a SumFederation", wrong)


def test_something_that_is_no_plan():
    fed = federation()
    for other in (None, 1.0, ONES, "plan"):
        refused(fed, lambda o=other: fk.run(fed, o, SERVER), TypeError, "plan must be a ServerPlan")
    plan = plan_of("feddp", fed)
    for rng in (None, 7, np.random.RandomState(0)):
        refused(fed, lambda r=rng: fk.run(fed, plan, SERVER, rng=r), TypeError, "rng must be a")
    given = plan_of("given", fed)
    refused(fed, lambda: fk.run(fed, given, SERVER), ValueError, "server_points must be None")
    refused(fed, lambda: fk.run(fed, given, progress=1), TypeError, "progress must be")


@pytest.mark.parametrize("unit", ["point", "client"])
def test_totals_beyond_the_integers_are_found_before_anything_is_spent(unit):
    """By public numbers alone: 64 bits do not hold the sum of so many records in grid steps."""
    fed = federation(unit=unit, mode="secure", n_records=10**12, n_clients=10**12)
    refused(fed, lambda: run(fed), ValueError, "64-bit integers")
    # and a radius whose square is hardly a number any more
    for bound in (1e-120, 1e120):
        odd = federation(bound=bound, unit=unit)
        refused(odd, lambda f=odd: run(f), ValueError, "bound between 1e-100 and")


def test_continuous_noise_is_refused_in_secure_mode():
    fed = federation(mode="secure")
    refused(
        fed,
        lambda: fed.noisy_sum(
            SERVER_POINT_WEIGHTS, [Laplace(1.0, 1.0)], round=0, basis=np.eye(D),
            server_points=SERVER,
        ),
        ValueError,
        "discrete in secure mode",
    )  # fmt: skip


# --- never ----------------------------------------------------------------------------------------


def test_inputs_are_not_changed_and_one_run_leaves_no_trace_in_the_next():
    points, server = ROWS.copy(), SERVER.copy()
    assert np.array_equal(run().centers, run().centers)
    assert np.array_equal(points, ROWS) and np.array_equal(server, SERVER)


def test_messages_do_not_quote_rows_of_the_clients():
    secret = ROWS.copy()
    secret[0, 0] = 123456.789
    data = ClientData(secret, DATA.offsets)
    fed = federation(data, budget=Budget(0.1, DELTA, "rdp"))
    assert "123456" not in refused(fed, lambda: run(fed), BudgetExceededError, "as planned")
    with pytest.warns(ClippedDataWarning) as told:
        federation(ClientData(np.full((40, ROWS.shape[1]), 123456.789), [0, 20, 40]))
    assert "123456" not in str(told[0].message)


def test_far_rows_cannot_pull_a_center_out_of_the_ball():
    wild = ROWS.copy()
    wild[:200] *= 1e8
    result = run(federation(ClientData(wild, DATA.offsets)))
    assert np.linalg.norm(result.centers, axis=1).max() <= 2 + 1e-9
    assert cost(ROWS, result.centers) < 16
