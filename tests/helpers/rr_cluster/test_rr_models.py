"""Models trained for all clients at once, against plain loops, derivatives and closed forms."""

from typing import Any

import numpy as np
import pytest

from fedclust_helpers.client_statistics import MODEL_BLOCKS, ClientMemory
from fedclust_helpers.client_statistics.models import Batch, batch_of
from fedclust_helpers.rr_cluster import LinearRegression, OneHiddenLayer, SoftmaxRegression

M, N, P, C = 7, 9, 5, 4
STEPS = {"n_steps": 5, "learning_rate": 0.3}


def examples(rng, *, regression=False):
    points = rng.normal(size=(M * N, P + regression))
    labels = None if regression else rng.integers(0, C, M * N)
    return points, np.arange(M + 1) * N, labels


MODELS: dict[str, Any] = {
    "softmax": SoftmaxRegression(P, C),
    "hidden": OneHiddenLayer(P, 6, C),
    "linear": LinearRegression(P),
}


@pytest.fixture(params=list(MODELS))
def model(request):
    return MODELS[request.param]


@pytest.fixture
def batch(model, rng):
    return batch_of(*examples(rng, regression=isinstance(model, LinearRegression)))


def gram(batch: Batch):
    return batch.features @ batch.features.transpose(0, 2, 1) + 1.0


def one_loss(model, theta, x, answers):
    """The mean loss of one client under one model, written out."""
    width = model.n_hidden or model.n_outputs
    first = theta[: (P + 1) * width].reshape(P + 1, width)
    out = x @ first[:-1] + first[-1]
    if model.n_hidden:
        second = theta[(P + 1) * width :].reshape(width + 1, model.n_outputs)
        out = np.maximum(out, 0) @ second[:-1] + second[-1]
    if isinstance(model, LinearRegression):
        return np.mean((out[:, 0] - answers) ** 2)
    losses = [np.log(np.exp(o).sum()) - o[a] for o, a in zip(out, answers, strict=True)]
    return np.mean(losses)


def answers(batch):
    return batch.targets if batch.labels is None else batch.labels


# --- losses and accuracy --------------------------------------------------------------------------


def test_losses_are_those_of_each_client_under_each_model(model, batch, rng, monkeypatch):
    models = model.initial(3, rng=rng)
    models.flags.writeable = batch.features.flags.writeable = False
    expected = [
        [one_loss(model, theta, batch.features[i], answers(batch)[i]) for theta in models]
        for i in range(M)
    ]
    for chunk in (10**9, 1):
        monkeypatch.setattr("fedclust_helpers.rr_cluster.dense.CHUNK", chunk)
        assert np.allclose(model.losses(models, batch), expected, rtol=1e-12)


# --- training -------------------------------------------------------------------------------------


def slow_training(model, starts, batch, *, n_steps, learning_rate, proximal):
    """Client by client, with derivatives by central differences."""
    out, h = starts.copy(), 1e-6
    for i in range(len(starts)):
        for _ in range(n_steps):
            gradient = np.empty(model.n_parameters)
            for j in range(model.n_parameters):
                e = np.zeros(model.n_parameters)
                e[j] = h
                up, down = (
                    one_loss(model, out[i] + s * e, batch.features[i], answers(batch)[i])
                    for s in (1, -1)
                )
                gradient[j] = (up - down) / (2 * h)
            gradient += proximal * (out[i] - starts[i])
            out[i] -= learning_rate * gradient
    return out


@pytest.mark.parametrize("proximal", [0.0, 0.7])
def test_training_is_gradient_descent_on_the_mean_loss(model, batch, rng, proximal):
    few = Batch(*(None if a is None else a[:2] for a in batch))
    starts = model.initial(2, rng=rng)
    starts.flags.writeable = few.features.flags.writeable = False
    how = {"n_steps": 3, "learning_rate": 0.1, "proximal": proximal}
    assert np.allclose(
        model.train(starts, few, **how), slow_training(model, starts, few, **how), atol=1e-7
    )


