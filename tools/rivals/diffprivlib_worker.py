"""diffprivlib's KMeans for `tools.rivals`."""

from __future__ import annotations

from typing import Any

import diffprivlib
import numpy as np
from diffprivlib.models import KMeans, k_means
from serving import of_each_seed, serve

Spent = list[tuple[str, float, float]]


def model_of(request: dict[str, Any], seed: int, k: int = 0) -> Any:
    """Its k-means on the box [-1, 1]^d, not yet fitted."""
    epsilon = request["epsilon"]
    return KMeans(k or request["k"], epsilon=epsilon, bounds=(-1, 1), random_state=seed)


def centers(request: dict[str, Any]) -> dict[str, Any]:
    """Centres of one run for each seed, and the processor time of each."""
    points = np.load(request["points"])
    found, seconds = of_each_seed(
        request, lambda seed: model_of(request, seed).fit(points).cluster_centers_.tolist()
    )
    return {"centers": found, "seconds": seconds}


def spent(request: dict[str, Any]) -> dict[str, Any]:
    """What the mechanisms of one run were given, as they were made: (kind, epsilon, sensitivity).

    The mechanisms are watched from outside: subclasses note the arguments and change nothing.
    """
    seen: Spent = []

    def watched(mechanism: Any, kind: str) -> Any:
        class Watched(mechanism):  # type: ignore[misc]
            def __init__(self, *, epsilon: float, sensitivity: float, **more: Any) -> None:
                super().__init__(epsilon=epsilon, sensitivity=sensitivity, **more)
                seen.append((kind, float(epsilon), float(sensitivity)))

        return Watched

    originals = k_means.GeometricFolded, k_means.LaplaceBoundedDomain
    try:
        k_means.GeometricFolded = watched(originals[0], "count")
        k_means.LaplaceBoundedDomain = watched(originals[1], "sum")
        # so many points everywhere that no cluster is empty
        points = np.random.default_rng(request["seed"]).uniform(-1, 1, (2000, request["d"]))
        model = model_of(request, request["seed"]).fit(points)
    finally:
        k_means.GeometricFolded, k_means.LaplaceBoundedDomain = originals
    return {"spent": seen, "rounds": int(model.n_iter_)}


def alone(request: dict[str, Any]) -> dict[str, Any]:
    """In how many of the seeds a centre stays exactly where it started, without and with one row.

    All rows lie in one corner but for the one that is added in the opposite corner. A centre that
    no row is nearest to is not moved at all, so it shows whether that row is there.
    """
    still = []
    for extra in (0, 1):
        points = np.full((request["n"], request["d"]), -1.0)
        points = np.vstack([points, np.ones((extra, request["d"]))])
        count = 0
        for seed in request["seeds"]:
            model = model_of(request, seed, k=2)
            model.bounds = model._check_bounds((-1, 1), request["d"], min_separation=1e-5)
            start = model._init_centers(request["d"], random_state=np.random.RandomState(seed))
            model.bounds = (-1, 1)
            end = model.fit(points).cluster_centers_
            count += bool((start == end).all(axis=1).any())
        still.append(count)
    return {"still": still}


if __name__ == "__main__":
    serve(diffprivlib.__version__, {"centers": centers, "spent": spent, "alone": alone})
