"""Wrong use: it works, or it raises an error that names the argument before anything is spent.

Every refusal is checked for three things besides the message: the ledger stayed empty, no message
with data was sent, and the message quotes no value of the data.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st
from lloyd_runs import lloyd_run

from fedclust_helpers import fastlloyd
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.client_statistics import MODEL_BLOCKS, SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.federation import ClientData, TrustModelError, simulate
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster import LinearRegression
from fedclust_helpers.secure_aggregation import RingOverflowError

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
@pytest.mark.parametrize(("make", "error", "match"), BAD_CLIENTS)
def test_bad_clients(make, error, match, trust):
    ledger = PrivacyLedger()
    with np.errstate(invalid="ignore"):
        clients = make()
    with pytest.raises(error, match=match) as caught:
        simulate(clients, trust, seed=1, ledger=ledger)
    assert not ledger.releases
    assert "0.1234" not in str(caught.value)


BAD_OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"bound": 0.0}, ValueError, "bound must be finite and > 0"),
    ({"bound": -1.0}, ValueError, "bound must be finite and > 0"),
    ({"bound": INF}, ValueError, "bound must be finite and > 0"),
    ({"bound": NAN}, ValueError, "bound must be a number"),
    ({"n_records": 0}, ValueError, "n_records must be >= 1"),
    ({"n_records": 10.0}, TypeError, "n_records must be an integer"),
    ({"seed": None}, ValueError, "seed must be given in teaching mode"),
    ({"seed": 1, "mode": "secure"}, ValueError, "seed must not be given in secure mode"),
    ({"budget": Budget(1.0, 1e-5), "ledger": PrivacyLedger()}, ValueError, "budget must not be"),
    ({"trust": "local", "seed": None}, ValueError, "seed must be given in teaching mode"),
    ({"trust": "local", "bound": NAN}, ValueError, "bound must be a number"),
    (
        {"trust": "local", "budget": Budget(1.0), "ledger": PrivacyLedger("point", "replace-one")},
        ValueError,
        "budget must not be given with a ledger",
    ),
    ({"trust": "masked", "bits": 16}, ValueError, "bits must be one of 32, 64"),
    ({"trust": "masked", "fractional_bits": 63}, ValueError, "fractional_bits"),
    ({"trust": "masked", "pre_shared_secret": b"short"}, ValueError, "secret must be 32 bytes"),
]


@pytest.mark.parametrize(("options", "error", "match"), BAD_OPTIONS)
def test_bad_options_of_a_federation(options, error, match):
    options = {"seed": 1, "trust": "trusted", **options}
    with pytest.raises(error, match=match) as caught:
        simulate([box(), box()], options.pop("trust"), **options)
    assert "0.1234" not in str(caught.value)


# --- running an algorithm -------------------------------------------------------------------------

GOOD: dict[str, dict[str, Any]] = {
    "fastlloyd": {"n_clusters": 3, "epsilon": 1.0},
    "glloyd": {"n_clusters": 3, "epsilon": 1.0},
    "sulloyd": {"n_clusters": 3, "epsilon": 1.0},
    "lloyd": {"n_clusters": 3},
}

PRIVATE, GAUSSIAN = ("fastlloyd", "glloyd", "sulloyd"), ("fastlloyd", "glloyd")
BAD: list[tuple[tuple[str, ...], dict[str, Any], str]] = [  # of these methods, what, the message
    (tuple(GOOD), {"n_clusters": 81}, "n_clusters must be >= 1 and <= 80"),  # 80 points
    (tuple(GOOD), {"initial": np.zeros((2, 2))}, "initial must hold 3 centres, got 2"),
    (tuple(GOOD), {"initial": np.zeros((3, 5))}, "initial must have 2 columns, got 5"),
    (PRIVATE, {"epsilon": 0.0}, "epsilon must be finite and > 0"),
    (GAUSSIAN, {"delta": 1.0}, r"delta must lie in \(0, 1\)"),
    (("fastlloyd",), {"alpha": 0.0}, "alpha must be finite and > 0"),
]
CALLS = [(method, what, match) for methods, what, match in BAD for method in methods]


def assert_nothing_happened(federation, caught=None):
    assert not federation.ledger.releases
    assert all(m.round < 0 for m in federation.transcript.messages)  # keys at most
    if caught is not None:
        assert "0.1234" not in str(caught.value)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize(("method", "arguments", "match"), CALLS, ids=str)
def test_bad_arguments_of_a_run(method, arguments, match, trust):
    """Nothing is spent or quoted."""
    federation = simulate([box(), box(seed=1)], trust, seed=1)
    with pytest.raises((TypeError, ValueError), match=match) as caught:
        lloyd_run(method, federation, **{**GOOD[method], **arguments})
    assert_nothing_happened(federation, caught)


@pytest.mark.parametrize("n_records", [1, 2])
def test_the_default_delta_needs_three_records(n_records):
    federation = simulate([box(n_records)], seed=1)
    with pytest.raises(ValueError, match="n_records must be >= 3"):
        lloyd_run("fastlloyd", federation, n_clusters=1, epsilon=1.0)
    assert_nothing_happened(federation)
    lloyd_run("fastlloyd", federation, n_clusters=1, epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize("federation", [None, "masked", np.zeros((3, 2)), [np.zeros((3, 2))]])
@pytest.mark.parametrize("method", list(GOOD))
def test_something_that_is_no_federation(federation, method):
    with pytest.raises(TypeError, match="federation must offer noisy_sum"):
        lloyd_run(method, federation, **GOOD[method])


@pytest.mark.parametrize("method", list(GOOD))
def test_a_federation_that_must_not_show_sums(method):
    federation = simulate([box(), box()], "local", seed=1)
    refuses(TrustModelError, "offers no noisy_sum", lloyd_run, method, federation, **GOOD[method])
    assert_nothing_happened(federation)


@pytest.mark.parametrize("method", list(GOOD))
@pytest.mark.parametrize(
    "ledger",
    [PrivacyLedger(unit="client"), PrivacyLedger(adjacency="replace-one")],
    ids=["client", "replace-one"],
)
def test_a_ledger_of_another_unit_or_adjacency(method, ledger):
    federation = simulate([box(), box()], seed=1, ledger=ledger)
    with pytest.raises(ValueError, match="federation must keep a ledger for one point"):
        lloyd_run(method, federation, **GOOD[method])
    assert_nothing_happened(federation)


@pytest.mark.parametrize("method", list(GOOD))
def test_a_ring_that_is_too_small_for_the_public_bounds(method):
    federation = simulate([box()], "masked", seed=1, bits=32, n_records=40_000)
    with pytest.raises(RingOverflowError, match="ring Z_2\\^32 with 16 fractional bits"):
        lloyd_run(method, federation, **GOOD[method])
    assert_nothing_happened(federation)


@pytest.mark.parametrize("radius", [0.0, -1.0, NAN, INF, "1"])
def test_bad_radius_of_post_processing(radius):
    # the radius of a run comes from alpha; whoever sets it by hand is checked by the statistic
    from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS

    federation = simulate([box()], "masked", seed=1)
    mechanisms = (Gaussian(5.0, 1.0), Gaussian(1.0, 1.0))
    with pytest.raises((ValueError, TypeError), match="radius must be"):
        federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, mechanisms, round=0, centers=np.zeros((2, 2)), radius=radius
        )
    assert_nothing_happened(federation)


# --- what looks unusual and works -----------------------------------------------------------------


def run(clients, trust="masked", **options):
    federation = simulate(clients, trust, seed=1, **options)
    return lloyd_run("fastlloyd", federation, n_clusters=2, epsilon=2.0).centers


POINTS = np.round(box(60) * 64) / 64  # exact in float32
UNUSUAL = {
    "one client": lambda p: [p],
    "tuple": lambda p: (p[:30], p[30:]),
    "lists": lambda p: [p[:30].tolist(), p[30:].tolist()],
    "float32": lambda p: [p[:30].astype(np.float32), p[30:].astype(np.float32)],
    "float32 and float64": lambda p: [p[:30].astype(np.float32), p[30:]],
    "pandas": lambda p: [pd.DataFrame(part, columns=["a", "b"]) for part in (p[:30], p[30:])],
    "pandas with an index": lambda p: [pd.DataFrame(p, index=np.arange(60)[::-1])],
    "read-only": lambda p: [p[:30], p[30:]],
    "Fortran order": lambda p: [np.asfortranarray(p[:30]), np.asfortranarray(p[30:])],
    "strided": lambda p: [np.repeat(p, 2, axis=0)[::2]],
    "objects that are numbers": lambda p: [p.astype(object)],
    "stacked (M, n, d)": lambda p: p.reshape(2, 30, 2),
    "owners": lambda p: ClientData.from_owners(p, np.repeat([0, 1, 2], 20)),
}


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("form", list(UNUSUAL))
def test_other_forms_of_the_same_data(form, trust):
    POINTS.flags.writeable = False
    assert np.allclose(run(UNUSUAL[form](POINTS), trust), run([POINTS], trust), atol=1e-7)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, bool])
def test_integer_data(dtype):
    whole = np.random.default_rng(3).integers(0, 2, (60, 2)).astype(dtype)
    assert np.allclose(run([whole]), run([whole.astype(float)]))


@pytest.mark.parametrize("trust", TRUSTS)
def test_data_outside_the_bound_are_clipped_and_counted(trust):
    points = np.array(box(60))
    points[5] = [40.0, -0.2]
    federation = simulate([points[:30], points[30:]], trust, seed=1)
    result = lloyd_run("fastlloyd", federation, n_clusters=2, epsilon=2.0)
    assert federation.clipped_counts.tolist() == [1, 0]
    assert np.allclose(result.centers, run([np.clip(points, -1, 1)], trust), atol=1e-7)
    assert points[5, 0] == 40.0


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_one_point_cannot_do_more_than_its_clipped_self(x, y):
    points = np.array(box(20))
    points[7] = x, y
    (total,) = simulate([points], "masked", seed=1).noisy_sum(TOTAL, [Gaussian(2.0, 1.0)], round=0)
    (clipped,) = simulate([np.clip(points, -1, 1)], "masked", seed=1).noisy_sum(
        TOTAL, [Gaussian(2.0, 1.0)], round=0
    )
    assert np.allclose(total, clipped, atol=1e-8)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize(("n", "k", "d"), [(3, 1, 1), (3, 3, 1), (60, 1, 2), (60, 1, 1)])
def test_smallest_sizes(trust, n, k, d):
    federation = simulate([box(n, d)], trust, seed=1)
    result = lloyd_run("fastlloyd", federation, n_clusters=k, epsilon=1.0)
    assert result.centers.shape == (k, d) and (np.abs(result.centers) <= 1).all()


def test_identical_points_and_empty_clusters_raise_nothing():
    # data-dependent facts are handled by rules, not by errors that others can see
    for points in (np.zeros((50, 2)), np.full((50, 2), 0.5), np.ones((50, 2))):
        for method, arguments in GOOD.items():
            federation = simulate([points[:20], points[20:]], "masked", seed=1)
            result = lloyd_run(method, federation, **arguments)
            assert np.isfinite(result.centers).all()


@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.floats(0.01, 20.0),
    st.integers(0, 99),
)
def test_any_valid_run_ends_in_the_box(k, d, n_clients, epsilon, seed):
    points = np.random.default_rng(seed).normal(0, 1, (24, d))
    clients = ClientData.from_owners(points, np.arange(24) % n_clients)
    federation = simulate(clients, "masked", seed=seed)
    result = lloyd_run("fastlloyd", federation, n_clusters=k, epsilon=epsilon)
    assert result.centers.shape == (k, d)
    assert (np.abs(result.centers) <= 1).all()
    assert federation.ledger.epsilon(result.delta) == pytest.approx(epsilon, rel=1e-8)


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


def test_a_start_fits_the_plan():
    federation = simulate([np.full((20, 2), 0.1), np.full((20, 2), 0.3)], "ideal", seed=1)
    given = {"n_clusters": 3, "epsilon": 1.0}
    for wrong in (np.zeros((5, 2)), np.zeros((3, 3)), np.full((3, 2), np.nan), "nowhere"):
        refuses(ValueError, "initial", fastlloyd.plan, federation, **given, initial=wrong)
