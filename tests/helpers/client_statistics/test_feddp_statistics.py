"""FedDP statistics against plain loops; their slack, and rows and clients decided alone."""

import numpy as np
import pytest
from audit_tools import random_neighbours
from conftest import read_only as frozen
from threadpoolctl import threadpool_limits

from fedclust_helpers import client_statistics as cs
from fedclust_helpers import kmeans
from fedclust_helpers._nearest import squared_lengths
from fedclust_helpers.audit import audit_sensitivity

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
    if statistic in (cs.SERVER_POINT_WEIGHTS, cs.CLIENT_SERVER_POINT_WEIGHTS):
        out = {"basis": s["basis"], "server_points": s["server_points"]}
    elif statistic in (cs.PROJECTED_SUMS_AND_COUNTS, cs.CLIENT_MEANS):
        out = {"basis": s["basis"], "centers": s["projected_centers"]}
    elif statistic in (cs.BALL_SUMS_AND_COUNTS, cs.CLIENT_SUMS_AND_COUNTS):
        out = {"centers": s["centers"]}
    return out | {name: CLIPS[name] for name in CLIP_NAMES.get(statistic.name, ())}


CLIP_NAMES = {
    "client_outer_product": ("clip_outer",),
    "client_server_point_weights": ("clip_weights",),
    "client_means": ("clip_means", "clip_filled"),
    "client_sums_and_counts": ("clip_sums", "clip_counts"),
}
POINT = (
    cs.OUTER_PRODUCT,
    cs.SERVER_POINT_WEIGHTS,
    cs.PROJECTED_SUMS_AND_COUNTS,
    cs.BALL_SUMS_AND_COUNTS,
)
CLIENT = (
    cs.CLIENT_OUTER_PRODUCT,
    cs.CLIENT_SERVER_POINT_WEIGHTS,
    cs.CLIENT_MEANS,
    cs.CLIENT_SUMS_AND_COUNTS,
)
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
    projected = statistic in (cs.PROJECTED_SUMS_AND_COUNTS, cs.CLIENT_MEANS)
    sums, counts = np.zeros((K, D)), np.zeros(K)
    for x in rows:
        where = (
            nearest(x @ s["basis"], s["projected_centers"])
            if projected
            else nearest(x, s["centers"])
        )
        sums[where] += x
        counts[where] += 1
    if statistic is cs.CLIENT_MEANS:
        means = np.array([m / c if c else m for m, c in zip(sums, counts, strict=True)])
        filled = (counts > 0).astype(float)
        return clip(means, CLIPS["clip_means"], 2), clip(filled, CLIPS["clip_filled"], 1)
    if statistic is cs.CLIENT_SUMS_AND_COUNTS:
        return clip(sums, CLIPS["clip_sums"], 2), clip(counts, CLIPS["clip_counts"], 1)
    return sums, counts


@by_name
@pytest.mark.parametrize("batch", [1, 3, 8, 10**6])
def test_each_statistic_equals_a_loop_over_clients_and_rows(statistic, batch, monkeypatch):
    # small batches: clients are padded to equal size and taken out of order
    monkeypatch.setattr(cs.points, "PADDED_ROWS", batch)
    monkeypatch.setattr(cs.points, "BATCH_ROWS", batch)
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


# --- ties and margins -----------------------------------------------------------------------------


def test_a_row_counts_once_when_server_points_coincide():
    """Claim K6: with "at most as far as any other", one row would count for every duplicate."""
    points, server = (
        in_ball(np.random.default_rng(0), 50),
        np.repeat([[0.3, -0.2], [-0.5, 0.1]], 3, axis=0),
    )
    (weights,) = cs.SERVER_POINT_WEIGHTS.compute(
        points, np.array([0, 50]), basis=np.eye(D)[:, :R], server_points=server
    )
    assert weights.sum() == 50
    assert not weights[0, [1, 2, 4, 5]].any() and weights[0, [0, 3]].all()


