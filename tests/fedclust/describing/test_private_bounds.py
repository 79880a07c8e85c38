"""Bounds and a summary of columns as they are: what is found, what is charged, what is refused."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from flower_cases import Direct, open_room, server, study
from hypothesis import example, given
from hypothesis import strategies as st

from fedclust import describing, private_bounds, private_summary
from fedclust.describing import windows
from fedclust.estimators import FastLloydKMeans, PrivateKMeans, TooFewRowsWarning
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger, gdp_mu
from fedclust_helpers.client_statistics import (
    DESCRIPTION,
    MAGNITUDE_COUNTS,
    SUMS_AND_COUNTS,
    WEIGHTED_COUNTS,
    magnitude_edges,
)
from fedclust_helpers.federation import ClientData, TrustModelError, simulate
from fedclust_helpers.program import Answer, Public

TEACHING = {"mode": "teaching", "seed": 4}


def table(n, seed=0):
    """Money with a heavy tail, years, small negative numbers, a column of mostly zeros."""
    rng = np.random.default_rng(seed)
    return np.column_stack([
        rng.lognormal(8, 1, n), rng.integers(1950, 2005, n), -rng.gamma(2, 1e-5, n),
        np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(7, 1, n)),
    ])  # fmt: skip


def clients(X):
    return [X[: len(X) // 3], X[len(X) // 3 :]]


def raw(X, trust="trusted", **options):
    data = ClientData.from_clients(clients(X), missing=True)
    return simulate(data, trust, domain="raw", **{"seed": 1} | options)


# --- the statistic --------------------------------------------------------------------------------


@given(st.floats(allow_infinity=False))
@example(math.nan)
@example(2.0**-64)
@example(-(2.0**127))
def test_a_number_lies_in_its_own_bin_and_a_missing_one_in_none(x):
    counts = MAGNITUDE_COUNTS.compute(np.array([[x]]), np.array([0, 1]))[0][0, 0]
    if math.isnan(x):
        assert not counts.any()
        return
    (bin_,) = np.flatnonzero(counts)
    edges = np.abs(magnitude_edges()[bin_ : bin_ + 2])
    near, far = edges.min(), edges.max()
    if bin_ == windows_of_zero():
        assert abs(x) < far
    else:
        last = bin_ in (0, len(counts) - 1)
        assert near <= abs(x) and (abs(x) < far or last)
        assert (x > 0) == (bin_ > windows_of_zero())


def windows_of_zero():
    return len(magnitude_edges()) // 2 - 1


def test_weights_beyond_the_declared_sensitivity_are_refused():
    federation = raw(table(300), n_records=300)
    ask = {"lower": np.zeros(4), "upper": np.ones(4), "n_bins": 2}
    noise = [federation.gaussian(WEIGHTED_COUNTS, "counts", multiplier=1.0)]
    how = {"round": 0, **ask}
    for weights in ([2.0, 0.1, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]):
        refuses(
            ValueError,
            "weights",
            federation.noisy_sum,
            WEIGHTED_COUNTS,
            noise,
            weights=weights,
            **how,
        )
    assert not federation.ledger.releases
    federation.noisy_sum(WEIGHTED_COUNTS, noise, weights=[2.0, 0.0, 0.0, 0.0], **how)


@pytest.mark.parametrize("part", ["counts", "fine", "moments"])
@pytest.mark.parametrize("adjacency", ["add/remove", "replace-one"])
def test_the_worst_rows_reach_the_declared_sensitivity(part, adjacency):
    """Rows at the edges and the middle: at most what is declared, and no less for some of them."""
    how = {"lower": np.zeros(3), "upper": np.ones(3), "n_bins": 4, "n_parts": 2}
    i = DESCRIPTION.parts.index(part)
    one = [DESCRIPTION.compute(np.full((1, 3), x), np.array([0, 1]), **how)[i] for x in (0, 0.5, 1)]
    moved = [np.linalg.norm(a) for a in one]
    if adjacency == "replace-one":
        moved = [np.linalg.norm(a - b) for a in one for b in one]
    public = {"n_features": 3, "n_bins": 4, "n_parts": 2}
    assert max(moved) == pytest.approx(DESCRIPTION.sensitivity_of(part, 2, adjacency, **public))


# --- windows --------------------------------------------------------------------------------------


def test_noise_alone_is_seldom_taken_for_rows():
    """At most 1 % of 4,000 empty releases; by the bound 40, and 68 with probability 3e-5."""
    rng, n = np.random.default_rng(3), 4000
    z = windows.threshold(383, 1, 0.01)
    alarms = sum(windows.support(rng.normal(0, 3.0, 383), 3.0, z, 0.0).found for _ in range(n))
    assert 0 < alarms <= 68


def test_a_window_is_as_short_and_as_early_as_the_counts_allow():
    counts = np.zeros(64)
    counts[[20, 30, 31, 40]] = [9.0, 100.0, 100.0, 30.0]
    assert windows.support(counts, 1.0, 5.0, 0.0) == (20, 40, True)
    counts[20:24] = 3.0  # 12 in four bins, against 5 * 2: no single one is sure
    assert windows.support(counts, 1.0, 5.0, 0.0)[:2] == (20, 40)
    assert windows.support(counts, 1.0, 5.0, 0.1)[:2] == (30, 40)  # 12 of 242 lie beyond
    assert not windows.support(counts, 100.0, 5.0, 0.0).found
    assert windows.trimmed(counts, 0.1, 8.0)[:2] == (22, 40)
    assert windows.trimmed(counts, 1.0, 1e9)[:2] == (0, 63)


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [9000, 90_000])
def test_bounds_hold_the_rows_and_little_more(n):
    X = table(n)
    X[np.random.default_rng(1).random(X.shape) < 0.05] = np.nan
    wrong = np.random.default_rng(2).integers(n, size=n // 10_000)
    X[wrong] *= 1e6  # a unit that somebody forgot: ignored
    found = private_bounds(clients(X), 1.0, **TEACHING)
    assert found.found.all()
    beyond = (X < found.lower) | (X > found.upper)
    assert (beyond.mean(axis=0) < (0.015 if n < 10_000 else 0.005)).all()
    inner, outer = np.nanquantile(X, [0.001, 0.999], axis=0)
    assert ((found.upper - found.lower) < 5 * (outer - inner))[:3].all()
    assert found.upper[1] - found.lower[1] < 200  # years, not the whole of 1024 to 2048


@pytest.mark.parametrize("trust", ["trusted", "ideal", "masked", "serverless"])
@pytest.mark.parametrize("mode", ["secure", "teaching"])
def test_every_sum_of_every_trust_model_finds_the_same_charged_as_asked(trust, mode):
    X = table(30_000)
    how = TEACHING if mode == "teaching" else {}
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-6))
    found = private_bounds(clients(X), 1.0, delta=1e-6, trust=trust, ledger=ledger, **how)
    assert ledger.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert ledger.epsilon(1e-6) <= 1.0 + 1e-9
    exact = MAGNITUDE_COUNTS.compute(X, np.array([0, len(X)]))[0][0]
    std = found.plan.mechanisms[0][0].std * math.sqrt(2)  # two shares, of which one suffices
    assert np.abs(found.histograms[0] - exact).max() < 6 * std
    with pytest.raises(BudgetExceededError):
        private_bounds(clients(X), 1.0, delta=1e-6, trust=trust, ledger=ledger, **how)


def test_the_rate_is_public_warned_of_and_refused_before_anything_is_charged():
    X, ledger = table(3000), PrivacyLedger()
    how = {"delta": 1e-6, "trust": "trusted", "ledger": ledger, **TEACHING}
    mu = gdp_mu(0.1, 1e-6)
    with pytest.warns(TooFewRowsWarning, match="few rows"):
        private_bounds(clients(X), 0.1, **how)
    n_charged = len(ledger.releases)
    refuses(ValueError, "limit 0.05", private_bounds, clients(X), 0.03, **how)
    refuses(ValueError, "limit 0.05", private_summary, clients(X), 0.05, **how)
    assert len(ledger.releases) == n_charged
    plan = describing.plan_bounds(raw(X), epsilon=0.1, delta=1e-6)
    assert plan.predicted_error == pytest.approx(2 / (mu * 3000))  # sqrt(d)/(mu N), d = 4
    replaced = raw(X, ledger=PrivacyLedger(adjacency="replace-one"))
    more = describing.plan_bounds(replaced, epsilon=0.1, delta=1e-6)
    assert more.predicted_error == pytest.approx(math.sqrt(2) * plan.predicted_error)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private_bounds(clients(X), 1.0, **how)


def test_columns_come_by_name_and_owners_in_a_column():
    frame = pd.DataFrame(table(9000), columns=["money", "year", "tiny", "zeros"])
    frame["room"] = np.arange(9000) % 3
    frame.loc[::7, "year"] = None
    found = private_bounds(frame, 1.0, owners="room", columns=["year", "money"], **TEACHING)
    assert list(found.table().index) == list(found.bounds) == ["year", "money"]
    assert found.bounds["year"] == (found.lower[0], found.upper[0])
    assert "year" in str(found.statement()) and "money" in found._repr_html_()
    refuses(ValueError, "^owners must be", private_bounds, frame, 1.0, owners="house", **TEACHING)
    refuses(
        ValueError, "^owners must be given for more", private_bounds, table(300), 1.0, **TEACHING
    )
    refuses(ValueError, "^clients must hold at least two", private_bounds, [table(300)], 1.0)
    refuses(ValueError, "infinite", private_bounds, [[[np.inf]], [[1.0]]], 1.0, **TEACHING)
    gap = ClientData([[np.nan]], [0, 1], missing=True)
    refuses(ValueError, "nan", simulate, gap, "ideal", seed=1)
    refuses(TrustModelError, "raw", simulate, [[[1.0]]], "local", seed=1, domain="raw")


# --- rows in a box, on private bounds -------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [describing.FASTLLOYD, describing.OVERCLUSTERED])
def test_k_means_on_private_bounds_is_one_plan_and_one_total(algorithm):
    rng = np.random.default_rng(2)
    means = np.array([[100.0, 5000.0], [900.0, 5300.0]])
    X = means[rng.integers(2, size=9000)] + rng.normal(0, 20, (9000, 2))
    X[::50, 0] = np.nan  # such rows are described, and left out of what needs a box
    federation = raw(X, "masked", noise="discrete", seed=2)
    plan = algorithm.planner()(federation, n_clusters=2, epsilon=1.0, delta=1e-6)
    result = describing.run(federation, plan)
    assert 0.99 < result.epsilon <= 1.0 + 1e-9 and result.epsilon == plan.total_epsilon
    low, high = result.limits.lower, result.limits.upper
    centers = (result.centers + 1) / 2 * (high - low) + low
    assert np.abs(centers[np.argsort(centers[:, 0])] - means).max() < 20
    looks = {"magnitude_counts", "weighted_counts"}
    shares = [
        (m.sensitivity / m.std) ** 2
        for line in plan.releases for m in line.mechanisms if line.name in looks
    ]  # fmt: skip
    assert sum(shares) == pytest.approx(0.2 / plan.dial**2, rel=1e-6)


def test_rows_in_a_box_are_refused_until_bounds_are_public():
    federation = raw(table(300)[:, :3], n_records=300)
    noise = [federation.gaussian(SUMS_AND_COUNTS, p, multiplier=1.0) for p in ("sums", "counts")]
    ask = {"round": 0, "centers": np.zeros((1, 3))}
    refuses(
        ValueError, "bounds are not public", federation.noisy_sum, SUMS_AND_COUNTS, noise, **ask
    )
    assert not federation.ledger.releases
    federation.scale(np.array([0.0, 1900, -1]), np.array([1e5, 2100, 1]))
    federation.noisy_sum(SUMS_AND_COUNTS, noise, **ask)
    inside = federation._clients.seen_by(SUMS_AND_COUNTS).data.points
    assert np.abs(inside).max() <= 1


@pytest.mark.parametrize("kind", [PrivateKMeans, FastLloydKMeans])
def test_an_estimator_finds_bounds_and_pays_what_was_asked(kind):
    rng = np.random.default_rng(2)
    means = np.array([[100.0, 5000.0], [900.0, 5300.0]])
    X = means[rng.integers(2, size=9000)] + rng.normal(0, 20, (9000, 2))
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-6))
    how = {"delta": 1e-6, "bounds": "private", "ledger": ledger, **TEACHING}
    model = kind(2, epsilon=1.0, **how)
    preview = str(model.preview(clients(X)))
    assert "found privately" in preview and "20% of mu^2" in preview and not ledger.releases
    model.fit(clients(X))
    assert ledger.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    found = model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])]
    assert np.abs(found - means).max() < 20
    assert "found privately: column 0" in str(model.statement())
    assert (model.predict(X) == model.predict(X[:1])[0]).mean() == pytest.approx(0.5, abs=0.05)
    poor = kind(2, epsilon=0.01, **how | {"ledger": PrivacyLedger()})
    refuses(ValueError, "limit 0.05", poor.fit, clients(X))
    refuses(
        ValueError, "bounds must be public", PrivateKMeans(2, 1.0, trust="local", **how).fit, X[:99]
    )


# --- the summary ----------------------------------------------------------------------------------


def told(values, std):
    made = Answer(values)
    made.std = std
    return made


def test_the_noise_of_a_look_is_that_of_its_weight():
    """Counts that are sure where the column has more weight, and would not be with the others'."""
    public = Public(raw(table(900_000)[:, :2]).facts, np.random.default_rng(0))
    steps = describing.BOUNDS.steps(public, 1.0)
    sizes = np.zeros((2, len(magnitude_edges()) - 1))
    at = np.searchsorted(magnitude_edges(), [1.5, 2.0**20])
    sizes[0, at[0] - 1] = sizes[1, at[1] - 9 : at[1]] = 1000  # one octave, and nine
    next(steps)
    asked = steps.send(told([sizes], (1.0,)))
    weights = asked.broadcast["weights"]
    assert weights[0] > 1.3 and weights[1] < 0.4
    z = windows.threshold(64, 2, 0.01 / 3)
    counts = np.zeros((2, 64))
    counts[0, 30] = 1.1 * z  # more than z, less than z times the weight
    counts[1] = 1e5
    asked = steps.send(told([counts], (1.0,)))
    assert asked.broadcast["lower"][0] > 1.4 and asked.broadcast["upper"][0] < 1.6


