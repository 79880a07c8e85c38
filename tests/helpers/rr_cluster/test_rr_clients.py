"""What a client sends: finite, cut, and a function of its own rows alone, bit for bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fedclust_helpers import client_statistics as cs
from fedclust_helpers.client_statistics.clipping import clip_clients
from fedclust_helpers.rr_cluster.models import LinearRegression, OneHiddenLayer, SoftmaxRegression

STATISTICS = {
    "blocks": cs.MODEL_BLOCKS,
    "fesem blocks": cs.NEAREST_BLOCKS,
    "ifca": cs.CLIENT_UPDATES,
    "fesem": cs.NEAREST_UPDATES,
    "fedcam": cs.ADDITIVE_UPDATES,
    "fedper": cs.SHARED_UPDATE,
}
MODELS: dict[str, Any] = {
    "softmax": lambda p: SoftmaxRegression(p, 4),
    "hidden": lambda p: OneHiddenLayer(p, 6, 4),
    "linear": lambda p: LinearRegression(p),
}
every_statistic = pytest.mark.parametrize("statistic", list(STATISTICS))
every_model = pytest.mark.parametrize("model", list(MODELS))


def examples(model, sizes, p, *, rng, scale=1.0):
    """Rows (one more column for a regression), offsets, labels."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    points = scale * rng.normal(size=(offsets[-1], p + (model == "linear")))
    labels = None if model == "linear" else rng.integers(0, 4, offsets[-1])
    return points, offsets, labels


def sent(statistic, model, models, points, offsets, labels, *, clip=0.7, memory=None, **more):
    """What each client sends, flattened to one row a client."""
    common = {"common": models[0] / 3} if statistic == "fedcam" else {}
    given_ = models[:1] if statistic == "fedper" else models
    how = {"n_steps": 4, "learning_rate": 0.3} | more
    parts = STATISTICS[statistic].compute(
        points, offsets, labels=labels, memory=memory, model=model, models=given_, clip=clip,
        **how, **common,
    )  # fmt: skip
    return np.concatenate([part.reshape(len(offsets) - 1, -1) for part in parts], axis=1)


def take(data, chosen):
    points, offsets, labels = data
    rows = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in chosen])
    sizes = np.diff(offsets)[list(chosen)]
    return points[rows], np.concatenate([[0], np.cumsum(sizes)]), (
        None if labels is None else labels[rows]
    )  # fmt: skip


# --- a client's message depends on its own rows alone ---------------------------------------------


