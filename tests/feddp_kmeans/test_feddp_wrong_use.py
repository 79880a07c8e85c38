"""Wrong use of FedDP-KMeans: refused with a helpful message, before budget, data or message."""

import math

import numpy as np
import pytest
from conftest import refuses
from feddp_cases import (
    CLIPS,
    DATA,
    DELTA,
    ROWS,
    SERVER,
    SIX,
    VARIANTS,
    D,
    K,
    federation,
    follow,
    plan_of,
    refused,
    run,
)

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers.accounting import Budget, BudgetExceededError
from fedclust_helpers.feddp_kmeans import STARTS, StepBudgets
from studies.feddp_kmeans import theory

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


def test_only_sphere_packing_needs_no_server_point_for_each_cluster():
    for start in STARTS:
        fed = federation()
        if start == "sphere_packing":
            assert start in plan_of("lloyds", fed, SERVER[:2], initial=start).method
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


@pytest.mark.parametrize("bound", [1e-120, 1e120])
def test_a_radius_whose_square_is_hardly_a_number(bound):
    fed = federation(bound=bound)
    refused(fed, lambda: run(fed), ValueError, "bound between 1e-100 and")


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
    refuses(TypeError, "federation must offer noisy_sum", fk.plan, other, SERVER, **call)
    for wrong in (
        lambda: theory.simplify_server_data(other, SERVER, np.eye(D), rng=rng, **some),
        lambda: theory.reduce_diameter(other, SERVER, sigma=1.0, **some),
        lambda: theory.theory_kmeans(
            other, SERVER, n_clusters=K, delta=1e-6, n_rounds=1, rng=rng, **some
        ),
    ):
        refuses(TypeError, "federation must be a Federation", wrong)