def test_the_number_of_rows_is_the_best_mean_of_three():
    public = Public(raw(table(9000)[:, :1]).facts, np.random.default_rng(0))
    steps = describing.SUMMARY.steps(public, 1.0, lower=[0], upper=[1], bins=4)
    next(steps)
    counts, fine = np.full((1, 4), 100.0), np.full((1, 64), 7.0)
    with pytest.raises(StopIteration) as end:
        steps.send(told([counts, fine, np.array([[430.0, 0.0, 0.0]])], (1.0, 0.5, 3.0)))
    weights = 1 / np.array([4 * 1.0, 64 * 0.25, 9.0])
    count = end.value.value.count
    assert math.isclose(count.value[0], weights @ [400, 448, 430] / weights.sum())
    half = 1.959963984540054 / math.sqrt(weights.sum())
    assert math.isclose(count.high[0] - count.low[0], 2 * half)


@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 4000), (100.0, 400)])  # noise, or the sample
def test_intervals_hold_the_truth_and_shrink_with_the_noise(epsilon, n):
    """Of 4 columns times 6 numbers in 20 samples, 95 % intervals miss one in ten at most."""
    truth, missed, wide = None, 0, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = np.column_stack([
            rng.normal(50, 10, n), rng.random(n), rng.integers(0, 9, n), rng.beta(2, 5, n),
        ])  # fmt: skip
        known = private_summary(
            clients(X), epsilon, bounds=([0, 0, 0, 0], [100, 1, 8, 1]), trust="trusted",
            mode="teaching", seed=seed,
        )  # fmt: skip
        beta = {"mean": 2 / 7, "spread": math.sqrt(10 / 8) / 7}
        truth = {
            "count": np.full(4, float(n)), "mean": np.array([50, 0.5, 4, beta["mean"]]),
            "spread": np.array([10, math.sqrt(1 / 12), math.sqrt(80 / 12), beta["spread"]]),
        }  # fmt: skip
        for name, value in truth.items():
            found = getattr(known, name)
            missed += int(((value < found.low) | (value > found.high)).sum())
        quartiles = np.array([
            [43.255, 50, 56.745], [0.25, 0.5, 0.75], [2, 4, 6], [0.1612, 0.2644, 0.3895],
        ])  # fmt: skip
        found = known.quartiles
        missed += int(((quartiles < found.low) | (quartiles > found.high)).sum())
        wide.append(((found.high - found.low) / known.spread.value[:, None]).mean())
    assert missed <= 0.1 * 20 * 4 * 6
    assert np.mean(wide) < 0.5


