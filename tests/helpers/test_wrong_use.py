"""Wrong use at entry points: refused by the name of the argument, before anything is spent.

`WRONG` is one table of (entries, arguments, words). An entry is an algorithm's planner, on the
federation of its row in `ALGORITHMS`, or a function of `ENTRIES`. Every refusal is checked for
three things besides its words: nothing was charged, nothing was sent, and no value of the data is
quoted. What is wrong for privacy stands in test_privacy_checks.py.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from algorithms import ALGORITHMS, CLIENTS, FEDDP, LOCAL, POINTS
from feddp_cases import ONES, SERVER, D
from rr_cases import MODEL, C, P, Table

from fedclust_helpers import audit, datasets
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.federation import TrustModelError, simulate

pytestmark = pytest.mark.slow

NAN, INF = math.nan, math.inf
SECRET_VALUE = 0.123456789  # in the data; no error message may show it


def box(n=40, d=2, value=SECRET_VALUE):
    points = np.random.default_rng(0).uniform(-1, 1, (n, d))
    points[0], points[n // 2, d - 1] = SECRET_VALUE, value
    return points


def gaussian_mixture(**changes):
    call = {"means": [[0.0, 0], [9, 9]], "covariances": 1.0, "sizes": [30, 20]} | changes
    return datasets.gaussian_mixture(**call, rng=np.random.default_rng(0))


def ball_mixture(**changes):
    call = {"n": 100, "n_features": 2, "n_clusters": 3} | changes
    return datasets.make_ball_mixture(**call, rng=np.random.default_rng(0))


def normal(rng, n_runs):
    return rng.standard_normal((n_runs, 3))


def never(rng, n_runs):
    raise AssertionError("the release must not run")


# functions besides the planners of ALGORITHMS, with good arguments
ENTRIES: dict[str, Any] = {
    "simulate": partial(simulate, clients=[box(), box()], trust="trusted", seed=1),
    "feddp_kmeans.plan": partial(fk.plan, server_points=SERVER, n_clusters=3, epsilon=1.0),
    "plan_overclustered": partial(fl.plan_overclustered, n_clusters=3, epsilon=1.0),
    "StepBudgets": partial(fk.StepBudgets, 1, 1, 1, 1),
    "gaussian_mixture": gaussian_mixture,
    "make_ball_mixture": ball_mixture,
    "scale_to_box": partial(datasets.scale_to_box, box(), -1.0, 1.0),
    "audit_noise_scale": partial(
        audit.audit_noise_scale,
        release=normal,
        exact=np.zeros(3),
        claimed_std=1.0,
        rng=np.random.default_rng(0),
    ),
    "audit_release": partial(
        audit.audit_release,
        never,
        never,
        np.zeros(3),
        claimed_std=1.0,
        exact_with=np.ones(3),
        rng=np.random.default_rng(0),
    ),
}
FED = ("trust", "unit", "adjacency", "bound", "domain", "mode", "noise", "noise_from", "bits",
        "n_records", "n_labels", "data")  # fmt: skip
LLOYDS = ("fastlloyd", "glloyd", "sulloyd", "lloyd")
CLUSTERED = ("one round", "four rounds", "grid histogram", "local lloyd", "sketch")
GROUPED = ("rr", "sums only")
BY_SERVER = {"trust": "masked", "noise_from": "server"}
THREE = {"n_clusters": 1, "depths": (1, 2, 3)}
AUTO = {"n_clusters": "auto", "branch": "auto"}
REAL = r"clients\[0\] must be an array of real"

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    # clients
    *(("simulate", {"clients": clients}, words) for clients, words in (
        ([box(), box(value=NAN)], r"clients\[1\] must be finite"),
        ([box(value=-INF)], r"clients\[0\] must be finite"),
        ([box()[:, 0]], r"clients\[0\] must have shape \(n, d\)"),
        ([box()[None]], r"clients\[0\] must have shape"),
        ([3.0], r"clients\[0\] must have shape"),
        ([np.zeros((4, 0))], r"clients\[0\] must have at least"),
        ([box(), np.zeros((0, 2))], r"clients\[1\] must have at least one row"),
        ([], "clients must hold at least one client"),
        ({}, "clients must hold at least one client"),
        ([box(), box(9, 3)], r"clients\[1\] must have 2 columns, got 3"),
        (box(), "clients must be a sequence of arrays"),
        (pd.DataFrame(box()), "clients must be a sequence of"),
        ({"b": box(value=NAN)}, r"clients\['b'\] must be finite"),
        ({1.0, 2.0}, "clients must be a sequence.*set"),
        ((b for b in [box()]), "clients must be a sequence.*generator"),
        ("my data", "clients must be a sequence.*str"),
        (None, "clients must be a sequence.*NoneType"),
        ([box().astype(str)], REAL), ([box() + 1j], REAL), ([[[1.0, 2.0], [3.0]]], REAL),
        ([np.array([["2020-01-01"]], dtype="datetime64[D]")], REAL),
        ([np.array([[1.0, "x"]], dtype=object)], REAL),
    )),
    # a federation
    *(("simulate", options, words) for options, words in (
        ({"bound": 0.0}, "bound must be finite and > 0"),
        ({"bound": INF}, "bound must be finite and > 0"),
        ({"bound": NAN}, "bound must be a number"),
        ({"n_records": 0}, "n_records must be >= 1"),
        ({"n_records": 10.0}, "n_records must be an integer"),
        ({"budget": Budget(1.0, 1e-5), "ledger": PrivacyLedger()}, "budget must not be"),
        ({"trust": "secret"}, "trust must be one of"),
        ({"trust": "masked", "bits": 16}, "bits must be one of 32, 64"),
        ({"trust": "masked", "fractional_bits": 63}, "fractional_bits"),
        ({"trust": "masked", "pre_shared_secret": b"short"}, "secret must be 32 bytes"),
    )),
    # any algorithm, on what it is not for
    *(((*POINTS, *LOCAL, *CLIENTS, "feddp_kmeans.plan"), {"federation": wrong},
       "federation must be a Federation") for wrong in (None, "masked", [np.zeros((3, 2))])),
    ((*POINTS, *FEDDP, "sums only", "fedavg", "fedper"), {"trust": "local"}, "offers no noisy_sum"),
    (LOCAL, {"trust": "ideal"}, "offers no ask"),
    (("four rounds", "gaussian reports", "local lloyd", "private mean"), {"trust": "shuffled"},
     "no pure report"),
    ("one round", {"trust": "shuffled", "sums": True}, "no pure report"),
    ("rr", {"trust": "ideal"}, "offers no members"),
    ("rr", {"trust": "masked"}, "offers no members"),
    (GROUPED, BY_SERVER, "cohort must be all clients"),
    (("sums only", "fedavg", "fedper"), {"trust": "serverless"}, "cohort must be all clients"),
    (FEDDP, {"trust": "masked"}, "server sees the noised sums.*trust='ideal'"),
    (FEDDP, {"trust": "serverless"}, "server sees the noised sums"),
    (FEDDP, {"unit": "person"}, "one point or one client"),
    (POINTS, {"adjacency": "replace-one"}, "federation must keep a ledger for one point"),
    (LLOYDS, BY_SERVER | {"bits": 32, "n_records": 40_000},
     r"ring Z_2\^32 with 16 fractional bits"),  # too small for the public bounds
    ("sums only", {"trust": "masked", "bits": 32, "cohort": 60, "clip": 1e4}, "ring Z_2"),
    (LOCAL, {"bound": 0.5}, "unit ball"),
    (LOCAL, {"data": [np.zeros((10, 2))] * 3}, "clients must hold one point each"),
    # budgets
    ((*POINTS[:3], *POINTS[4:], *FEDDP, *LOCAL, *CLIENTS), {"epsilon": 0.0}, "epsilon must be"),
    ((*POINTS[:3], *POINTS[4:], *FEDDP, *LOCAL, *CLIENTS), {"epsilon": NAN},
     "epsilon must be a number"),
    (("fastlloyd", "glloyd", "moments", *FEDDP, *CLIENTS), {"delta": 1.0}, r"delta must lie in"),
    (("one round", "sketch"), {"epsilon": 1e-17}, "epsilon"),  # below the resolution of a coin
    ("feddp", {"epsilon": 1e-9}, "epsilon=1e-09 is too small at delta="),
    ("feddp", {"epsilon": 1e300}, "epsilon must (lie between|leave each step)"),
    ("feddp", {"epsilon": None}, "epsilon must be given"),
    ("feddp", {"budgets": ONES, "n_rounds": 0}, "epsilon must not be given"),
    *(("feddp", {"epsilon": None, "budgets": budgets, "n_rounds": 0} | more, words)
      for budgets, more, words in (
          (ONES, {"delta": 1e-7}, "delta must be that of the budgets"),
          (ONES, {"n_rounds": 2}, "n_rounds must not be given"),
          ((1, 1, 1, 1), {}, "budgets must be a StepBudgets"),
          *((replace(ONES, **{step: 0}), {}, f"budgets.{step} must be > 0")
            for step in ("weights", "sums", "counts")))),
    ("lloyds", {"epsilon": None, "budgets": ONES, "n_rounds": None}, "budgets must have lloyd_sum"),
    ("StepBudgets", {"lloyd_sums": -1.0}, "lloyd_sums"),
    ("StepBudgets", {"lloyd_sums": 1, "lloyd_counts": INF, "n_rounds": 1}, "lloyd_counts"),
    ("StepBudgets", {"lloyd_sums": 1, "lloyd_counts": 1, "n_rounds": 0}, "n_rounds"),
    (CLIENTS, {"epsilon": None}, "epsilon or sigma must be given"),
    (CLIENTS, {"sigma": 1.0}, "not both"),
    (CLIENTS, {"epsilon": None, "sigma": INF}, "sigma must be finite"),
    # clusters, rounds, and where they begin
    (LLOYDS, {"n_clusters": 301}, "n_clusters must be >= 1 and <= 300"),
    ("fastlloyd", {"n_clusters": 10**12}, "n_clusters must be"),
    ("fastlloyd", {"n_clusters": 1, "n_records": 2}, "n_records must be >= 3"),  # default delta
    ("feddp", {"n_clusters": 21}, "at least n_clusters=21"),
    ("feddp", {"n_clusters": 601}, "n_clusters"),
    (CLUSTERED, {"n_clusters": 2001}, "n_clusters"),
    ("grid", {"branch": "grid", "n_clusters": 0}, "n_clusters"),
    *(("grid", AUTO | {"k_range": k_range}, "k_range")
      for k_range in ((5, 5), (0, 5), (2, 5, 9))),
    ("grid", AUTO | {"k_range": (2, 10**6)}, "n_clusters must be"),
    ("plan_overclustered", {"federation": simulate([np.zeros((30, 25))], "ideal", seed=1),
                            "branch": "grid"}, "too many cells"),
    ("grid", {"k_range": (2, 5)}, "k_range must not be given"),
    ("grid", {"n_clusters": "many"}, "n_clusters"), ("grid", {"branch": "other"}, "branch"),
    ("rr", {"n_clusters": 1}, "n_clusters must be >= 2"),
    (GROUPED, {"n_clusters": 10**12, "min_size": 1}, "n_clusters is too large"),
    (GROUPED, {"min_size": 11}, r"min_size must be <= cohort/n_clusters = 10"),
    ("sums only", {"min_size": 0}, "min_size"),
    *((LLOYDS, {"initial": initial}, words) for initial, words in (
        (np.zeros((2, 2)), "initial must hold 3 centres, got 2"),
        (np.zeros((3, 5)), "initial must have 2 columns, got 5"),
        (np.full((3, 2), NAN), "initial must be finite"), ("nowhere", "initial"))),
    ("local lloyd", {"initial": np.zeros((3, 2))}, "initial must hold 2 centres"),
    ("local lloyd", {"initial": np.zeros((2, 3))}, "initial must have 2 columns"),
    (CLIENTS, {"initial": np.zeros((5, MODEL.n_parameters))}, "initial must hold"),
    (CLIENTS, {"initial": np.zeros((2, 3))}, "initial must have"),
    ("fastlloyd", {"n_rounds": 10**12}, "n_rounds must be"),
    ("fastlloyd", {"alpha": 0.0}, "alpha must be finite and > 0"),
    ("feddp", {"n_rounds": -1}, "n_rounds"), ("lloyds", {"n_rounds": 0}, "n_rounds"),
    (CLIENTS, {"n_rounds": 0}, "n_rounds must be >= 1"),
    (CLIENTS, {"n_rounds": 10**12}, "n_rounds must be >= 1 and <= 100000"),
    (CLIENTS, {"model": rr.LinearRegression(10**6), "n_rounds": 5000}, "n_rounds is too large"),
    # what the server has, and what is public of clients
    *((("feddp", "lloyds", "server"), {"server": server}, words) for server, words in (
        (SERVER[:, :3], "server_points must have 4 columns, got 3"),
        (SERVER[:2], "server_points must hold at least n_clusters=3 rows, got 2"),
        (SERVER[:0], "server_points must have at least one row"), (None, "server_points"))),
    ("feddp", {"bound": 1e-120}, "bound between 1e-100 and"),
    (("feddp", "lloyds", "given"), {"unit": "client", "clips": {}}, "clips must be given"),
    *((("server", "weighted"), {"unit": "client", "counts": counts}, "must be given")
      for counts in ({"n_records": 600}, {"rows_per_client": 30})),
    # questions to users
    ("one round", {"n_outputs": 5}, "n_outputs"), ("one round", {"levels": 3}, "levels"),
    ("one round", {"n_outputs": 1, "sums": False}, "sums must be True"),
    ("one round", {"depths": (3, 2)}, "depths must increase"),
    ("one round", {"depths": (2, 2)}, "depths must increase"),
    ("four rounds", {"depths": (2, 1)}, "depths must increase"),
    ("four rounds, LSH", {"t": 9}, "t must be"),
    ("gaussian reports", {"max_reports": 1}, "max_reports"),
    ("gaussian reports", {"max_reports": 10**9}, "max_reports"),
    ("grid histogram", {"depth": 17}, "depth"),  # depths that would fill the memory
    ("four rounds", {"depths": (1, 19)}, "depth"), ("one round", {"depths": (60,)}, "depth"),
    # fewer users than questions
    (("one round", "one round, sums"), THREE | {"data": np.zeros((2, 2))}, "n_records"),
    ("four rounds", THREE | {"data": np.zeros((6, 2))}, "n_records"),
    ("four rounds, LSH", THREE | {"data": np.zeros((8, 2))}, "n_records"),
    ("local lloyd", {"n_clusters": 1, "data": np.zeros((9, 2))}, "n_records|n_rounds"),
    # training
    (("rr", "sums only", "fedper"), {"proximal": 0.5}, "training must have proximal=0"),
    ("rr", {"clip": 0.0}, "clip must be"), ("rr", {"learning_rate": 0.0}, "learning_rate"),
    ("rr", {"n_steps": 10**9}, "n_steps must be >= 1 and <= 100000"),
    (CLIENTS, {"server_rate": -1.0}, "server_rate"),
    (CLIENTS, {"cohort": 61}, "cohort must be >= 1 and <= 60"),
    (CLIENTS, {"model": rr.SoftmaxRegression(P, 2), "n_labels": C}, "federation's n_labels=3"),
    ("fedavg", {"model": rr.SoftmaxRegression(P + 1, C)}, "features"),
    (CLIENTS, {"model": "softmax"}, "model must be a Model"),
    ("fedcam", {"model": Table(2, 3)}, "outputs"),
    ("rr", {"clusterer": "kmeans"}, "clusterer must be one of"),
    ("rr", {"identifiers": "laplace"}, "identifiers must be one of"),
    ("rr", {"identifiers": "krr", "sigma": 1.0}, "sigma must be None"),
    ("rr", {"rebalance": "fair"}, "rebalance must be one of"),
    ("rr", {"identifier_share": 1.0}, "identifier_share"),
    ("sums only", {"reseed_below": 1.0}, "reseed_below"),
    # audits of what does not fit together
    *(("audit_noise_scale", wrong, next(iter(wrong))) for wrong in (
        {"claimed_std": np.ones(2)}, {"claimed_std": (1.0, 1.0)}, {"exact": ()},
        {"release": normal, "exact": np.zeros(2)},
        {"release": lambda rng, n_runs: np.full((n_runs, 3), NAN)},
        {"release": lambda rng, n_runs: np.zeros((3, n_runs))})),
    *(("audit_release", wrong, words) for wrong, words in (
        ({"exact_with": np.zeros(3)}, "exact_with must differ"),
        ({"exact_with": np.zeros(4)}, "exact_with"), ({"n_runs": 1}, "n_runs"),
        ({"claimed_mu": -1.0}, "claimed_mu"))),
    # data sets whose numbers would overflow
    ("make_ball_mixture", {"radius": 1e300}, "radius"),
    ("gaussian_mixture", {"means": [[1e308, 0], [0, 0]]}, "means"),
    ("gaussian_mixture", {"covariances": 1e300}, "covariances"),
]  # fmt: skip
CASES = [
    (entry, wrong, words)
    for entries, wrong, words in WRONG
    for entry in ((entries,) if isinstance(entries, str) else entries)
]


@pytest.mark.parametrize("entry", dict.fromkeys(entry for entry, _, _ in CASES))
def test_wrong_use_is_refused_by_name_before_anything_is_spent(entry):
    for name, wrong, words in CASES:
        if name != entry:
            continue
        fed, call = None, ENTRIES.get(entry)
        if call is None:
            own = {word: wrong[word] for word in FED if word in wrong}
            rest = {word: value for word, value in wrong.items() if word not in FED}
            fed = made(entry, **own)
            call, wrong = partial(ALGORITHMS[entry].plan, rest.pop("federation", fed)), rest
        n_messages = 0 if fed is None else len(fed.transcript.messages)  # keys are agreed on
        with pytest.raises((ValueError, TypeError, TrustModelError), match=words) as caught:
            call(**wrong)
        assert "0.1234" not in str(caught.value)
        if fed is not None:
            assert not fed.ledger.releases and len(fed.transcript.messages) == n_messages


def made(entry, *, data=None, **options):
    """The federation of an algorithm, on other data or trust models than its own."""
    algorithm = ALGORITHMS[entry]
    if data is not None:
        return simulate(data, "local", seed=1)
    if options.get("trust") == "local" or entry in LOCAL and "trust" in options:
        trust = options["trust"]
        ledger = PrivacyLedger(adjacency="replace-one")
        rows = np.zeros((60, D if entry in FEDDP else P if entry in CLIENTS else 2))
        return simulate([rows] if trust == "ideal" else rows, trust, seed=1, ledger=ledger)
    return algorithm.federation(**options)


def test_every_planner_is_an_entry():
    planners = {
        value for package in (fk, rr, *(__import__(f"fedclust_helpers.{p}", fromlist=["plan"])
                                        for p in ("fastlloyd", "ldp_kmeans")))
        for name, value in vars(package).items() if name.startswith("plan") and callable(value)
    }  # fmt: skip
    told = {entry for entry, _, _ in CASES}
    assert {name.partition(",")[0] for name in ALGORITHMS} <= told
    assert len(planners) <= len(ALGORITHMS)