@pytest.mark.parametrize("proximal", [0.0, 0.7])
def test_steps_through_the_gram_matrix_are_the_direct_steps(model, batch, rng, proximal):
    starts = model.initial(M, rng=rng)
    direct = model.train(starts, batch, proximal=proximal, **STEPS)
    through = model.train(starts, batch._replace(gram=gram(batch)), proximal=proximal, **STEPS)
    assert np.abs(direct - through).max() <= 1e-12 * max(1.0, np.abs(direct).max())


def test_padding_does_not_matter(model, rng):
    regression = isinstance(model, LinearRegression)
    points, _, labels = examples(rng, regression=regression)
    offsets = np.array([0, 3, 4, 13, 20, 22, 40, M * N])
    padded = batch_of(points, offsets, labels)
    assert padded.weights.sum() == M * N and padded.features.shape[1] == 23
    starts, models = model.initial(M, rng=rng), model.initial(3, rng=rng)
    for with_gram in (False, True):
        batch = padded._replace(gram=gram(padded)) if with_gram else padded
        trained, losses = model.train(starts, batch, **STEPS), model.losses(models, batch)
        scores = model.accuracy(starts, batch)
        for i in range(M):
            rows = slice(offsets[i], offsets[i + 1])
            n = rows.stop - rows.start
            own = batch_of(points[rows], np.array([0, n]), None if labels is None else labels[rows])
            assert np.allclose(trained[i], model.train(starts[[i]], own, **STEPS)[0], atol=1e-12)
            assert np.allclose(losses[i], model.losses(models, own)[0], rtol=1e-12)
            assert np.isclose(scores[i], model.accuracy(starts[[i]], own)[0], rtol=1e-12)


# --- outputs that are added (FedCAM) --------------------------------------------------------------


def test_linear_models_add_up_as_parameters(rng):
    for name in ("softmax", "linear"):
        model = MODELS[name]
        batch = batch_of(*examples(rng, regression=name == "linear"))
        common, models = model.initial(1, rng=rng), model.initial(3, rng=rng)
        everyone = np.repeat(common, M, axis=0)
        offset = model.outputs(everyone, batch)
        assert np.allclose(
            model.losses(models, batch, offset=offset), model.losses(models + common, batch)
        )
        starts = models[rng.integers(0, 3, M)]
        trained = model.train(starts, batch, offset=offset, **STEPS)
        assert np.allclose(trained + common, model.train(starts + common, batch, **STEPS))
        assert np.allclose(
            model.accuracy(trained, batch, offset=offset), model.accuracy(trained + common, batch)
        )


# --- the Gram matrices that clients keep ----------------------------------------------------------


def blocks(model, points, offsets, labels, memory, models):
    return MODEL_BLOCKS.compute(
        points, offsets, labels=labels, memory=memory, model=model, models=models, clip=10.0,
        count_weight=1.0, **STEPS,
    )[0]  # fmt: skip


def test_each_client_makes_its_gram_matrix_once(rng):
    model = MODELS["softmax"]
    points, offsets, labels = examples(rng)
    models, memory = model.initial(3, rng=rng), ClientMemory(M)
    without = blocks(model, points, offsets, labels, None, models)
    some = np.array([4, 1])
    rows = np.concatenate([np.arange(c * N, (c + 1) * N) for c in some])
    first = blocks(model, points[rows], np.arange(3) * N, labels[rows], memory.of(some), models)
    assert np.allclose(first, without[some], atol=1e-12)
    kept = memory.get("gram")
    assert np.array_equal(np.flatnonzero(kept[:, 0, 0]), [1, 4])
    assert np.allclose(kept[some], gram(batch_of(points[rows], np.arange(3) * N, labels[rows])))
    assert np.allclose(blocks(model, points, offsets, labels, memory, models), without, atol=1e-12)
    # what was made is not made again: a changed matrix would be used
    memory.put("gram", np.zeros((1, N, N)) + np.eye(N), where=np.arange(M) == 2)
    changed = blocks(model, points, offsets, labels, memory, models)
    assert not np.allclose(changed[2], without[2])
    assert np.allclose(np.delete(changed, 2, axis=0), np.delete(without, 2, axis=0), atol=1e-12)
