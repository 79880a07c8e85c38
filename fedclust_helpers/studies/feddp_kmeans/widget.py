"""Widget of notebook 02: budget proportions and epsilon against subspace, weights and centres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import check_int
from fedclust_helpers.feddp_kmeans import plan, run, selection, split_epsilon
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.studies.feddp_kmeans.figures import plot_init
from fedclust_helpers.studies.paper_data import FederatedDataset

SHARES = (0.2, 0.2, 0.45, 0.15)


def clipped_clients(made: FederatedDataset) -> ClientData:
    """The clients' rows, cut to the public radius once, so that a redraw is quick."""
    return ClientData(*made.clients()).clipped(made.radius, domain="ball")[0]


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

    Parameters
    ----------
    axes : three Axes
    made : FederatedDataset
        With `true_centers`, which the pictures need.
    epsilon : float
        Sum of the step budgets (epsilon_init).
    shares : four numbers > 0
        Outer product, weights, sums, counts; scaled to add up to 1.
    seed : int
        Of the noise and of the server's k-means; moving a share changes sizes of noise only.
    clients : ClientData, optional
        `clipped_clients(made)`, made once by the caller.

    Returns
    -------
    axes
        Drawn on by `figures.feddp.plot_init`.
    """
    parts = np.asarray(shares, dtype=np.float64)
    if parts.shape != (4,) or not (np.isfinite(parts) & (parts > 0)).all():
        raise ValueError("shares must be four numbers > 0")
    if made.true_centers is None:
        raise ValueError("made must have true_centers")
    streams = np.random.SeedSequence(check_int(seed, "seed", minimum=0)).spawn(2)
    data = clipped_clients(made) if clients is None else clients
    budgets = split_epsilon(epsilon, proportions=tuple(parts / parts.sum()))
    fed = simulate(data, "ideal", seed=streams[0], bound=made.radius, domain="ball")
    planned = plan(fed, made.server_points, n_clusters=made.n_clusters, budgets=budgets)
    init = run(fed, planned, made.server_points, rng=np.random.default_rng(streams[1])).init
    assert init is not None
    std = planned.releases[0].mechanisms[0].std
    best = kmeans.lloyd(made.points, made.true_centers, n_rounds=3)
    return plot_init(
        axes, made.points, made.server_points, made.in_distribution, made.true_centers,
        eigenvalues=init.eigenvalues, noise=selection.noise_norm(std, made.n_features),
        energy=selection.subspace_energy(init.basis, made.true_centers), weights=init.weights,
        centers=init.centers, cost=kmeans.kmeans_cost(made.points, init.centers, normalize=True),
        best=kmeans.kmeans_cost(made.points, best, normalize=True), epsilon=planned.total_epsilon,
    )  # fmt: skip


def init_run_callback(
    made: FederatedDataset, *, seed: int
) -> Callable[[float, float, float, float, float], None]:
    """Return the function that the sliders call: it draws a new figure and shows it."""
    clients = clipped_clients(made)

    def redraw(epsilon: float, outer: float, weights: float, sums: float, counts: float) -> None:
        _, axes = plt.subplots(1, 3, figsize=(9.6, 3.4))
        init_run(
            axes, made, epsilon=epsilon, shares=(outer, weights, sums, counts), seed=seed,
            clients=clients,
        )  # fmt: skip
        plt.show()

    return redraw


def explore_init(made: FederatedDataset, *, seed: int) -> Any:
    """Sliders for epsilon (0.1 to 10, logarithmic) and the four shares; returns the callback."""
    from ipywidgets import FloatLogSlider, FloatSlider, interact

    epsilon = FloatLogSlider(
        value=1.0, base=10, min=-1, max=1, step=0.1, description="epsilon", readout_format=".2f",
        continuous_update=False,
    )  # fmt: skip
    names = ("outer", "weights", "sums", "counts")
    sliders = {
        name: FloatSlider(
            value=share, min=0.02, max=1.0, step=0.02, description=name, continuous_update=False
        )
        for name, share in zip(names, SHARES, strict=True)
    }
    return interact(init_run_callback(made, seed=seed), epsilon=epsilon, **sliders)
