"""Wrong use of FedDP-KMeans: refused with a helpful message, before budget, data or message."""

import math
from dataclasses import replace

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
    federation,
    follow,
    plan_of,
    refused,
    run,
)

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers.accounting import Budget, BudgetExceededError
from studies.feddp_kmeans import theory


@pytest.mark.parametrize(
    "server, message",
    [
        (SERVER[:, :3], "server_points must have 4 columns, got 3"),
        (SERVER[:2], "server_points must hold at least n_clusters=3 rows, got 2"),
        (SERVER[:0], "server_points must have at least one row"),
        (None, "server_points"),
    ],
)
def test_unusable_server_data(server, message):
    for variant in ("feddp", "lloyds", "server"):
        fed = federation()
        refused(
            fed, lambda v=variant, f=fed: plan_of(v, f, server), (TypeError, ValueError), message
        )
    # only sphere packing needs no server point for each cluster
    packed = plan_of("lloyds", federation(), SERVER[:2], initial="sphere_packing")
    assert "sphere_packing" in packed.method


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


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_clusters": 21}, "at least n_clusters=21"), ({"n_clusters": 601}, "n_clusters"),
        ({"n_rounds": 10**12, "budgets": None, "epsilon": 1.0}, "n_rounds"),
        ({"budgets": None, "epsilon": math.nan}, "epsilon"),
        ({"budgets": None, "epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"n_features": 3}, "n_features"), ({"minimum": 3.0}, "minimum"),
        ({"bound": 1e-120}, "bound between 1e-100 and"),
        *(({"budgets": replace(ONES, **{step: 0})}, f"budgets.{step} must be > 0")
          for step in ("weights", "sums", "counts")),
    ],
)  # fmt: skip
def test_other_wrong_arguments(options, message):
    fed = federation(**{word: options[word] for word in options if word == "bound"})
    call = {word: value for word, value in options.items() if word != "bound"}
    refused(fed, lambda: run(fed, **call), (ValueError, TypeError), message)
