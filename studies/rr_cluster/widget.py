"""Widget of notebook 04: B and epsilon against flipped identifiers, cluster sizes and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers._validation import check_int
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.program import Run
from studies.bench import widgets
from studies.paper_data import LabelledFederation
from studies.rr_cluster.figures import plot_choice
from studies.rr_cluster.theory import argmax_accuracy

Identifiers = Literal["corrected", "exact"]
N_CLUSTERS, DELTA, CLIP = 4, 1e-3, 0.3
SIGMAS = np.geomspace(0.15, 12, 60)


def _train(
    made: LabelledFederation, *, min_size: int, epsilon: float, identifiers: Identifiers,
    cohort: int, n_rounds: int, seed: int,
) -> tuple[Run, rr.Diagnosis, float]:  # fmt: skip
    """One run of RR-Cluster (B = 0: DP-IFCA), what noise did to identifiers, and its accuracy."""
    if made.groups is None or made.n_classes is None:
        raise ValueError("made must have groups and classes")
    data, test = (ClientData(*made.clients(split)) for split in ("train", "test"))
    model = rr.SoftmaxRegression(made.n_features, made.n_classes)
    federation = simulate(
        data, "trusted", seed=check_int(seed, "seed", minimum=0), bound=made.bound,
        ledger=PrivacyLedger(unit="client", adjacency="replace-one"),
    )  # fmt: skip
    plan = rr.plan(
        federation, rr.Training(model, cohort=cohort, clip=CLIP), n_clusters=N_CLUSTERS,
        n_rounds=n_rounds, epsilon=epsilon, delta=DELTA, min_size=min_size,
        identifiers=identifiers, rebalance="strict" if min_size else "off",
    )  # fmt: skip
    result, seen = rr.diagnose(federation, plan)
    return result, seen, rr.evaluate(model, result.models, data, test, made.groups).accuracy


def moved_from(
    made: LabelledFederation, *, epsilon: float, identifiers: Identifiers, cohort: int,
    n_rounds: int, seed: int,
) -> int:  # fmt: skip
    """The smallest B at which a client is moved: at the latest where the cohort cannot fill all."""
    how: dict[str, Any] = {"cohort": cohort, "n_rounds": n_rounds, "seed": seed}
    return next(
        b for b in range(1, cohort)
        if _train(made, min_size=b, epsilon=epsilon, identifiers=identifiers, **how)[0].moved.any()
    )  # fmt: skip


def rebalancing_run(
    axes: Any, made: LabelledFederation, *, min_size: int, epsilon: float,
    identifiers: Identifiers, cohort: int, n_rounds: int, seed: int,
) -> Any:  # fmt: skip
    """Run RR-Cluster once; draw flipped identifiers and cluster sizes, with its accuracy above.

    Every call is one run of (epsilon, 1e-3)-DP, one client, replace-one, in teaching mode: not
    private against anyone who knows the seed. With ``identifiers="exact"`` it isn't private at all.

    min_size is B, 0 for DP-IFCA.
    """
    result, known, accuracy = _train(
        made, min_size=min_size, epsilon=epsilon, identifiers=identifiers, cohort=cohort,
        n_rounds=n_rounds, seed=seed,
    )  # fmt: skip
    sigma = 0.0 if identifiers == "exact" else result.plan.mechanisms[0][0].std
    total = "no ε: exact identifiers" if identifiers == "exact" else f"ε = {epsilon:g}"
    return plot_choice(
        axes, sigmas=SIGMAS, wrong=[1 - argmax_accuracy(s, N_CLUSTERS) for s in SIGMAS],
        sigma=sigma, flip_rate=float(np.mean(known.flip_rate)),
        sizes={
            "as chosen": np.mean(known.true_sizes, axis=0),
            "as used": result.sizes.mean(axis=0),
        },
        min_size=min_size,
        title=f"B = {min_size}, {total}: {result.moved.mean():.2g} clients moved per round,"
        f" accuracy {accuracy:.2f}",
    )  # fmt: skip


def explore(
    made: LabelledFederation, *, sizes: Sequence[int], epsilons: Sequence[float], cohort: int,
    n_rounds: int, seed: int,
) -> Any:  # fmt: skip
    """Controls for B (up to the largest of `sizes`), epsilon, and identifiers; the callback."""
    short: dict[str, Any] = {"cohort": cohort, "n_rounds": n_rounds}
    for epsilon in epsilons:  # its noise is found once, so that a move is quick
        _train(made, min_size=0, epsilon=epsilon, identifiers="corrected", seed=seed, **short)

    def draw(axes: Any, B: int, **moved: Any) -> Any:
        return rebalancing_run(axes, made, min_size=B, **moved, **short)

    controls = {
        "B": widgets.slider(max(sizes) // 2, 0, max(sizes), 1),
        "epsilon": widgets.choice([(f"{e:g}", e) for e in sorted(epsilons)], ordered=True),
        "identifiers": widgets.choice([("noised", "corrected"), ("exact", "exact")]),
    }
    return widgets.explore(draw, controls, (7.4, 3.5), 2, seed=seed)
