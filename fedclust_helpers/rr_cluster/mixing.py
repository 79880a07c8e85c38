"""Mixed models: what a client makes, for itself, of the released model and of one of its own.

Nothing more is released: a mixed model is post-processing of released models, with rows that their
holder reads anyway. It is as private as those rows, so it stays where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    Count,
    FloatArray,
    Positive,
    as_numbers,
    as_points,
    check_instance,
)
from fedclust_helpers.client_statistics.models import Model, batches
from fedclust_helpers.federation import ClientData, Plan
from fedclust_helpers.rr_cluster.dense import Dense
from fedclust_helpers.rr_cluster.training import Training

OWN_STEPS = 100  # gradient steps from zero: a client's own model


def released_weight(plan: Plan, rows: ArrayLike = 1.0) -> FloatArray:
    """Weight of the released model in a mixed one, by precision, from public numbers alone.

    `plan` is one of a method that releases sums of clipped updates, here with noise of standard
    deviation s a round in each of the d parameters; m = cohort/k clients share a model, and C is
    their clip. `rows` (...) are those of clients, in multiples of a usual client's.

    Say that a round leads 1/T of the way to the optimum, the least with which T rounds forget their
    start. An error that all rounds share then adds up to T of it, and independent ones to T/2 of
    their variance. What the rows of one client say differently from its cluster is shared, and
    at most C; of all m clients it is C^2/m. In units of (C T)^2 the squared errors are

        own model:       1/rows
        released model:  1/m + d s^2/(2 T C^2 m^2)

    and each is weighted by the other's. So the weight is 0 in the limit of infinite noise, m/(m +
    rows) without any, and does not depend on the clip, which noise is proportional to. ValueError
    if `plan` trains no models, or `rows` are not positive.
    """
    training = check_instance(plan, Plan, "plan").options.get("training")
    if not isinstance(training, Training):
        raise ValueError(f"plan must be one that trains models, got {plan.method}")
    rows = as_numbers(rows, "rows")
    if not (rows > 0).all():
        raise ValueError("rows must be > 0")
    sharing = training.cohort / max(plan.n_clusters, 1)
    std = plan.releases[-1].mechanisms[-1].std * plan.facts.more_noise
    noise = training.model.n_parameters * (std / (training.clip * sharing)) ** 2
    released = 1 / sharing + noise / (2 * plan.n_rounds)
    return np.asarray(1 / (1 + rows * released))


@checked
def own_models(
    model: Model, data: ClientData, *, n_steps: Count = OWN_STEPS, learning_rate: Positive = 0.3
) -> FloatArray:
    """Each client's own model (M, d): gradient steps from zero on its own rows alone. Local."""
    own = np.zeros((data.n_clients, model.n_parameters))
    for group, batch in batches(model, data.points, data.offsets, data.labels, None):
        own[group] = model.train(own[group], batch, n_steps=n_steps, learning_rate=learning_rate)
    return own


@checked
def mixed_models(
    plan: Plan, models: ArrayLike, data: ClientData, *, usual_rows: Positive | None = None
) -> FloatArray:
    """Each client's mixed model (M, d): w of the one it chooses, 1 - w of its own. Local.

    A client computes its row from the released `models` (k, d) and its own rows in `data` alone:
    the model of least loss, `own_models`, and w by `released_weight`, with its number of rows over
    `usual_rows`, a public number (by default it counts as usual). TypeError for models with a
    hidden layer: the mean of the parameters of two is not that of their outputs. ValueError for
    FedCAM, whose common model is no part of `models`.
    """
    rows = 1.0 if usual_rows is None else np.diff(data.offsets) / usual_rows
    w = np.broadcast_to(released_weight(plan, rows), data.n_clients)[:, None]
    model: Any = plan.options["training"].model
    linear = isinstance(model, Dense) and not model.n_hidden
    if not linear:
        raise TypeError("plan must train models without a hidden layer: others cannot be mixed")
    if plan.options.get("clusterer") == "fedcam":
        raise ValueError("plan must not be one of FedCAM: its common model cannot be mixed")
    models = as_points(models, "models", n_features=model.n_parameters)
    chosen = np.empty((data.n_clients, model.n_parameters))
    for group, batch in batches(model, data.points, data.offsets, data.labels, None):
        chosen[group] = models[model.losses(models, batch).argmin(axis=1)]
    own = own_models(model, data, learning_rate=plan.options["training"].learning_rate)
    return w * chosen + (1 - w) * own