def check_alone(statistic, model_name, sizes, p, k, seed, *, memory):
    rng = np.random.default_rng(seed)
    model = MODELS[model_name](p)
    models = model.initial(k, rng=rng)
    data = examples(model_name, sizes, p, rng=rng)
    m = len(sizes)

    def run(chosen):
        kept = None
        if memory:
            kept = cs.ClientMemory(m)
            kept.put("fesem", np.arange(m) % k)
            kept = kept.of(np.array(chosen))
        return sent(statistic, model, models, *take(data, chosen), memory=kept)

    together = run(range(m))
    for i in range(m):
        assert np.array_equal(run([i])[0], together[i])
    order = rng.permutation(m)
    assert np.array_equal(run(order), together[order])
    some = order[: max(1, m // 2)]
    assert np.array_equal(run(some), together[some])
    return together


@every_statistic
@every_model
@settings(deadline=None, max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=7),
    p=st.integers(1, 30),
    k=st.integers(1, 4),
    seed=st.integers(0, 2**31),
    memory=st.booleans(),
)
def test_a_client_answers_alone_as_in_company(statistic, model, sizes, p, k, seed, memory):
    check_alone(statistic, model, sizes, p, k, seed, memory=memory)


@every_statistic
@pytest.mark.parametrize("model", ["softmax", "linear"])
@pytest.mark.parametrize("sizes", [[60] * 9, [60, 61, 7, 60, 200, 1, 59]])
def test_nor_do_shapes_at_which_blas_changes_its_kernel_matter(statistic, model, sizes):
    # 60 rows of 196 features are those of the tables; alone and together straddle 1e6 products
    for k in (2, 4):
        check_alone(statistic, model, sizes, 196, k, 5, memory=True)


@pytest.mark.parametrize("statistic", ["blocks", "ifca", "fedcam", "fedper"])
def test_a_neighbour_with_huge_outputs_changes_nobody(statistic):
    """Outputs above 500 are shifted before they are exponentiated: each by its own largest."""
    rng = np.random.default_rng(0)
    model = SoftmaxRegression(3, 4)
    # two models with the same loss but for the last bits: any change of rounding flips choices
    models = np.repeat(model.initial(1, rng=rng), 2, axis=0)
    models[1, -4:] += 0.1 + 2.0**-3  # a constant on all outputs: the same loss in exact numbers
    points, offsets, labels = examples("softmax", [5] * 200, 3, rng=rng)
    alone = sent(statistic, model, models, points, offsets, labels)
    for size in (1e3, 1e150, 1e308):
        far = np.vstack([points, np.full((5, 3), size)])
        with_it = sent(
            statistic, model, models, far, np.append(offsets, len(far)),
            np.append(labels, [0, 1, 2, 3, 0]),
        )  # fmt: skip
        assert np.array_equal(with_it[:200], alone)
        assert np.isfinite(with_it).all()


@pytest.mark.parametrize("statistic", ["blocks", "ifca", "fedcam"])
@pytest.mark.parametrize(("n", "p"), [(60, 784), (300, 64)])
def test_choices_do_not_depend_on_the_number_of_threads(statistic, n, p):
    """Models whose losses agree in exact numbers: only a fixed order decides alike."""
    rng = np.random.default_rng(1)
    model = SoftmaxRegression(p, 4)
    models = np.repeat(model.initial(1, rng=rng), 3, axis=0)
    models[1, -4:] += 0.3
    models[2, -4:] -= 0.7
    data = examples("softmax", [n] * 6, p, rng=rng)
    chosen = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            rows = sent(statistic, model, models, *data)
        if statistic == "blocks":
            blocks = rows.reshape(6, 3, -1)
            chosen.append(np.abs(blocks).sum(axis=2).argmax(axis=1))
        else:
            chosen.append(rows[:, :3].argmax(axis=1))
    assert np.array_equal(*chosen)


def test_equal_losses_go_to_the_lowest_number(rng):
    for name, make in MODELS.items():
        model = make(5)
        models = np.repeat(model.initial(1, rng=rng), 3, axis=0)
        ids = sent("ifca", model, models, *examples(name, [7, 8, 9], 5, rng=rng))[:, :3]
        assert np.array_equal(ids, np.eye(3)[[0, 0, 0]])


# --- what is not finite is zero -------------------------------------------------------------------


def diverging(n_clients=6, seed=0):
    """Clients of a regression, of which number 0 diverges at learning rate 0.3 in 300 steps."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-0.8, 0.8, (n_clients, 10, 1))
    x[0] = 6.8
    y = 0.5 * x + 0.1
    points = np.concatenate([x, y], axis=2).reshape(-1, 2)
    return points, 10 * np.arange(n_clients + 1), None


@every_statistic
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("n_steps", [5, 150, 300, 2000])
def test_a_client_that_diverges_sends_zero_and_harms_nobody(statistic, memory, n_steps):
    model = LinearRegression(1)
    models = np.array([[0.4, 0.0], [-3.0, 1.0]])
    data = diverging()
    kept = cs.ClientMemory(6) if memory else None
    in_blocks = statistic.endswith("blocks")
    weight = {"count_weight": 0.2} if in_blocks else {}
    for _ in range(3):  # FeSEM and FedPer go on from where they were
        rows = sent(statistic, model, models, *data, memory=kept, n_steps=n_steps, **weight)
        assert np.isfinite(rows).all()
        width = {"fedcam": 4, "fedper": 1}.get(statistic, 2)
        update = rows[:, [0, 1, 3, 4]] if in_blocks else rows[:, -width:]
        assert (np.linalg.norm(update, axis=1) <= 0.7).all()
        if n_steps >= 300:
            assert not update[0].any()
        assert update[1:].any(axis=1).all()
        if in_blocks:  # its count is that of a client
            assert np.array_equal(rows[:, [2, 5]].sum(axis=1), np.full(6, 0.2))
        elif statistic != "fedper":
            assert np.array_equal(rows[:, :2].sum(axis=1), np.ones(6))  # it takes part
    if kept is not None:
        assert all(np.isfinite(a).all() for a in kept._arrays.values())


def test_models_that_are_not_finite_leave_every_client_at_the_first(rng):
    model = SoftmaxRegression(3, 4)
    models = np.full((2, model.n_parameters), np.nan)
    rows = sent("ifca", model, models, *examples("softmax", [5] * 3, 3, rng=rng))
    assert np.array_equal(rows[:, :2], [[1, 0]] * 3) and not rows[:, 2:].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e155, 1e308])
def test_rows_whose_length_is_no_number_are_cut_to_zero(bad):
    rows = np.array([[3.0, 4.0, 0.0], [bad, 0.0, 1.0], [0.1, 0.0, 0.0]])
    out = clip_clients(rows.copy(), 1.0)
    assert np.array_equal(out[1], np.zeros(3)) and np.array_equal(out[2], rows[2])
    assert np.allclose(out[0], rows[0] / 5)


def test_the_cut_is_inside_also_for_long_vectors():
    rng = np.random.default_rng(0)
    for d in (3, 10_000, 1_000_000):
        rows = rng.normal(size=(3, d)) * 10.0 ** rng.uniform(-3, 3, (3, 1))
        for row in clip_clients(rows, 0.3):
            assert np.sqrt(np.sum(row.astype(np.longdouble) ** 2)) <= np.longdouble(0.3)


# --- labels beyond the public number of classes ---------------------------------------------------


@pytest.mark.parametrize("statistic", ["blocks", "ifca", "fesem", "fedcam", "fedper"])
@pytest.mark.parametrize("model", ["softmax", "hidden"])
@pytest.mark.parametrize("memory", [False, True])
def test_examples_with_an_unknown_label_are_left_out_at_the_client(statistic, model, memory):
    rng = np.random.default_rng(2)
    learner = MODELS[model](3)
    models = learner.initial(2, rng=rng)
    points, offsets, labels = examples(model, [6] * 4, 3, rng=rng)
    strange = labels.copy()
    strange[[1, 4]] = 4, 10**12  # of client 0
    strange[6:12] = 99  # all of client 1
    kept = cs.ClientMemory(4) if memory else None
    rows = sent(statistic, learner, models, points, offsets, strange, memory=kept)
    usual = sent(statistic, learner, models, points, offsets, labels)
    assert np.isfinite(rows).all()
    assert np.allclose(rows[2:], usual[2:], atol=1e-12)  # nobody else notices
    keep = [0, 2, 3, 5]
    without = sent(statistic, learner, models, points[keep], np.array([0, 4]), labels[keep])
    assert np.allclose(rows[0], without[0], atol=1e-12)
    width = 2 if statistic in ("ifca", "fesem", "fedcam") else 0
    assert not rows[1, width:].any()  # nothing to learn from: a zero update
    if statistic in ("ifca", "fedcam"):
        assert rows[1, 0] == 1
