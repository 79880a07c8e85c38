"""The paper's own promise: its noise, its rounds against the package, clients by label."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import simulate
from fedclust_helpers.rr_cluster import costs
from studies.rr_cluster import theory
from studies.rr_cluster.problems import Clients, load_clients, model_named
from studies.rr_cluster.promise import Noise, noise_of, promised

SILENT = Noise(0.0, 0.0, 0.0)


def test_noise_hides_a_change_of_one_and_of_the_clip_in_the_budget() -> None:
    rounds = {"n_rounds": 5, "n_clients": 60, "cohort": 20}
    noise = noise_of(4.0, 1e-3, 0.2, **rounds)
    precision = noise.identifiers**-2 + (0.2 / noise.sums) ** 2 + noise.counts**-2
    spent = costs.certified_epsilon(precision**-0.5, delta=1e-3, accountant="poisson_rdp", **rounds)
    assert 3.99 < spent <= 4.0
    assert noise.identifiers**-2 == pytest.approx(precision / 2)
    assert noise_of(math.inf, 1e-3, 0.2, **rounds) == SILENT


def test_without_noise_and_with_everybody_it_is_ifca_of_the_package() -> None:
    problem = load_clients(Clients("digits", "balanced", 0))
    learner = model_named("softmax", problem)
    n, start = problem.train.n_clients, problem.initial(learner, 2)
    training, how = rr.Training(learner, cohort=n, clip=0.3), {"n_rounds": 3, "min_size": 0}
    models, moved = promised(problem.train, training, start, SILENT, seed=problem.seed, **how)
    federation = simulate(
        problem.train, "ideal", seed=1, bound=problem.federation.bound,
        ledger=PrivacyLedger(unit="client", adjacency="add/remove"),
    )  # fmt: skip
    plan = rr.plan_sums_only(
        federation, training, n_clusters=2, n_rounds=3, epsilon=math.inf, delta=1e-3,
        initial=start, reseed=False,
    )  # fmt: skip
    theirs = rr.run(federation, plan)
    assert moved == 0 and theirs.sizes.min() > plan.options["min_size"]
    np.testing.assert_allclose(models, theirs.models, atol=1e-12)


def test_filling_up_moves_clients_and_noise_scatters_choices() -> None:
    problem = load_clients(Clients("digits", "balanced", 0))
    learner = model_named("softmax", problem)
    start, training = problem.initial(learner, 4), rr.Training(learner, cohort=40, clip=0.3)
    how = {"n_rounds": 3, "seed": problem.seed}
    loud = Noise(50.0, 0.0, 0.0)
    exact, blind = (
        promised(problem.train, training, start, noise, min_size=8, **how)[1]
        for noise in (SILENT, loud)
    )
    assert exact > blind
    assert promised(problem.train, training, start, SILENT, min_size=0, **how)[1] == 0


def test_clients_who_are_dealt_by_labels_hold_each_image_once() -> None:
    plain = load_clients(Clients("digits", "balanced", 0)).federation
    spread = []
    for alpha in ("0.1", "5"):
        made = load_clients(Clients("digits", f"dirichlet_{alpha}", 0)).federation
        assert made.groups is None and made.train_points.shape == plain.train_points.shape
        assert len(np.unique(made.train_points, axis=0)) > 0.99 * len(made.train_points)
        labels = made.train_labels.reshape(made.n_clients, -1)
        spread.append(np.mean([len(np.unique(own)) for own in labels]))
    assert spread[0] < 6 < spread[1], spread


def test_one_step_keeps_what_the_flattest_direction_keeps() -> None:
    assert theory.two_groups_factor((0.01, 1.0), 0.999) == pytest.approx(1 - 0.00999)
    assert theory.two_groups_factor((0.5, 0.5), 1.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="start"):
        theory.two_groups_factor((0.01, 1.0), 1.0, start=-0.6)
