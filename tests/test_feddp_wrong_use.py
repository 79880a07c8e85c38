"""Wrong use of FedDP-KMeans: refused with a helpful message, before budget, data or message."""

import math

import numpy as np
import pytest

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers import kmeans
from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
)
from fedclust_helpers.client_statistics import OUTER_PRODUCT, SERVER_POINT_WEIGHTS
from fedclust_helpers.feddp_kmeans.baselines import (
    STARTS,
    k_fed,
    optimal,
    plan_lloyds_from,
    server_lloyds,
)
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets, lloyd_shares
from fedclust_helpers.feddp_kmeans.levels import ClipBounds
from fedclust_helpers.federation import ClientData, PlanMismatchError, simulate
from fedclust_helpers.mechanisms import Gaussian, Laplace
from fedclust_helpers.studies.feddp_kmeans import theory

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
    plan = fk.plan(fed, server, n_clusters=k, budgets=budgets, **options)
    return fk.run(fed, plan, server, rng=rng)


def lloyds(fed, budgets, start=SERVER[:K], **options):
    plan = plan_lloyds_from(start, fed, n_clusters=len(start), budgets=budgets, **options)
    return fk.run(fed, plan)


ADAPTIVE = {"n_clusters": K, "epsilon": 1.0}


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
        (None, ValueError, "server_points"),
        (7.0, ValueError, "server_points"),
        ({}, TypeError, "server_points"),
    ],
)
def test_unusable_server_data(server, error, message):
    fed = federation()
    rng = np.random.default_rng(0)
    refused(fed, lambda: run(fed, server), error, message)
    adaptive = lambda: fk.plan_adaptive(fed, server, rng=rng, **ADAPTIVE)  # noqa: E731
    refused(fed, adaptive, error, message)
    plan = fk.plan(fed, SERVER, n_clusters=K, epsilon=1.0)
    refused(fed, lambda: fk.run(fed, plan, server, rng=rng), (error, PlanMismatchError), "server")


@pytest.mark.parametrize("start", STARTS)
def test_unusable_server_data_of_the_baselines(start):
    fed = federation()

    def call(server, k=K):
        return plan_lloyds_from(start, fed, server, n_clusters=k, epsilon=1.0)

    refused(fed, lambda: call(SERVER[:, :3]), ValueError, "columns")
    refused(fed, lambda: call(np.full((5, D), np.inf)), ValueError, "finite")
    if start != "sphere_packing":  # which needs no server point for each cluster
        refused(fed, lambda: call(SERVER[:2]), ValueError, "n_clusters")
    with pytest.raises(ValueError, match="start must be one of server_kmeanspp"):
        plan_lloyds_from("random", fed, SERVER, n_clusters=K, epsilon=1.0)
    refused(fed, lambda: call(None), ValueError, "server_points")


# --- radius ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, clips", [("point", None), ("client", CLIPS)])
def test_a_radius_below_every_row_clips_all_and_works(unit, clips):
    fed = federation(bound=1e-3, unit=unit)
    assert fed.clipped_counts.sum() == 300
    result = run(fed, clips=clips)
    assert np.linalg.norm(result.centers, axis=1).max() <= 1e-3 * (1 + 1e-9)
    assert result.epsilon == pytest.approx(BUDGETS.total(), abs=1e-5)


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
        lambda: lloyds(fed, StepBudgets(0, 0, 0, 0, 1, 1, 1)),
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
    message = refused(fed, lambda: run(fed, budgets=budgets), BudgetExceededError, "as planned")
    assert "epsilon=0.8" in message and fed.ledger.remaining == 1


@pytest.mark.parametrize("mode", ["teaching", "secure"])
def test_the_default_budget_admits_a_plan_of_just_that_total(mode):
    """Gaussian and Laplace side by side, continuous or discrete: a whole plan takes all of it."""
    options = {"mode": mode} if mode == "secure" else {"seed": 1}
    fed = simulate(DATA, "ideal", bound=2.0, domain="ball", budget=Budget(1.0, 1e-6), **options)
    plan = fk.plan(fed, SERVER, n_clusters=K, epsilon=1.0, n_rounds=2)
    result = fk.run(fed, plan, SERVER, rng=np.random.default_rng(0))
    assert 0.99 < result.epsilon <= 1.0 and fed.ledger.remaining < 0.02
    with pytest.raises(BudgetExceededError):
        fk.run(fed, plan, SERVER, rng=np.random.default_rng(0))


def test_lloyd_alone_is_refused_as_a_whole():
    fed = federation(budget=Budget(0.8, 1e-6, "rdp"))
    # one round would fit, three do not
    budgets = StepBudgets(0, 0, 0, 0, 1.2, 1.2, 3)
    refused(fed, lambda: lloyds(fed, budgets), BudgetExceededError, "as planned")


