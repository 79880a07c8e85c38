"""Numbers that must be the same on every platform, as JSON: run there and here, and compared."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np

from fedclust import FastLloydKMeans, private_bounds, private_summary
from fedclust_helpers import accounting, federation
from fedclust_helpers.datasets import partition_iid


def rows() -> list[np.ndarray]:
    """Three hospitals: age and blood pressure, nothing that is clipped away."""
    rng = np.random.default_rng(7)
    middles = ((35.0, 115.0), (60.0, 140.0), (75.0, 165.0))
    return [rng.normal(middle, 8.0, size=(400, 2)) for middle in middles]


def found() -> dict[str, Any]:
    """By name, each a number or a list of them."""
    own: dict[str, Any] = {"mode": "teaching", "seed": 1}
    box, out = ([0.0, 60.0], [110.0, 220.0]), {}
    summary = private_summary(rows(), epsilon=1.0, delta=1e-6, bounds=box, **own)
    out["summary, mean"] = np.ravel(summary.mean)
    out["summary, spread"] = np.ravel(summary.spread)
    bounds = private_bounds(rows(), epsilon=1.0, delta=1e-6, **own)
    out["bounds"] = np.ravel([bounds.lower, bounds.upper])
    for trust in federation.TRUST_MODELS:
        if trust in ("local", "shuffled"):
            continue
        how = {"bounds": box, "delta": 1e-6, "trust": trust, **own}
        model = FastLloydKMeans(3, 4.0, **how).fit(rows())
        out[f"sizes, {trust}"] = np.sort(model.predict(np.concatenate(rows())), kind="stable")[::99]
        out[f"centers, {trust}"] = np.sort(np.ravel(model.cluster_centers_))
    out["split"] = partition_iid(300, 7, rng=np.random.default_rng(3)).astype(float)
    out["gdp"] = [accounting.gdp_mu(1.0, 1e-6), accounting.gdp_epsilon(0.7, 1e-9)]
    return {name: np.asarray(value, dtype=np.float64).tolist() for name, value in out.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({"bits": 8 * np.dtype(np.intp).itemsize, "found": found()}))
    sys.exit(0)
