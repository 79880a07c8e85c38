"""Models in PyTorch against its own modules and its own autograd, one client at a time.

All but one test need the extra ``torch`` and skip without it.
"""

import importlib

import numpy as np
import pytest
from conftest import refuses
from conftest import seeded as rng

from fedclust_helpers.client_statistics.models import (
    Batch,
)
from studies.rr_cluster.torch_models import CharLSTM, SmallCNN

M, N, CLASSES = 5, 6, 4


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs the extra torch")


def cnn(**options):
    options = {"n_channels": 2, "n_filters": (3, 5), "dtype": "float64"} | options
    return SmallCNN(8, CLASSES, **options)


def lstm(**options):
    return CharLSTM(CLASSES, 6, n_embedding=3, **{"dtype": "float64"} | options)


MAKE = {"cnn": cnn, "lstm": lstm}


def batch_for(name, seed=1, m=M, n=N):
    """Examples of m clients; the last client has padding, the first one weighs its examples."""
    generator = rng(seed)
    if name == "cnn":
        features = generator.normal(size=(m, n, 8 * 8 * 2))
    else:
        features = generator.integers(CLASSES, size=(m, n, 7)).astype(float)
    weights = np.ones((m, n))
    weights[-1, 4:] = 0.0
    weights[0] = generator.uniform(0.5, 2.0, n)
    return Batch(features, generator.integers(CLASSES, size=(m, n)), None, weights)


def parts(model, parameters, torch):
    """The parameters of one model (d,) as tensors, in the order of the documentation."""
    values = torch.tensor(parameters, dtype=torch.float64)
    return [
        part.reshape(shape)
        for part, shape in zip(torch.split(values, model._sizes), model._shapes, strict=True)
    ]


