"""Statistics of FedDP-KMeans against plain loops, and their sensitivities against neighbours."""

import numpy as np
import pytest

from fedclust_helpers import kmeans
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.audit import audit_sensitivity, random_neighbours
from fedclust_helpers.client_statistics import (
    BALL_SUMS_AND_COUNTS,
    CLIENT_MEANS,
    CLIENT_OUTER_PRODUCT,
    CLIENT_SERVER_POINT_WEIGHTS,
    CLIENT_SUMS_AND_COUNTS,
    OUTER_PRODUCT,
    PROJECTED_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
    STATISTICS,
    server_data,
)
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import Gaussian

D, R, K, Q = 5, 2, 3, 7
SIZES = (4, 1, 9, 1, 2, 6)  # unequal clients, two with a single row
BOUND = 2.0
CLIPS = {
    "clip_outer": 6.0,
    "clip_weights": 3.0,
    "clip_means": 1.0,
    "clip_filled": 1.5,
    "clip_sums": 3.0,
    "clip_counts": 2.5,
}


def frozen(array):
    array = np.array(array, dtype=np.float64)
    array.flags.writeable = False
    return array


def in_ball(rng, n, d=D, bound=BOUND):
    rows = rng.normal(size=(n, d))
    return rows * (bound * rng.random((n, 1)) / np.linalg.norm(rows, axis=1, keepdims=True))


