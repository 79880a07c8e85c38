"""Mixed models: the weight of precision, and what a client uses for its own."""

import numpy as np
import pytest
from conftest import refuses
from rr_cases import DATA, MODEL, C, P, clients, federation

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.client_statistics.models import batch_of
from fedclust_helpers.federation import ClientData
from fedclust_helpers.rr_cluster import mixing


def planned(planner=rr.plan_sums_only, model=MODEL, *, epsilon=2.0, clip=0.5, n_rounds=20, **how):
    training = rr.Training(model, cohort=60, clip=clip)
    how = {"n_clusters": 2} | how if planner is not rr.plan_dp_fedavg else how
    f = federation(trust="trusted" if planner is rr.plan else "ideal")
    return planner(f, training, n_rounds=n_rounds, epsilon=epsilon, delta=1e-3, **how)


@pytest.mark.parametrize("rows", [1.0, 4.0])
def test_in_linear_rounds_no_other_weight_does_better(rows, rng):
    """Rounds that lead 1/T of the way: clients differ by up to the clip, and noise is added.

    The best weight of 4,000 runs is within .006 of the closed form: 1/(2T) = .0025 of the noise
    is neglected, the rest is five standard errors.
    """
    runs, t, m, d, clip = 4_000, 100, 30, MODEL.n_parameters, 0.5
    plan = planned(n_rounds=t, clip=clip)
    std = plan.releases[0].mechanisms[0].std / m
    differs = rng.normal(0, clip / np.sqrt(d * rows * m), (runs, d))  # of the mean of the cluster
    released = np.zeros((runs, d))
    for _ in range(6 * t):
        released += differs * np.sqrt(rows) - released / t + rng.normal(0, std, (runs, d))
    own = t * rng.normal(0, clip / np.sqrt(d * rows), (runs, d))
    best = (own * (own - released)).sum() / ((own - released) ** 2).sum()
    assert abs(best - mixing.released_weight(plan, rows)) < 0.006


def test_the_weight_goes_from_nothing_to_the_share_of_rows():
    plans = [planned(epsilon=e) for e in (1e-3, 0.5, 1.0, 2.0, 8.0, np.inf)]
    weights = [float(rr.released_weight(plan)) for plan in plans]
    assert weights == sorted(weights) and weights[0] < 1e-3
    assert weights[-1] == pytest.approx(30 / 31)  # 30 clients share a model
    assert rr.released_weight(plans[-1], 1e-3) > 0.9999 > 0.1 > rr.released_weight(plans[-1], 1e3)
    assert rr.released_weight(planned(clip=5.0)) == pytest.approx(weights[3])
    one = planned(rr.plan_dp_fedavg, epsilon=np.inf)
    assert rr.released_weight(one) == pytest.approx(60 / 61)


def test_a_client_mixes_what_it_would_choose_with_its_own(rng):
    plan, models = planned(), rng.normal(size=(2, MODEL.n_parameters))
    sizes = rng.integers(3, 9, 60)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = ClientData(DATA.points[: offsets[-1]], offsets, DATA.labels[: offsets[-1]])
    mixed = rr.mixed_models(plan, models, data, usual_rows=6)
    for i in (0, 7, 59):
        rows = slice(offsets[i], offsets[i + 1])
        batch = batch_of(data.points[rows], np.array([0, sizes[i]]), data.labels[rows])
        own = MODEL.train(np.zeros((1, MODEL.n_parameters)), batch, n_steps=100, learning_rate=0.3)
        chosen = models[MODEL.losses(models, batch).argmin()]
        w = rr.released_weight(plan, sizes[i] / 6)
        assert np.allclose(mixed[i], w * chosen + (1 - w) * own[0])
        alone = rr.mixed_models(plan, models, data.take([i]), usual_rows=6)
        assert np.array_equal(alone[0], mixed[i])  # nobody else's rows matter


def test_without_noise_nearly_the_released_model_and_with_all_noise_its_own():
    models = np.ones((2, MODEL.n_parameters))
    loud, none = planned(epsilon=1e-3), planned(epsilon=np.inf)
    own = mixing.own_models(MODEL, DATA)
    assert np.abs(rr.mixed_models(loud, models, DATA) - own).max() < 0.01
    assert np.allclose(rr.mixed_models(none, models, DATA), (30 * models[:1] + own) / 31)


def test_what_cannot_be_mixed_is_refused():
    hidden, fedcam = rr.OneHiddenLayer(P, 3, C), planned(rr.plan, clusterer="fedcam")
    deep = planned(model=hidden)
    refuses(TypeError, "plan must train", rr.mixed_models, deep, hidden.initial(
        2, rng=np.random.default_rng(0)), DATA)  # fmt: skip
    zeros = np.zeros((2, MODEL.n_parameters))
    refuses(ValueError, "plan must not be one of FedCAM", rr.mixed_models, fedcam, zeros, DATA)
    refuses(ValueError, "rows must be > 0", rr.released_weight, fedcam, 0.0)
    refuses(TypeError, "plan", rr.released_weight, "plan")
    other = clients(3, 2)[0]
    refuses(ValueError, "usual_rows", rr.mixed_models, fedcam, zeros, other, usual_rows=0)