@pytest.mark.parametrize("margin", [1.0, 0.7, 1 / 3, 0.05])
def test_margin_counts_only_rows_that_are_clearly_nearer(margin, monkeypatch):
    monkeypatch.setattr(kmeans, "CHUNK", 6)
    s = setting(4)
    sums, counts = cs.PROJECTED_SUMS_AND_COUNTS.compute(
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


# --- sensitivity ----------------------------------------------------------------------------------


def claims(statistic, adjacency, norm, grid=0.0):
    public = {"bound": BOUND, "n_features": D, "n_clusters": K, "n_server_points": Q, **CLIPS}
    return tuple(
        statistic.sensitivity_of(part, norm, adjacency, grid=grid, **public)
        for part in statistic.parts
    )


@pytest.mark.parametrize(
    "statistic",
    [cs.CLIENT_SUMS_AND_COUNTS, cs.CLIENT_RELATIVE_SUMS_AND_COUNTS, cs.CLIENT_MEANS],
    ids=lambda statistic: statistic.name,
)
@pytest.mark.parametrize(("adjacency", "changed"), [("add/remove", 1), ("replace-one", 2)])
def test_rounding_of_a_clients_counts_costs_a_step_for_each_cluster(statistic, adjacency, changed):
    plain, rounded = (claims(statistic, adjacency, 1, grid)[1] for grid in (0.0, 2.0**-6))
    assert rounded - plain == changed * K * 2.0**-6


def total(statistic, s, *, grid=0.0):
    """The exact statistic over a list of clients (arrays of rows), rounded by each client."""

    def run(clients):
        clients = [c for c in clients if len(c)]
        offsets = np.concatenate([[0], np.cumsum([len(c) for c in clients])]).astype(int)
        values = statistic.compute(np.concatenate(clients), offsets, **broadcast(statistic, s))
        rounded = [
            np.rint(v / grid) * grid
            if grid and not (grid < 1 and p in ("weights", "counts") and statistic in POINT)
            else v
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


def add_client(clients, rng):
    return [*clients, in_ball(rng, int(rng.integers(1, 30)))]


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
        total(cs.OUTER_PRODUCT, setting()), [([x], [y])], claims(cs.OUTER_PRODUCT, "replace-one", 2)
    )
    assert audit.ratio == pytest.approx((1.0,))
    assert claims(cs.OUTER_PRODUCT, "replace-one", 2)[0] == pytest.approx(np.sqrt(2) * BOUND**2)
    # the same vector twice, or its negative, is no change at all
    assert np.array_equal(x.T @ x, (-x).T @ (-x))


@by_name
@pytest.mark.parametrize("grid", [2.0**-3, 0.5, 3.0, 1000.0])
def test_rounding_by_each_client_stays_within_the_slack(statistic, grid):
    """Counts are integers, but not multiples of a coarse grid: one row may move one by a step."""
    change = add_row if statistic.unit == "point" else add_client

    def clients(rng):
        if grid < 1:
            return make_clients(rng)
        # a client whose next row tips a count over the edge of a step
        return [np.repeat(in_ball(rng, 1), int(grid) // 2, axis=0), in_ball(rng, 2)]

    for norm in (1, 2):
        pairs = random_neighbours(clients, change, 30, rng=np.random.default_rng(11))
        claimed = claims(statistic, "add/remove", norm, grid)
        audit = audit_sensitivity(total(statistic, setting(), grid=grid), pairs, claimed, norm=norm)
        assert audit.passed, str(audit)


# --- numbers far from 1 ---------------------------------------------------------------------------


def test_a_client_that_overflows_contributes_nothing():
    """And says so to nobody: neither a number nor an error tells the others."""
    s = setting(7)
    rows = np.array(s["points"])
    rows[: SIZES[0]] *= 1e200  # the first client's outer product is inf
    grams = cs.CLIENT_OUTER_PRODUCT.compute(rows, s["offsets"], clip_outer=3.0)[0]
    assert not grams[0].any() and grams[1:].any(axis=(1, 2)).all()
    pooled = cs.CLIENT_OUTER_PRODUCT.pooled(rows, s["offsets"], clip_outer=3.0)[0]
    assert pooled == pytest.approx(grams.sum(axis=0), rel=1e-10)


# --- a row is decided and cut by itself -----------------------------------------------------------


def shuffled(n, d, k, r, seed=3):
    """Rows with equal coordinates, targets that are shuffles of one, a basis of equal numbers.

    In exact arithmetic all targets are equally far from every row.
    """
    rng = np.random.default_rng(seed)
    targets = np.stack([rng.permutation(np.linspace(-1, 1, r) + 0.1) for _ in range(k)])
    return np.repeat(rng.uniform(-1, 1, (n, 1)), d, axis=1), np.full((d, r), 0.3), targets


def almost(n, d, k, r, seed=3):
    """Rows whose projection lies in the middle of two targets, up to rounding."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, r)))[0]
    targets = rng.uniform(-1, 1, (k, r))
    middle = (targets[rng.integers(k, size=n)] + targets[rng.integers(k, size=n)]) / 2
    return middle @ basis.T, basis, targets


def on_the_margin(n, d, k, r, seed=3):
    """Rows exactly three times as far from the second target as from the first, up to rounding."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, r)))[0]
    targets = rng.uniform(-1, 1, (k, r))
    near, far = targets[rng.integers(k, size=n)], targets[rng.integers(k, size=n)]
    return (near * 0.75 + far * 0.25) @ basis.T, basis, targets


SETTINGS = [
    (kind, shape)
    for kind in (shuffled, almost, on_the_margin)
    for shape in ((16, 12, 8), (40, 60, 4))
]


@pytest.mark.parametrize(("kind", "shape"), SETTINGS)
@pytest.mark.parametrize("margin", [1.0, 1 / 3])
def test_projected_labels_and_margins_depend_on_the_row_alone(kind, shape, margin, monkeypatch):
    d, k, r = shape
    points, basis, targets = kind(2503, d, k, r)
    whole = cs.points.labels_with_margin(points, basis, targets, margin)
    for n in (1, 2, 3, 5, 8, 100, 1041, 1042, 2083, 2499, 2500, 2501):
        labels = cs.points.labels_with_margin(points[:n], basis, targets, margin)
        assert np.array_equal(labels, whole[:n])
    order = np.random.default_rng(1).permutation(len(points))
    shuffle = cs.points.labels_with_margin(points[order], basis, targets, margin)
    assert np.array_equal(shuffle, whole[order])
    for threads in (1, 2):
        with threadpool_limits(threads):
            again = cs.points.labels_with_margin(points, basis, targets, margin)
        assert np.array_equal(again, whole)
    for chunk in (1, 7, 640):
        monkeypatch.setattr(kmeans, "CHUNK", chunk)
        again = cs.points.labels_with_margin(points, basis, targets, margin)
        assert np.array_equal(again, whole)


def residuals(rows, centers, clip, basis=None):
    """What each row alone adds to the sums: one client for each row."""
    basis = np.eye(rows.shape[1]) if basis is None else basis
    return cs.CUT_RELATIVE_SUMS_AND_COUNTS.compute(
        rows, np.arange(len(rows) + 1), basis=basis, centers=centers, radius=clip
    )


@pytest.mark.parametrize("clip", [1e-12, 0.7, 1.0, 1e9])
@pytest.mark.parametrize("offset", [0.0, 1.6e9, -1e15, 1e150])
@pytest.mark.parametrize("spread", [1e-300, 1e-9, 1.0, 1e6, 1e140])
def test_no_row_adds_more_than_the_clip_wherever_it_lies(clip, offset, spread):
    rng = np.random.default_rng(2)
    centers = rng.normal(size=(4, 3)) * spread + offset
    rows = rng.normal(size=(300, 3)) * spread * 10.0 ** rng.integers(-2, 6, (300, 1)) + offset
    sums, counts = residuals(rows, centers, clip)
    lengths = np.linalg.norm(sums.sum(axis=1).astype(np.longdouble), axis=1)
    assert (lengths <= clip).all() and (counts.sum(axis=1) == 1).all()
    # cut, not lost: rows that are longer than the clip keep nearly all of it
    labels = counts.argmax(axis=1)
    true = np.linalg.norm((rows - centers[labels]).astype(np.longdouble), axis=1)
    expected = np.minimum(true, clip)
    assert np.allclose(lengths[true > 0], expected[true > 0], rtol=1e-9, atol=1e-150)


def test_a_factor_depends_on_the_row_alone():
    rng = np.random.default_rng(6)
    rows, centers = rng.normal(size=(900, 24)) + 0.3, rng.normal(size=(5, 24))
    whole = residuals(rows, centers, 4.5)[0]
    for n in (1, 2, 3, 4, 7, 64, 500, 899):
        assert np.array_equal(residuals(rows[:n], centers, 4.5)[0], whole[:n])
    order = rng.permutation(900)
    assert np.array_equal(residuals(rows[order], centers, 4.5)[0], whole[order])
    # among rows that are all short or all long the clip takes another path
    lengths = np.linalg.norm(whole.sum(axis=1), axis=1)
    for some in (lengths < 4.49, lengths > 4.49):
        assert some.any() and np.array_equal(residuals(rows[some], centers, 4.5)[0], whole[some])


@pytest.mark.parametrize("bound", [1e-200, 1e-12, 1.0, 1e200])
def test_factors_are_finite_and_never_too_large(bound):
    norms = np.array([0.0, 5e-324, 1e-310, 1e-12, 1.0, 3.0, 1e154, 1e308, np.inf, np.nan])
    factors = cs.clipping.shrink(norms, bound)
    assert np.isfinite(factors).all() and ((factors >= 0) & (factors <= 1)).all()
    assert not factors[-2:].any() and factors[0] == 1
    assert (norms[:-2].astype(np.longdouble) * factors[:-2] <= bound).all()


def test_the_length_of_a_row_is_never_taken_too_short():
    rng = np.random.default_rng(8)
    for scale in (1e-320, 1e-170, 1e-160, 1e-150, 1.0, 1e150):
        rows = rng.normal(size=(200, 7)) * scale
        exact = np.sqrt((rows.astype(np.longdouble) ** 2).sum(axis=1))
        for squares in (squared_lengths(rows), np.einsum("ij,ij->i", rows, rows)):
            lengths = cs.clipping.lengths(squares, 7)
            assert (lengths >= exact).all()
            assert (lengths <= exact * (1 + 1e-14) + 1e-160).all()


# --- a client's statistic is its own, to the last bit ---------------------------------------------


@pytest.mark.parametrize("statistic", [cs.OUTER_PRODUCT, cs.CLIENT_OUTER_PRODUCT])
@pytest.mark.parametrize("d", [1, 3, 8, 17, 64])
def test_an_outer_product_does_not_depend_on_the_other_clients(statistic, d):
    """Other clients may be larger, smaller, more or none: the last bits would tell of them."""
    rng = np.random.default_rng(d)
    own = [rng.normal(size=(n, d)) for n in (1, 2, 5, 9, 30, 77, 300)]
    extra = {"clip_outer": 5.0} if statistic is cs.CLIENT_OUTER_PRODUCT else {}

    def of(clients):
        offsets = np.cumsum([0] + [len(c) for c in clients])
        return statistic.compute(np.concatenate(clients), offsets, **extra)[0]

    alone = [of([c])[0] for c in own]
    for company in (own, own[::-1], [*own, rng.normal(size=(1000, d))], own * 3):
        together = of(company)
        for c, value in zip(company, together, strict=True):
            mine = [a for a, o in zip(alone, own, strict=True) if o is c]
            if mine:
                assert np.array_equal(mine[0], value)