def setting(seed=0):
    """Rows, offsets, and the broadcast arrays: a basis, projected server points, centres."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    basis = frozen(np.linalg.qr(rng.normal(size=(D, R)))[0])
    return {
        "points": frozen(in_ball(rng, offsets[-1])),
        "offsets": offsets,
        "basis": basis,
        "server_points": frozen(in_ball(rng, Q) @ basis),
        "projected_centers": frozen(in_ball(rng, K) @ basis),
        "centers": frozen(in_ball(rng, K)),
    }


def broadcast(statistic, s):
    """The arguments that every client would be sent."""
    out = {}
    if statistic in (SERVER_POINT_WEIGHTS, CLIENT_SERVER_POINT_WEIGHTS):
        out = {"basis": s["basis"], "server_points": s["server_points"]}
    elif statistic in (PROJECTED_SUMS_AND_COUNTS, CLIENT_MEANS):
        out = {"basis": s["basis"], "centers": s["projected_centers"]}
    elif statistic in (BALL_SUMS_AND_COUNTS, CLIENT_SUMS_AND_COUNTS):
        out = {"centers": s["centers"]}
    return out | {name: CLIPS[name] for name in CLIP_NAMES.get(statistic.name, ())}


CLIP_NAMES = {
    "client_outer_product": ("clip_outer",),
    "client_server_point_weights": ("clip_weights",),
    "client_means": ("clip_means", "clip_filled"),
    "client_sums_and_counts": ("clip_sums", "clip_counts"),
}
POINT = (OUTER_PRODUCT, SERVER_POINT_WEIGHTS, PROJECTED_SUMS_AND_COUNTS, BALL_SUMS_AND_COUNTS)
CLIENT = (CLIENT_OUTER_PRODUCT, CLIENT_SERVER_POINT_WEIGHTS, CLIENT_MEANS, CLIENT_SUMS_AND_COUNTS)
by_name = pytest.mark.parametrize("statistic", POINT + CLIENT, ids=lambda s: s.name)


# --- plain loops ----------------------------------------------------------------------------------


def clip(array, bound, order):
    norm = np.linalg.norm(array.ravel(), order)
    return array * min(1.0, bound / norm) if norm > 0 else array


def nearest(row, targets):
    distances = [float(np.linalg.norm(row - t)) for t in targets]
    return distances.index(min(distances))


def loop_of_one_client(statistic, rows, s):
    """What one client should send, row by row."""
    kind = statistic.name.removeprefix("client_")
    if kind == "outer_product":
        total = sum((np.outer(x, x) for x in rows), np.zeros((D, D)))
        return (clip(total, CLIPS["clip_outer"], 2),) if statistic in CLIENT else (total,)
    if kind == "server_point_weights":
        counts = np.zeros(Q)
        for x in rows:
            counts[nearest(x @ s["basis"], s["server_points"])] += 1
        return (clip(counts, CLIPS["clip_weights"], 1),) if statistic in CLIENT else (counts,)
    projected = statistic in (PROJECTED_SUMS_AND_COUNTS, CLIENT_MEANS)
    sums, counts = np.zeros((K, D)), np.zeros(K)
    for x in rows:
        where = (
            nearest(x @ s["basis"], s["projected_centers"])
            if projected
            else nearest(x, s["centers"])
        )
        sums[where] += x
        counts[where] += 1
    if statistic is CLIENT_MEANS:
        means = np.array([m / c if c else m for m, c in zip(sums, counts, strict=True)])
        filled = (counts > 0).astype(float)
        return clip(means, CLIPS["clip_means"], 2), clip(filled, CLIPS["clip_filled"], 1)
    if statistic is CLIENT_SUMS_AND_COUNTS:
        return clip(sums, CLIPS["clip_sums"], 2), clip(counts, CLIPS["clip_counts"], 1)
    return sums, counts


@by_name
@pytest.mark.parametrize("batch", [1, 3, 8, 10**6])
def test_each_statistic_equals_a_loop_over_clients_and_rows(statistic, batch, monkeypatch):
    # small batches: clients are padded to equal size and taken out of order
    monkeypatch.setattr(server_data, "PADDED_ROWS", batch)
    monkeypatch.setattr(kmeans, "CHUNK", 5)
    s = setting()
    values = statistic.compute(s["points"], s["offsets"], **broadcast(statistic, s))
    assert len(values) == len(statistic.parts)
    expected = [
        loop_of_one_client(statistic, s["points"][a:b], s)
        for a, b in zip(s["offsets"], s["offsets"][1:], strict=False)
    ]
    for part, value in enumerate(values):
        assert value.dtype == np.float64
        assert value == pytest.approx(np.stack([e[part] for e in expected]), abs=1e-12)


@pytest.mark.parametrize("statistic", POINT, ids=lambda s: s.name)
def test_a_sum_over_rows_does_not_depend_on_who_owns_them(statistic):
    s = setting(1)
    together = np.array([0, len(s["points"])])
    apart = statistic.compute(s["points"], s["offsets"], **broadcast(statistic, s))
    for a, b in zip(
        apart, statistic.compute(s["points"], together, **broadcast(statistic, s)), strict=True
    ):
        assert a.sum(axis=0) == pytest.approx(b[0], abs=1e-12)


@pytest.mark.parametrize("batch", [1, 8, 10**6])
def test_pooled_outer_products_equal_the_sum_of_the_clients(batch, monkeypatch):
    monkeypatch.setattr(server_data, "PADDED_ROWS", batch)
    monkeypatch.setattr(kmeans, "CHUNK", 4)
    s = setting(2)
    for bound in (1e-3, 1.0, 1e6):
        apart = CLIENT_OUTER_PRODUCT.compute(s["points"], s["offsets"], clip_outer=bound)[0]
        pooled = CLIENT_OUTER_PRODUCT.pooled(s["points"], s["offsets"], clip_outer=bound)[0]
        assert pooled == pytest.approx(apart.sum(axis=0), rel=1e-10, abs=1e-12)


def test_many_random_sizes_go_through_the_batches(monkeypatch):
    monkeypatch.setattr(server_data, "PADDED_ROWS", 16)
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 12, size=40)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    points = in_ball(rng, offsets[-1])
    seen = np.zeros(len(sizes), dtype=int)
    for clients, batch in server_data._batches(points, offsets):
        seen[clients] += 1
        assert len(clients) == 1 or batch.shape[0] * batch.shape[1] <= 16
        for i, rows in zip(clients, batch, strict=True):
            assert np.array_equal(rows[: sizes[i]], points[offsets[i] : offsets[i + 1]])
            assert not rows[sizes[i] :].any()
    assert (seen == 1).all()


def test_all_are_known_by_name_and_speak_of_the_right_unit():
    for statistic in POINT + CLIENT:
        assert STATISTICS[statistic.name] is statistic
        assert statistic.unit == ("client" if statistic in CLIENT else "point")


# --- ties and margins -----------------------------------------------------------------------------


def test_a_row_counts_once_when_server_points_coincide():
    """Claim K6: with "at most as far as any other", one row would count for every duplicate."""
    rng = np.random.default_rng(0)
    points, basis = in_ball(rng, 50), np.eye(D)[:, :R]
    server = np.repeat([[0.3, -0.2], [-0.5, 0.1]], 3, axis=0)
    weights = SERVER_POINT_WEIGHTS.compute(
        points, np.array([0, 50]), basis=basis, server_points=server
    )[0][0]
    assert weights.sum() == 50
    assert not weights[[1, 2, 4, 5]].any() and weights[[0, 3]].all()
    # points that differ can still coincide in the subspace
    assert np.linalg.norm(np.array([0, 0, 1, 0, 0]) @ basis) == 0
    pairs = [(points, points[1:])]
    audit = audit_sensitivity(
        lambda x: SERVER_POINT_WEIGHTS.compute(
            x, np.array([0, len(x)]), basis=basis, server_points=server
        )[0][0],
        pairs,
        1.0,
        norm=1,
    )
    assert audit.worst == (1.0,)


@pytest.mark.parametrize("n_targets", [1, 4, 40])
def test_nearest_server_point_in_the_subspace_by_both_formulas(n_targets):
    # few targets fold basis and targets into one product, many do not
    rng = np.random.default_rng(5)
    points, basis = in_ball(rng, 200), np.linalg.qr(rng.normal(size=(D, R)))[0]
    targets = in_ball(rng, n_targets) @ basis
    weights = SERVER_POINT_WEIGHTS.compute(
        points, np.array([0, 200]), basis=basis, server_points=targets
    )[0][0]
    expected = kmeans.assign(points @ basis, targets).labels
    assert np.array_equal(weights, np.bincount(expected, minlength=n_targets))


@pytest.mark.parametrize("margin", [1.0, 0.7, 1 / 3, 0.05])
def test_margin_counts_only_rows_that_are_clearly_nearer(margin, monkeypatch):
    monkeypatch.setattr(kmeans, "CHUNK", 6)
    s = setting(4)
    sums, counts = PROJECTED_SUMS_AND_COUNTS.compute(
        s["points"], s["offsets"], basis=s["basis"], centers=s["projected_centers"], margin=margin
    )
    expected_sums, expected_counts = np.zeros((K, D)), np.zeros(K)
    for x in s["points"]:
        distances = np.linalg.norm(x @ s["basis"] - s["projected_centers"], axis=1)
        first, second = np.sort(distances)[:2]
        if first <= margin * second:
            expected_sums[distances.argmin()] += x
            expected_counts[distances.argmin()] += 1
    assert sums.sum(axis=0) == pytest.approx(expected_sums)
    assert np.array_equal(counts.sum(axis=0), expected_counts)


def test_one_center_is_clear_to_everybody():
    s = setting(4)
    counts = PROJECTED_SUMS_AND_COUNTS.compute(
        s["points"], s["offsets"], basis=s["basis"], centers=s["projected_centers"][:1], margin=0.1
    )[1]
    assert counts[:, 0].tolist() == list(SIZES)


# --- sensitivity ----------------------------------------------------------------------------------


def claims(statistic, adjacency, norm, grid=0.0):
    public = {"bound": BOUND, "n_features": D, "n_clusters": K, "n_server_points": Q, **CLIPS}
    return tuple(
        statistic.sensitivity_of(part, norm, adjacency, grid=grid, **public)
        for part in statistic.parts
    )


def total(statistic, s, *, grid=0.0):
    """The exact statistic over a list of clients (arrays of rows), rounded by each client."""

    def run(clients):
        clients = [c for c in clients if len(c)]
        offsets = np.concatenate([[0], np.cumsum([len(c) for c in clients])]).astype(int)
        values = statistic.compute(np.concatenate(clients), offsets, **broadcast(statistic, s))
        rounded = [
            np.rint(v / grid) * grid if grid and p not in statistic.integral else v
            for p, v in zip(statistic.parts, values, strict=True)
        ]
        return tuple(v.sum(axis=0) for v in rounded)

    return run


def make_clients(rng):
    return [in_ball(rng, n) for n in (3, 1, 5)]


def extreme_row(rng):
    row = in_ball(rng, 1)
    return row / np.linalg.norm(row) * BOUND  # a row on the sphere moves most


def add_row(clients, rng):
    i = int(rng.integers(len(clients)))
    return [np.vstack([c, extreme_row(rng)]) if j == i else c for j, c in enumerate(clients)]


def replace_row(clients, rng):
    i = int(rng.integers(len(clients)))
    return [np.vstack([c[1:], extreme_row(rng)]) if j == i else c for j, c in enumerate(clients)]


def add_client(clients, rng):
    return [*clients, in_ball(rng, int(rng.integers(1, 30)))]


def replace_client(clients, rng):
    return [*clients[1:], in_ball(rng, int(rng.integers(1, 30)))]


@by_name
@pytest.mark.parametrize("adjacency", ["add/remove", "replace-one"])
@pytest.mark.parametrize("norm", [1, 2])
def test_no_neighbour_moves_a_statistic_further_than_claimed(statistic, adjacency, norm):
    changes = {
        ("point", "add/remove"): add_row,
        ("point", "replace-one"): replace_row,
        ("client", "add/remove"): add_client,
        ("client", "replace-one"): replace_client,
    }
    pairs = random_neighbours(
        make_clients, changes[statistic.unit, adjacency], 60, rng=np.random.default_rng(norm)
    )
    audit = audit_sensitivity(
        total(statistic, setting()), pairs, claims(statistic, adjacency, norm), norm=norm
    )
    assert audit.passed, str(audit)


@by_name
def test_the_bounds_that_noise_is_calibrated_to_are_attained(statistic):
    """L2 for Gaussian parts, L1 for counts: what FedDP-KMeans asks for."""
    rng = np.random.default_rng(9)
    clients = make_clients(rng)
    changed = (
        add_row(clients, rng)
        if statistic.unit == "point"
        else [*clients, in_ball(rng, 40)]  # 40 rows exceed every clip bound
    )
    one, both = claims(statistic, "add/remove", 1), claims(statistic, "add/remove", 2)
    norms = [1 if part in ("weights", "counts", "filled") else 2 for part in statistic.parts]
    claimed = tuple(one[i] if norm == 1 else both[i] for i, norm in enumerate(norms))
    audit = audit_sensitivity(
        total(statistic, setting()), [(clients, changed)], claimed, norm=tuple(norms)
    )
    assert audit.passed and min(audit.ratio) > 0.99, str(audit)


def test_replacing_a_row_moves_the_outer_product_by_sqrt_2_only():
    x, y = np.zeros((2, 1, D))
    x[0, 0], y[0, 1] = BOUND, BOUND
    audit = audit_sensitivity(
        total(OUTER_PRODUCT, setting()), [([x], [y])], claims(OUTER_PRODUCT, "replace-one", 2)
    )
    assert audit.ratio == pytest.approx((1.0,))
    assert claims(OUTER_PRODUCT, "replace-one", 2)[0] == pytest.approx(np.sqrt(2) * BOUND**2)
    # the same vector twice, or its negative, is no change at all
    assert np.array_equal(x.T @ x, (-x).T @ (-x))


def test_the_radius_is_not_the_sensitivity_of_the_outer_product():
    """What the released code of the paper noises for: Delta where Delta^2 is needed."""
    rng = np.random.default_rng(1)
    clients = make_clients(rng)
    audit = audit_sensitivity(
        total(OUTER_PRODUCT, setting()), [(clients, add_row(clients, rng))], BOUND
    )
    assert not audit.passed and audit.ratio == pytest.approx((BOUND,))


@by_name
@pytest.mark.parametrize("grid", [2.0**-3, 0.5])
def test_rounding_by_each_client_stays_within_the_slack(statistic, grid):
    change = add_row if statistic.unit == "point" else add_client
    for norm in (1, 2):
        pairs = random_neighbours(make_clients, change, 40, rng=np.random.default_rng(11))
        audit = audit_sensitivity(
            total(statistic, setting(), grid=grid),
            pairs,
            claims(statistic, "add/remove", norm, grid),
            norm=norm,
        )
        assert audit.passed, str(audit)


def test_slack_grows_with_the_coordinates_that_one_record_touches():
    g = 2.0**-4
    assert claims(OUTER_PRODUCT, "add/remove", 2, g)[0] == pytest.approx(BOUND**2 + g * D)
    assert claims(PROJECTED_SUMS_AND_COUNTS, "add/remove", 2, g) == pytest.approx(
        (BOUND + g * np.sqrt(D), 1.0)
    )
    assert claims(CLIENT_MEANS, "add/remove", 2, g)[0] == pytest.approx(
        CLIPS["clip_means"] + g * np.sqrt(K * D)
    )
    assert claims(CLIENT_SERVER_POINT_WEIGHTS, "add/remove", 1, g)[0] == pytest.approx(
        CLIPS["clip_weights"] + g * Q
    )
    assert claims(SERVER_POINT_WEIGHTS, "add/remove", 1, g) == (1.0,)  # integers need none


@by_name
def test_magnitudes_bound_every_coordinate_of_one_record(statistic):
    s = setting()
    rng = np.random.default_rng(2)
    bounds = statistic.magnitude(bound=BOUND, n_features=D, **CLIPS)
    for _ in range(30):
        rows = extreme_row(rng) if statistic.unit == "point" else in_ball(rng, 30)
        values = statistic.compute(rows, np.array([0, len(rows)]), **broadcast(statistic, s))
        for part, value in zip(statistic.parts, values, strict=True):
            assert np.abs(value).max() <= bounds[part] * (1 + 1e-12)


# --- numbers far from 1 ---------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", CLIENT, ids=lambda s: s.name)
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e-80, 1.0, 1e80, 1e150])
@pytest.mark.parametrize("clip", [1e-170, 1e-3, 1e3, 1e150])
def test_nobody_is_cut_less_than_the_clip_says_on_any_scale(statistic, scale, clip):
    """Squares that underflow or overflow decide nothing: what is sent is finite and short."""
    s = setting(6)
    rows = s["points"] * scale
    given = dict.fromkeys(CLIP_NAMES[statistic.name], clip)
    arrays = {n: v for n, v in broadcast(statistic, s).items() if n not in given}
    values = statistic.compute(rows, s["offsets"], **arrays, **given)
    for part, value in zip(statistic.parts, values, strict=True):
        assert np.isfinite(value).all()
        for one in value.reshape(len(value), -1):
            largest = np.abs(one).max()
            if part in ("weights", "filled", "counts"):
                assert np.abs(one).sum() <= clip * (1 + 1e-12)
            elif largest > 0:
                assert largest * np.linalg.norm(one / largest) <= clip * (1 + 1e-12)
    if statistic.pooled is not None:
        pooled = statistic.pooled(rows, s["offsets"], **given)[0]
        # relative to what one client may add: sums of very different sizes round differently
        assert np.abs(pooled - values[0].sum(axis=0)).max() <= 1e-9 * clip * len(SIZES)


def test_a_client_that_overflows_contributes_nothing():
    """And says so to nobody: neither a number nor an error tells the others."""
    s = setting(7)
    rows = np.array(s["points"])
    rows[: SIZES[0]] *= 1e200  # the first client's outer product is inf
    grams = CLIENT_OUTER_PRODUCT.compute(rows, s["offsets"], clip_outer=3.0)[0]
    assert not grams[0].any() and grams[1:].any(axis=(1, 2)).all()
    pooled = CLIENT_OUTER_PRODUCT.pooled(rows, s["offsets"], clip_outer=3.0)[0]
    assert pooled == pytest.approx(grams.sum(axis=0), rel=1e-10)


# --- domains --------------------------------------------------------------------------------------


def test_statistics_for_a_ball_are_refused_on_a_box():
    """A row of the box may be sqrt(d) times as long: the noise would be d times too small."""
    rows = np.random.default_rng(0).uniform(-1, 1, (20, D))
    s = setting()
    ball = (OUTER_PRODUCT, PROJECTED_SUMS_AND_COUNTS, BALL_SUMS_AND_COUNTS)
    for statistic in POINT + CLIENT:
        assert statistic.domain == ("ball" if statistic in ball else "any")
        fed = simulate(
            [rows], "ideal", seed=0, bound=1.0, domain="box",
            ledger=PrivacyLedger(unit=statistic.unit),
        )  # fmt: skip
        noise = [Gaussian(1e3, 1e3) for _ in statistic.parts]
        arguments = broadcast(statistic, s)
        if statistic in ball:
            with pytest.raises(ValueError, match="domain='ball'"):
                fed.noisy_sum(statistic, noise, round=0, **arguments)
            assert not fed.ledger.releases
        else:
            fed.check_release(statistic, noise, **arguments)


def test_lengths_in_a_box_exceed_what_the_noise_for_a_ball_hides():
    corner = np.full((1, D), BOUND)
    change = np.linalg.norm(OUTER_PRODUCT.compute(corner, np.array([0, 1]))[0])
    assert change == pytest.approx(D * claims(OUTER_PRODUCT, "add/remove", 2)[0])


@by_name
@pytest.mark.parametrize("grid", [3.0, 1000.0])
def test_rounding_to_grids_coarser_than_integers_is_paid_for(statistic, grid):
    """Counts are integers, but not multiples of a coarse grid: one row may move one by a step."""
    change = add_row if statistic.unit == "point" else add_client
    s = setting()

    def rounded(clients):
        offsets = np.concatenate([[0], np.cumsum([len(c) for c in clients])]).astype(int)
        values = statistic.compute(np.concatenate(clients), offsets, **broadcast(statistic, s))
        return tuple((np.rint(v / grid) * grid).sum(axis=0) for v in values)

    def edge(rng):  # a client whose next row tips a count over the edge of a step
        return [np.repeat(in_ball(rng, 1), int(grid) // 2, axis=0), in_ball(rng, 2)]

    for norm in (1, 2):
        pairs = random_neighbours(edge, change, 20, rng=np.random.default_rng(norm))
        claimed = claims(statistic, "add/remove", norm, grid)
        audit = audit_sensitivity(rounded, pairs, claimed, norm=norm)
        assert audit.passed, str(audit)