@pytest.mark.parametrize("n_rounds", [-1, 1.5, True, None])
def test_impossible_numbers_of_rounds(n_rounds):
    with pytest.raises((ValueError, TypeError), match="n_rounds"):
        StepBudgets(1, 1, 1, 1, 1, 1, n_rounds)
    with pytest.raises((ValueError, TypeError), match="n_rounds"):
        lloyd_shares(n_rounds)


# --- unit, adjacency, clips -----------------------------------------------------------------------


def test_clips_belong_to_client_level_only():
    point, client = federation(), federation(unit="client")
    refused(point, lambda: run(point, clips=CLIPS), ValueError, "clips must be None at data-point")
    refused(client, lambda: run(client), ValueError, "clips must be given at client level")
    refused(
        client,
        lambda: plan_lloyds_from("server_lloyds", client, SERVER, n_clusters=K, epsilon=1.0),
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
        ({"n_init": 10**12}, "n_init"),
        ({"n_rounds": 10**12, "budgets": None, "epsilon": 1.0}, "n_rounds"),
        ({"margin": "1"}, "margin"),
        ({"budgets": None}, "epsilon must be given"),
        ({"budgets": 1.0}, "budgets must be StepBudgets"),
        ({"budgets": None, "epsilon": "1"}, "epsilon"),
        ({"budgets": None, "epsilon": math.nan}, "epsilon"),
        ({"budgets": None, "epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"budgets": None, "epsilon": 1.0, "proportions": 3}, "proportions"),
        ({"clips": (1, 2, 3)}, "clips must be None"),
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


@pytest.mark.parametrize("other", [None, POINTS, DATA, "ideal"])
def test_something_that_is_no_federation(other):
    rng = np.random.default_rng(0)
    plan = fk.plan(federation(), SERVER, n_clusters=K, epsilon=1.0)
    for call in (
        lambda: run(other),
        lambda: plan_lloyds_from("server_lloyds", other, SERVER, n_clusters=K, epsilon=1.0),
        lambda: fk.plan_adaptive(other, SERVER, rng=rng, **ADAPTIVE),
        lambda: fk.run(other, plan, SERVER, rng=rng),
        lambda: theory.simplify_server_data(
            other, SERVER, np.eye(D), epsilon=1.0, min_weight=0.2, rng=rng
        ),
        lambda: fk.reduce_diameter(other, SERVER, epsilon=1.0, sigma=1.0, min_weight=0.2),
        lambda: theory.theory_kmeans(
            other,
            SERVER,
            n_clusters=K,
            epsilon=1.0,
            delta=1e-6,
            min_weight=0.2,
            n_rounds=1,
            rng=rng,
        ),
    ):
        with pytest.raises(TypeError, match="federation must offer noisy_sum"):
            call()


def test_something_that_is_no_plan():
    fed = federation()
    for other in (None, 1.0, BUDGETS, "plan"):
        refused(fed, lambda o=other: fk.run(fed, o, SERVER), TypeError, "plan must be a plan of")
    plan = fk.plan(fed, SERVER, n_clusters=K, epsilon=1.0)
    for rng in (None, 7, np.random.RandomState(0)):
        refused(fed, lambda r=rng: fk.run(fed, plan, SERVER, rng=r), TypeError, "rng must be a")
    given = plan_lloyds_from(SERVER[:K], fed, n_clusters=K, epsilon=1.0)
    refused(fed, lambda: fk.run(fed, given, SERVER), ValueError, "server_points must be None")


@pytest.mark.parametrize("unit, clips", [("point", None), ("client", CLIPS)])
def test_totals_beyond_the_integers_are_found_before_anything_is_spent(unit, clips):
    """By public numbers alone: 64 bits do not hold the sum of so many records in grid steps."""
    fed = simulate(
        DATA, "ideal", mode="secure", bound=2.0, domain="ball", n_records=10**12, n_clients=10**12,
        ledger=PrivacyLedger(unit=unit),
    )  # fmt: skip
    refused(fed, lambda: run(fed, clips=clips), ValueError, "64-bit integers")
    # and a radius whose square is hardly a number any more
    for bound in (1e-120, 1e120):
        odd = federation(bound=bound, unit=unit)
        refused(odd, lambda f=odd: run(f, clips=clips), ValueError, "bound between 1e-100 and")


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
    for call in (
        lambda: k_fed(DATA, 3, rng=0),
        lambda: optimal(DATA, 3, rng=None),
        lambda: server_lloyds(SERVER, 3, rng=7),
    ):
        with pytest.raises(TypeError, match="rng"):
            call()
    for function in (k_fed, optimal):
        with pytest.raises(TypeError, match="clients must be ClientData"):
            function(POINTS, 3, rng=np.random.default_rng(0))
        with pytest.raises(ValueError, match="n_init"):
            function(DATA, 3, rng=np.random.default_rng(0), n_init=10**12)


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