def test_a_summary_on_private_bounds_is_charged_as_asked_and_shows_itself():
    ledger = PrivacyLedger()
    known = private_summary(clients(table(30_000)), 1.0, delta=1e-6, ledger=ledger, **TEACHING)
    assert ledger.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert known.table().shape == (4, 20) and known.histogram.shape == (4, 20)
    assert len(known.plot().axes) == 4
    preview = private_summary(clients(table(30_000)), 1.0, ledger=ledger, preview=True, **TEACHING)
    assert "nothing yet" in str(preview) and len(ledger.releases) == known.plan.n_rounds


# --- over a network -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["private_bounds", "private_summary"])
@pytest.mark.parametrize("receiver", ["clients", "server"])
def test_rooms_find_what_one_process_finds(tmp_path, method, receiver):
    X = table(9000)
    X[::9, 0] = np.nan
    rows = [X[:3000], X[3000:5000], X[5000:]]
    agreed = study(
        method=method, options={"epsilon": 1.0}, n_features=4, n_records=9000, domain="raw",
        receiver=receiver,
    )  # fmt: skip
    rooms = [open_room(tmp_path, agreed, i, rows=rows) for i in range(3)]
    at_server = server(tmp_path, agreed, Direct(rooms)).run()
    result = at_server if receiver == "server" else rooms[0].result
    options = agreed.federation_options | {"pre_shared_secret": bytes(range(32))}
    data = ClientData.from_clients(rows, missing=True)
    alone = simulate(data, agreed.trust, **options)
    expected = agreed.follow(alone, agreed.planned(alone))
    assert (result.lower == expected.lower).all() and (result.upper == expected.upper).all()
    assert (result.released[-1][0] == expected.released[-1][0]).all()
