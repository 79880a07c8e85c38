"""Wrong use: it works, or it raises an error that names the argument before anything is spent.

Every refusal is checked for three things besides the message: the ledger stayed empty, no message
with data was sent, and the message quotes no value of the data.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lloyd_runs import lloyd_run

from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.client_statistics import MODEL_BLOCKS, SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.federation import ClientData, TrustModelError, simulate
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster import LinearRegression

NAN, INF = float("nan"), float("inf")
TRUSTS = ("trusted", "ideal", "masked")
SECRET_VALUE = 0.123456789  # in the data; no error message may show it


def box(n=40, d=2, seed=0):
    points = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    points[0] = SECRET_VALUE
    points.flags.writeable = False
    return points


def with_value(value, n=40):
    points = np.array(box(n))
    points[3, 1] = value
    return points


# --- building a federation ------------------------------------------------------------------------

REAL = r"clients\[0\] must be an array of real"
BAD_CLIENTS: list[tuple[Any, type[Exception], str]] = [
    (lambda: [box(), with_value(NAN)], ValueError, r"clients\[1\] must be finite"),
    (lambda: [with_value(-INF)], ValueError, r"clients\[0\] must be finite"),
    (lambda: [box() * [INF, -INF]], ValueError, r"clients\[0\] must be finite"),
    (lambda: [box()[:, 0]], ValueError, r"clients\[0\] must have shape \(n, d\)"),
    (lambda: [box()[None]], ValueError, r"clients\[0\] must have shape"),
    (lambda: [3.0], ValueError, r"clients\[0\] must have shape"),
    (lambda: [np.zeros((4, 0))], ValueError, r"clients\[0\] must have at least"),
    (lambda: [box(), np.zeros((0, 2))], ValueError, r"clients\[1\] must have at least one row"),
    (list, ValueError, "clients must hold at least one client"),
    (lambda: [box(), box(9, 3)], ValueError, r"clients\[1\] must have 2 columns, got 3"),
    (box, ValueError, "clients must be a sequence of arrays"),
    (lambda: pd.DataFrame(box()), ValueError, "clients must be a sequence of"),
    (dict, ValueError, "clients must hold at least one client"),
    (lambda: {"b": with_value(NAN)}, ValueError, r"clients\['b'\] must be finite"),
    (lambda: {1.0, 2.0}, TypeError, "clients must be a sequence.*set"),
    (lambda: (b for b in [box()]), TypeError, "clients must be a sequence.*generator"),
    (lambda: "my data", TypeError, "clients must be a sequence.*str"),
    (lambda: None, TypeError, "clients must be a sequence.*NoneType"),
    (lambda: [box().astype(str)], TypeError, REAL),
    (lambda: [box() + 1j], TypeError, REAL),
    (lambda: [np.array([["2020-01-01"]], dtype="datetime64[D]")], TypeError, REAL),
    (lambda: [np.array([[1.0, "x"]], dtype=object)], TypeError, REAL),
    (lambda: [[[1.0, 2.0], [3.0]]], TypeError, REAL),
]


@pytest.mark.parametrize("trust", ["trusted", "masked"])  # two constructors read them
def test_bad_clients(trust):
    ledger = PrivacyLedger()
    for make, error, match in BAD_CLIENTS:
        with np.errstate(invalid="ignore"):
            clients = make()
        with pytest.raises(error, match=match) as caught:
            simulate(clients, trust, seed=1, ledger=ledger)
        assert not ledger.releases and "0.1234" not in str(caught.value)


BOTH = {"ledger": PrivacyLedger("point", "replace-one")}
BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"bound": 0.0}, "bound must be finite and > 0"),
    ({"bound": INF}, "bound must be finite and > 0"),
    ({"bound": NAN}, "bound must be a number"),
    ({"n_records": 0}, "n_records must be >= 1"),
    ({"n_records": 10.0}, "n_records must be an integer"),
    ({"seed": None}, "seed must be given in teaching mode"),
    ({"mode": "secure"}, "seed must not be given in secure mode"),
    ({"budget": Budget(1.0, 1e-5), "ledger": PrivacyLedger()}, "budget must not be"),
    ({"trust": "local", "seed": None}, "seed must be given in teaching mode"),
    ({"trust": "local", "bound": NAN}, "bound must be a number"),
    ({"trust": "local", "budget": Budget(1.0), **BOTH}, "budget must not be given with a ledger"),
    ({"trust": "masked", "bits": 16}, "bits must be one of 32, 64"),
    ({"trust": "masked", "fractional_bits": 63}, "fractional_bits"),
    ({"trust": "masked", "pre_shared_secret": b"short"}, "secret must be 32 bytes"),
]


def test_bad_options_of_a_federation():
    for options, match in BAD_OPTIONS:
        given = {"seed": 1, "trust": "trusted", **options}
        with pytest.raises((TypeError, ValueError), match=match) as caught:
            simulate([box(), box()], given.pop("trust"), **given)
        assert "0.1234" not in str(caught.value)


# --- running an algorithm: nothing is spent or quoted ---------------------------------------------

METHODS = {"fastlloyd": 1.0, "glloyd": 1.0, "sulloyd": 1.0, "lloyd": None}
PRIVATE = [method for method, epsilon in METHODS.items() if epsilon]


def room(trust="ideal", **options):
    return lambda: simulate([box(), box(seed=1)], trust, seed=1, **options)


# of these methods, in which federation, what, and the message
REFUSED: list[tuple[Any, Callable[[], Any], dict[str, Any], str]] = [
    *(
        (methods, room(trust), what, match)
        for trust in TRUSTS
        for methods, what, match in (
            (METHODS, {"n_clusters": 81}, "n_clusters must be >= 1 and <= 80"),  # 80 points
            (METHODS, {"initial": np.zeros((2, 2))}, "initial must hold 3 centres, got 2"),
            (METHODS, {"initial": np.zeros((3, 5))}, "initial must have 2 columns, got 5"),
            (METHODS, {"initial": np.full((3, 2), NAN)}, "initial must be finite"),
            (METHODS, {"initial": "nowhere"}, "initial"),
            (PRIVATE, {"epsilon": 0.0}, "epsilon must be finite and > 0"),
            (PRIVATE[:2], {"delta": 1.0}, r"delta must lie in \(0, 1\)"),
            (PRIVATE[:1], {"alpha": 0.0}, "alpha must be finite and > 0"),
            (PRIVATE[:1], {"n_rounds": 10**12}, "^n_rounds must be"),
            (PRIVATE[:1], {"n_clusters": 10**12}, "^n_clusters must be"),
        )
    ),
    (["fastlloyd"], lambda: simulate([box(2)], seed=1), {"n_clusters": 1},
     "n_records must be >= 3"),  # by the default delta
    *((METHODS, lambda wrong=wrong: wrong, {}, "federation must offer noisy_sum")
      for wrong in (None, "masked", [np.zeros((3, 2))])),
    (METHODS, room("local"), {}, "offers no noisy_sum"),
    *((METHODS, room(ledger=ledger), {}, "federation must keep a ledger for one point")
      for ledger in (PrivacyLedger(unit="client"), PrivacyLedger(adjacency="replace-one"))),
    (METHODS, room("masked", bits=32, n_records=40_000), {},
     r"ring Z_2\^32 with 16 fractional bits"),  # too small for the public bounds
]  # fmt: skip


@pytest.mark.parametrize(("methods", "make", "what", "match"), REFUSED)
def test_a_run_is_refused_before_anything_happens(methods, make, what, match):
    for method in methods:
        federation, epsilon = make(), METHODS[method]
        given = {"n_clusters": 3} | ({} if epsilon is None else {"epsilon": epsilon}) | what
        with pytest.raises((TypeError, ValueError, TrustModelError), match=match) as caught:
            lloyd_run(method, federation, **given)
        assert "0.1234" not in str(caught.value)
        if hasattr(federation, "ledger"):
            assert not federation.ledger.releases
            assert all(m.round < 0 for m in federation.transcript.messages)  # keys at most


# --- what looks unusual and works -----------------------------------------------------------------


def run(clients, trust="masked", **options):
    federation = simulate(clients, trust, seed=1, **options)
    return lloyd_run("fastlloyd", federation, n_clusters=2, epsilon=2.0).centers


POINTS = np.round(box(60) * 64) / 64  # exact in float32
UNUSUAL = {
    "one client": lambda p: [p],
    "tuple": lambda p: (p[:30], p[30:]),
    "lists": lambda p: [p[:30].tolist(), p[30:].tolist()],
    "float32 and float64": lambda p: [p[:30].astype(np.float32), p[30:]],
    "pandas": lambda p: [pd.DataFrame(part, columns=["a", "b"]) for part in (p[:30], p[30:])],
    "pandas with an index": lambda p: [pd.DataFrame(p, index=np.arange(60)[::-1])],
    "Fortran order": lambda p: [np.asfortranarray(p[:30]), np.asfortranarray(p[30:])],
    "strided": lambda p: [np.repeat(p, 2, axis=0)[::2]],
    "objects that are numbers": lambda p: [p.astype(object)],
    "stacked (M, n, d)": lambda p: p.reshape(2, 30, 2),
    "owners": lambda p: ClientData.from_owners(p, np.repeat([0, 1, 2], 20)),
}


@pytest.mark.parametrize("trust", TRUSTS)
def test_other_forms_of_the_same_data_give_the_same_result(trust):
    POINTS.flags.writeable = False
    same = run([POINTS], trust)
    for form, make in UNUSUAL.items():
        np.testing.assert_allclose(run(make(POINTS), trust), same, atol=1e-7, err_msg=form)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.sampled_from(TRUSTS))
def test_one_point_cannot_do_more_than_its_clipped_self(x, y, trust):
    points = np.array(box(20))
    points[7] = x, y
    outside = simulate([points[:9], points[9:]], trust, seed=1)
    inside = simulate([np.clip(p, -1, 1) for p in (points[:9], points[9:])], trust, seed=1)
    (total,), (clipped,) = (
        f.noisy_sum(TOTAL, [Gaussian(2.0, 1.0)], round=0) for f in (outside, inside)
    )
    assert np.allclose(total, clipped, atol=1e-8)
    assert outside.clipped_counts.tolist() == [int(max(abs(x), abs(y)) > 1), 0]
    np.testing.assert_array_equal(points[7], [x, y])


def test_data_that_look_alike_raise_nothing():
    # data-dependent facts are handled by rules, not by errors that others can see
    for points in (np.zeros((50, 2)), np.ones((50, 2)), np.zeros((3, 1))):
        for method, epsilon in METHODS.items():
            federation = simulate([points[:2], points[2:]], "masked", seed=1)
            budget = {} if epsilon is None else {"epsilon": epsilon}
            centers = lloyd_run(method, federation, n_clusters=3, **budget).centers
            assert centers.shape == (3, points.shape[1]) and np.isfinite(centers).all()
            assert method != "fastlloyd" or np.abs(centers).max() <= 1


def test_an_empty_cluster_looks_like_any_other_on_the_wire():
    far = np.array([[-0.9, -0.9], [0.9, 0.9]])
    sizes = []
    for points in (np.full((40, 2), 0.9), np.repeat(far, 20, axis=0)):
        federation = simulate([points[:20], points[20:]], "masked", seed=1)
        federation.noisy_sum(
            SUMS_AND_COUNTS, (Gaussian(1.5, 1.0), Gaussian(1.0, 1.0)), round=0, centers=far
        )
        sizes.append([(m.name, m.shape, m.n_bytes) for m in federation.transcript.messages])
    assert sizes[0] == sizes[1]


def test_an_array_cannot_hide_a_number_that_the_sensitivity_needs():
    """The sensitivity is read off numbers; an array in their place would go unseen."""
    model = LinearRegression(1)
    federation = simulate(
        [np.ones((5, 2)) * 0.1] * 6, "ideal", seed=1, ledger=PrivacyLedger("client")
    )
    sent = {"models": np.zeros((2, 2)), "model": model, "clip": 1.0, "n_steps": 1,
            "learning_rate": 0.1}  # fmt: skip
    noise = [federation.gaussian(MODEL_BLOCKS, "blocks", multiplier=1.0, clip=1.0, model=model)]
    for weight in (np.array([5.0]), [5.0], np.array([[5.0]])):
        with pytest.raises(TypeError, match="count_weight must be (one|a real) number"):
            federation.noisy_sum(MODEL_BLOCKS, noise, round=0, **sent, count_weight=weight)
    with pytest.raises(ValueError, match="one client can change it by 5.09"):
        federation.noisy_sum(MODEL_BLOCKS, noise, round=0, **sent, count_weight=5.0)
    assert not federation.ledger.releases and not federation.transcript.messages
