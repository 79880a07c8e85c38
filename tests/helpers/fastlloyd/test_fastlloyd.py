"""FastLloyd and its baselines: public numbers, budget, equality with plain implementations.

Numbers of the paper and of its released code are in test_released_code.py. Statistical
tests are seeded; each says how likely it is to fail for correct code.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from lloyd_runs import lloyd_run

from fedclust_helpers import fastlloyd, kmeans
from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.fastlloyd import (
    default_delta,
    max_radius,
    round_radii,
    split_noise,
    split_noise_glloyd,
    update_centers,
)
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.mechanisms import (
    DiscreteLaplace,
    Gaussian,
    Laplace,
)

CENTERS = np.array([[-0.5, -0.4], [0.5, -0.5], [0.1, 0.5]])
CENTERS.flags.writeable = False


def federation_of(points, trust="trusted", n_clients=2, **options):
    options.setdefault("seed", 1)
    clients = ClientData.from_owners(points, np.arange(len(points)) % n_clients)
    return simulate(clients, trust, **options)


def public_only(n_records, d, *, bound=1.0, trust="trusted", **options):
    """A federation whose public numbers are given; its data are three rows of zeros."""
    return simulate(
        [np.zeros((1, d))] * 3, trust, seed=1, n_records=n_records, bound=bound, **options
    )


# --- radii ----------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 50), st.floats(0.1, 3.0), st.floats(0.01, 100.0))
def test_radius_is_alpha_times_half_the_diagonal_over_the_root_of_k(k, d, alpha, bound):
    eta = max_radius(k, d, alpha=alpha, bound=bound)
    corner = np.full(d, bound)
    diagonal = np.linalg.norm(corner - -corner)
    assert eta == pytest.approx(alpha * diagonal / (2 * k ** (1 / d)))
    # Eq. 24: k balls of that radius (alpha = 1) have the volume of one of half the diagonal
    assert k * max_radius(k, d, alpha=1.0, bound=bound) ** d == pytest.approx((diagonal / 2) ** d)


@pytest.mark.parametrize("bound", [1.0, 0.5, 7.0])
def test_step_starts_with_half_the_diagonal(bound):
    radii = round_radii(4, 15, 2, bound=bound)
    eta = max_radius(15, 2, bound=bound)
    assert radii.tolist() == [np.sqrt(2) * bound, eta, eta, eta]
    assert round_radii(4, 15, 2, bound=bound, strategy="constant").tolist() == [eta] * 4
    assert radii[0] / eta == pytest.approx(4.84, abs=0.005)  # claim L2


# --- the split of the budget ----------------------------------------------------------------------


@given(st.floats(0.1, 100.0), st.integers(1, 1000))
def test_both_splits_spend_exactly_the_budget(sigma, d):
    for split in (split_noise, split_noise_glloyd):
        first, second = split(sigma, d)
        assert 1 / first**2 + 1 / second**2 == pytest.approx(1 / sigma**2, rel=1e-12)


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["trusted", "ideal"])
@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("strategy", ["step", "constant"])
def test_noise_follows_the_radius_of_its_round(trust, bound, strategy):
    federation = public_only(5000, 2, trust=trust, bound=bound)
    plan = fastlloyd.plan(federation, n_clusters=15, epsilon=1.0, n_rounds=5, strategy=strategy)
    sigma = gaussian_sigma_analytic(1.0, default_delta(5000))
    shares = split_noise(sigma, 2)
    slack = np.sqrt(2) * federation.facts.resolution
    for radius, (sums, counts) in zip(plan.broadcasts("radius"), plan.mechanisms, strict=True):
        assert isinstance(sums, Gaussian) and isinstance(counts, Gaussian)
        assert sums.sensitivity == pytest.approx(radius + slack, rel=1e-12)
        assert sums.std == pytest.approx(shares[0] * (radius + slack) * np.sqrt(5), rel=1e-9)
        assert counts.sensitivity == 1.0
        assert counts.std == pytest.approx(shares[1] * np.sqrt(5), rel=1e-9)
    assert plan.delta == default_delta(5000) == 1 / (5000 * np.log(5000))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("noise", ["continuous", "discrete"])
def test_sulloyd_is_pure(mixture, epsilon, noise):
    federation = federation_of(mixture, noise=noise)
    result = lloyd_run("sulloyd", federation, n_clusters=3, epsilon=epsilon, n_rounds=3)
    assert federation.ledger.epsilon(0.0) == pytest.approx(epsilon, rel=1e-12)
    assert result.delta == 0.0
    kinds = (Laplace, Laplace) if noise == "continuous" else (DiscreteLaplace, DiscreteLaplace)
    assert all(isinstance(m, kinds) for pair in result.plan.mechanisms for m in pair)


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_sulloyd_splits_in_the_right_proportion(d):
    # pitfall P10: diffprivlib unpacks the two shares the wrong way round
    federation = public_only(10_000, d, bound=2.0)
    sums, counts = lloyd_run(
        "sulloyd", federation, n_clusters=3, epsilon=1.0, n_rounds=2
    ).plan.mechanisms[0]
    c = np.cbrt(4 * d * 0.225**2)
    norm = 1.0 / (2 * (d + c))
    assert sums.scale == pytest.approx(2.0 / norm)  # Lap(B/norm) per coordinate, L1 = d B
    assert counts.scale == pytest.approx(1 / (c * norm))
    assert 2 * (sums.pure_epsilon + counts.pure_epsilon) == pytest.approx(1.0)


def test_glloyd_has_its_own_split_and_sensitivity():
    federation = public_only(10_000, 4, bound=2.0)
    sums, counts = lloyd_run(
        "glloyd", federation, n_clusters=3, epsilon=1.0, n_rounds=2
    ).plan.mechanisms[0]
    shares = split_noise_glloyd(gaussian_sigma_analytic(1.0, default_delta(10_000)), 4)
    assert sums.sensitivity == pytest.approx(4.0)  # sqrt(4) * 2
    assert sums.std == pytest.approx(4.0 * shares[0] * np.sqrt(2))
    assert counts.std == pytest.approx(shares[1] * np.sqrt(2))


# --- the public part of a round -------------------------------------------------------------------

shapes = st.tuples(st.integers(1, 4), st.integers(1, 4))


@st.composite
def released_round(draw):
    k, d = draw(shapes)
    number = st.floats(-1e6, 1e6)
    centers = draw(hnp.arrays(float, (k, d), elements=st.floats(-1, 1)))
    sums = draw(hnp.arrays(float, (k, d), elements=number))
    counts = draw(hnp.arrays(float, (k,), elements=number))
    return centers, sums, counts, draw(st.floats(0.01, 3.0))


@given(released_round(), st.sampled_from(["fold", "truncate"]), st.sampled_from([1.0, None, 5.0]))
def test_new_centres_lie_in_the_box_and_within_the_radius(args, postprocess, count_floor):
    centers, sums, counts, radius = args
    new = update_centers(
        centers, sums, counts, radius=radius, postprocess=postprocess, count_floor=count_floor
    )
    assert (np.abs(new) <= 1.0).all()
    # both folding and truncating move two points apart by no more than before
    assert (np.linalg.norm(new - centers, axis=1) <= radius * (1 + 1e-9) + 1e-12).all()


@given(released_round())
def test_without_the_clip_the_step_is_the_ratio(args):
    centers, sums, counts, _ = args
    new = update_centers(centers, sums, counts, postprocess="none", count_floor=1.0)
    assert np.allclose(new, centers + sums / np.maximum(counts, 1)[:, None])
    options = {"postprocess": "none", "clip_step": False}
    assert np.array_equal(new, update_centers(centers, sums, counts, radius=0.01, **options))


@pytest.mark.parametrize("count", [-100.0, -0.3, 0.0, 0.2])
def test_tiny_counts_are_floored_or_follow_the_paper(count):
    centers, sums = np.zeros((1, 2)), np.array([[0.2, -0.1]])
    counts = np.array([count])
    assert np.allclose(update_centers(centers, sums, counts), sums)  # divided by 1
    paper = update_centers(centers, sums, counts, count_floor=None, postprocess="none")
    assert np.allclose(paper, sums / (count or 1e-9))


# --- equality with plain implementations ----------------------------------------------------------


def own_fastlloyd(points, centers, *, epsilon, delta, n_rounds, rng, alpha=0.8):
    """Algorithm 1 once more, in plain NumPy: B = 1, Step strategy, floor 1, clip, fold."""
    (k, d), n = centers.shape, len(points)
    sigma = gaussian_sigma_analytic(epsilon, delta)
    root = np.sqrt(4 * d)
    sigma_r, sigma_c = sigma * np.sqrt((1 + root) / root), sigma * np.sqrt(1 + root)
    for t in range(n_rounds):
        eta = np.sqrt(d) if t == 0 else alpha * np.sqrt(d) / k ** (1 / d)
        distances = np.sqrt(((points[:, None] - centers[None]) ** 2).sum(axis=2))
        owner = distances.argmin(axis=1)
        owner[distances[np.arange(n), owner] > eta] = -1
        sums, counts = np.zeros((k, d)), np.zeros(k)
        for j in range(k):
            sums[j] = (points[owner == j] - centers[j]).sum(axis=0)
            counts[j] = (owner == j).sum()
        sums = sums + rng.normal(0, sigma_r * eta * np.sqrt(n_rounds), (k, d))
        counts = counts + rng.normal(0, sigma_c * np.sqrt(n_rounds), k)
        step = sums / np.maximum(counts, 1)[:, None]
        length = np.linalg.norm(step, axis=1)
        step[length > eta] *= (eta / length[length > eta])[:, None]
        x = (centers + step + 1) % 4
        centers = np.where(x > 2, 4 - x, x) - 1
    return centers


@pytest.mark.parametrize(("epsilon", "seed"), [(0.1, 0), (1.0, 1), (10.0, 2)])
def test_fastlloyd_equals_a_plain_reading_of_algorithm_1(mixture, epsilon, seed):
    federation = federation_of(mixture, seed=seed)
    result = lloyd_run(
        "fastlloyd",
        federation,
        n_clusters=3,
        epsilon=epsilon,
        delta=1e-4,
        n_rounds=5,
        initial=CENTERS,
    )
    noise = np.random.default_rng(np.random.SeedSequence(seed).spawn(4)[1])
    expected = own_fastlloyd(mixture, CENTERS, epsilon=epsilon, delta=1e-4, n_rounds=5, rng=noise)
    assert np.allclose(result.centers, expected, atol=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))
def test_lloyd_equals_the_central_algorithm(seed, k, d, n_clients):
    rng = np.random.default_rng(seed)
    points, centers = rng.uniform(-1, 1, (40, d)), rng.uniform(-1, 1, (k, d))
    result = lloyd_run(
        "lloyd",
        federation_of(points, n_clients=n_clients),
        n_clusters=k,
        n_rounds=4,
        initial=centers,
    )
    assert np.allclose(result.centers, kmeans.lloyd(points, centers, n_rounds=4), atol=1e-10)


@pytest.mark.parametrize("method", ["fastlloyd", "glloyd", "sulloyd"])
def test_without_noise_to_speak_of_all_methods_are_lloyd(mixture, method):
    options = {"alpha": 50.0} if method == "fastlloyd" else {}
    result = lloyd_run(
        method,
        federation_of(mixture),
        n_clusters=3,
        epsilon=1e12,
        n_rounds=5,
        initial=CENTERS,
        **options,
    )
    # the first radius of Step is sqrt(2): every point of the mixture is nearer to its centre
    assert np.allclose(result.centers, kmeans.lloyd(mixture, CENTERS, n_rounds=5), atol=1e-4)


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fastlloyd", "glloyd", "sulloyd", "lloyd"])
@pytest.mark.parametrize("bound", [0.01, 40.0])
@pytest.mark.parametrize("initial", ["halving", "largest"])
def test_scaling_the_data_and_the_bound_scales_the_centres(mixture, method, bound, initial):
    options = {} if method == "lloyd" else {"epsilon": 1.0}
    one = lloyd_run(method, federation_of(mixture), n_clusters=3, initial=initial, **options)
    scaled = lloyd_run(
        method,
        federation_of(bound * mixture, bound=bound),
        n_clusters=3,
        initial=initial,
        **options,
    )
    assert one.plan.n_rounds == scaled.plan.n_rounds
    assert np.allclose(scaled.history, bound * one.history, rtol=1e-7, atol=1e-9 * bound)


def test_named_initial_centres_come_from_the_public_stream(mixture):
    for method in ("halving", "largest"):
        federation = federation_of(mixture, seed=6)
        result = lloyd_run("fastlloyd", federation, n_clusters=3, epsilon=1.0, initial=method)
        public = np.random.default_rng(np.random.SeedSequence(6).spawn(4)[0])
        assert np.array_equal(
            result.history[0], kmeans.sphere_packing(3, 2, rng=public, method=method)
        )
