"""Widget of notebook 02: budget proportions and epsilon against subspace, weights and centres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import check_int
from fedclust_helpers.feddp_kmeans import plan, run, split_epsilon
from fedclust_helpers.federation import ClientData, simulate
from studies.bench import widgets
from studies.feddp_kmeans.bounds import noise_norm
from studies.feddp_kmeans.figures import plot_init
from studies.feddp_kmeans.problems import cut_rows
from studies.paper_data import FederatedDataset

SHARES = (0.2, 0.2, 0.45, 0.15)


def init_run(
    axes: Any,
    made: FederatedDataset,
    *,
    epsilon: float,
    shares: Sequence[float],
    seed: int,
    clients: ClientData | None = None,
) -> Any:
    """Run FedDP-Init and draw its noised spectrum, the weighted server points and the centres.

    Every call is one private run, add/remove one point, delta = 1e-6 per Gaussian step, in
    teaching mode: not private against anyone who knows the seed. The title states the exact total.

    `made` has `true_centers`, which the pictures need. `epsilon` is the sum of the step budgets
    (epsilon_init), `shares` four numbers > 0 for outer product, weights, sums and counts, scaled to
    add up to 1. `seed` is that of the noise and of the server's k-means: moving a share changes
    sizes of noise only. `clients` are `cut_rows(made)`, made once by the caller.
    """
    parts = np.asarray(shares, dtype=np.float64)
    if parts.shape != (4,) or not (np.isfinite(parts) & (parts > 0)).all():
        raise ValueError("shares must be four numbers > 0")
    if made.true_centers is None:
        raise ValueError("made must have true_centers")
    streams = np.random.SeedSequence(check_int(seed, "seed", minimum=0)).spawn(2)
    data = cut_rows(made) if clients is None else clients
    budgets = split_epsilon(epsilon, proportions=tuple(parts / parts.sum()))
    fed = simulate(data, "ideal", seed=streams[0], bound=made.radius, domain="ball")
    planned = plan(fed, made.server_points, n_clusters=made.n_clusters, budgets=budgets)
    init = run(fed, planned, rng=np.random.default_rng(streams[1])).init
    norm = noise_norm(planned.releases[0].mechanisms[0].std, made.n_features)
    best = kmeans.lloyd(made.points, made.true_centers, n_rounds=3)
    cost = kmeans.kmeans_cost(made.points, best, normalize=True)
    return plot_init(axes, made, init, noise=norm, best=cost, epsilon=planned.total_epsilon)


def explore(made: FederatedDataset, *, epsilon: float, seed: int) -> Any:
    """Sliders for epsilon (0.1 to 10, from `epsilon` on) and four shares; returns the callback."""
    clients = cut_rows(made)

    def draw(axes: Any, epsilon: float, seed: int, **shares: float) -> Any:
        parts = tuple(shares.values())
        return init_run(axes, made, epsilon=epsilon, shares=parts, seed=seed, clients=clients)

    controls = {"epsilon": widgets.log_slider(epsilon, -1, 1)}
    names = ("outer", "weights", "sums", "counts")
    for name, share in zip(names, SHARES, strict=True):
        controls[name] = widgets.slider(share, 0.02, 1.0, 0.02)
    return widgets.explore(draw, controls, (9.6, 3.4), 3, seed=seed)