def module_of(name, model, parameters, torch):
    """The same network from PyTorch's own modules: features of one client -> outputs."""
    nn = torch.nn
    values = parts(model, parameters, torch)
    if name == "cnn":
        layers = [
            nn.Conv2d(2, 3, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(3, 5, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(20, CLASSES),
        ]  # fmt: skip
        network = nn.Sequential(*layers).double()
        own = list(network.parameters())

        def outputs(features):
            images = torch.tensor(features).reshape(-1, 8, 8, 2).permute(0, 3, 1, 2)
            return network(images)
    else:
        embedding, cell = nn.Embedding(CLASSES, 3).double(), nn.LSTM(3, 6, batch_first=True)
        head = nn.Linear(6, CLASSES).double()
        cell = cell.double()
        cell.bias_hh_l0.data.zero_()
        cell.bias_hh_l0.requires_grad_(False)
        own = [embedding.weight, cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0]
        own += [head.weight, head.bias]

        def outputs(features):
            _, (state, _) = cell(embedding(torch.tensor(features).long()))
            return head(state[0])

    with torch.no_grad():
        for tensor, value in zip(own, values, strict=True):
            tensor.copy_(value)
    return outputs, own


def oracle_loss(scores, labels, weights, torch):
    each = torch.nn.functional.cross_entropy(scores, torch.tensor(labels), reduction="none")
    weights = torch.tensor(weights)
    return (each * weights).sum() / weights.sum()


def models_for(model, k, seed=2):
    """Random models, biases too."""
    return model.initial(k, rng=rng(seed)) + rng(seed + 1).normal(0, 0.3, (k, model.n_parameters))


@pytest.mark.parametrize("name", MAKE)
def test_outputs_losses_and_accuracy_are_those_of_the_modules(name, torch):
    model, batch = MAKE[name](), batch_for(name)
    models = models_for(model, M)
    outputs, losses = model.outputs(models, batch), model.losses(models[:3], batch)
    assert outputs.shape == (M, N, CLASSES) and losses.shape == (M, 3)
    accuracy = model.accuracy(models, batch)
    for i in range(M):
        scores = module_of(name, model, models[i], torch)[0](batch.features[i])
        np.testing.assert_allclose(outputs[i], scores.detach().numpy(), atol=1e-12)
        right = scores.detach().numpy().argmax(axis=1) == batch.labels[i]
        assert accuracy[i] == pytest.approx(np.average(right, weights=batch.weights[i]))
        for j in range(3):
            scores = module_of(name, model, models[j], torch)[0](batch.features[i])
            loss = oracle_loss(scores, batch.labels[i], batch.weights[i], torch)
            assert losses[i, j] == pytest.approx(loss.item(), abs=1e-12)


def trained_alone(name, model, start, batch, i, torch, *, steps, rate, mu=0.0, add=None):
    """Gradient descent of one client with PyTorch's modules and plain autograd."""
    outputs, own = module_of(name, model, start, torch)
    first = [tensor.detach().clone() for tensor in own]
    for _ in range(steps):
        scores = outputs(batch.features[i])
        if add is not None:
            scores = scores + torch.tensor(add[i])
        loss = oracle_loss(scores, batch.labels[i], batch.weights[i], torch)
        pull = sum(((t - f) ** 2).sum() for t, f in zip(own, first, strict=True))
        gradients = torch.autograd.grad(loss + mu / 2 * pull, own)
        with torch.no_grad():
            for tensor, gradient in zip(own, gradients, strict=True):
                tensor -= rate * gradient
    return torch.cat([tensor.detach().flatten() for tensor in own]).numpy()


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(
    "options", [{}, {"mu": 0.7}, {"add": True}], ids=["plain", "proximal", "offset"]
)
def test_training_is_gradient_descent_of_each_client_alone(name, options, torch):
    model, batch = MAKE[name](), batch_for(name)
    starts = models_for(model, M)
    add = rng(7).normal(size=(M, N, CLASSES)) if "add" in options else None
    mu = options.get("mu", 0.0)
    trained = model.train(starts, batch, n_steps=3, learning_rate=0.4, proximal=mu, offset=add)
    for i in range(M):
        alone = trained_alone(
            name, model, starts[i], batch, i, torch, steps=3, rate=0.4, mu=mu, add=add
        )
        np.testing.assert_allclose(trained[i], alone, atol=1e-12)
    assert (np.abs(trained - starts).max(axis=1) > 1e-3).all()
    if add is not None:
        shifted = model.losses(starts[:2], batch, offset=add)
        logits = model.outputs(np.repeat(starts[:1], M, axis=0), batch) + add
        top = np.log(np.exp(logits).sum(axis=2))
        each = top - np.take_along_axis(logits, batch.labels[..., None], axis=2)[..., 0]
        expected = (each * batch.weights).sum(axis=1) / batch.weights.sum(axis=1)
        np.testing.assert_allclose(shifted[:, 0], expected, atol=1e-12)


@pytest.mark.parametrize("name", MAKE)
def test_clients_do_not_depend_on_each_other_or_on_the_chunks(name, torch):
    batch, how = batch_for(name), {"n_steps": 2, "learning_rate": 0.3}
    starts = models_for(MAKE[name](), M)
    found = []
    for chunk_size in (1, 2, 100):
        model = MAKE[name](chunk_size=chunk_size)
        trained = model.train(starts, batch, **how)
        found.append([trained, model.losses(starts, batch), model.outputs(starts, batch)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-12)
    alone = Batch(batch.features[2:3], batch.labels[2:3], None, batch.weights[2:3])
    trained = MAKE[name]().train(starts[2:3], alone, **how)
    np.testing.assert_allclose(trained[0], found[0][0][2], atol=1e-12)


@pytest.mark.parametrize("name", MAKE)
def test_shared_parameters_are_all_but_the_output_layer(name, torch):
    model, batch = MAKE[name](), batch_for(name)
    d, inputs = model.n_parameters, {"cnn": 20, "lstm": 6}[name]
    assert model.shared == slice(0, d - (inputs + 1) * CLASSES)
    # with an output layer of zeros and biases b, the outputs are b whatever is shared
    models = models_for(model, M)
    models[:, model.shared.stop :] = 0.0
    models[:, -CLASSES:] = np.arange(CLASSES)
    np.testing.assert_array_equal(
        model.outputs(models, batch), np.broadcast_to(np.arange(4.0), (M, N, CLASSES))
    )


@pytest.mark.parametrize("make", [lambda: SmallCNN(8, 10), lambda: CharLSTM(66)])
def test_without_torch_the_error_names_the_extra(make, monkeypatch):
    real = importlib.import_module

    def missing(name, package=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    refuses(ImportError, r"pip install '\.\[torch\]' in the checkout", make)
