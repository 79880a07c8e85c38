"""DPM for `tools.rivals`; its argument is the folder with `dpm.py`."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from serving import of_each_seed, serve

sys.path.insert(0, sys.argv[1])
import dpm  # noqa: E402

SCALE = 100.0
"""Its own widths of intervals, 0.25 to 15, are for data in [-100, 100], as in its demonstration."""


def centers(request: dict[str, Any]) -> dict[str, Any]:
    """Centres of one run for each seed, None where it stops with an error, and seconds.

    `labels` names a file with its own partition of the rows for each seed, -1 where there is none.
    Its mechanisms take no seed: only what it draws from NumPy is repeated.
    """
    points = np.load(request["points"]) * SCALE
    labels = np.full((len(request["seeds"]), len(points)), -1, dtype=np.int16)

    def run(seed: int) -> Any:
        getattr(np.random, "seed")(seed)  # noqa: B009
        model = dpm.DPM(points, (-SCALE, SCALE), request["epsilon"], request["delta"])
        try:
            found, clusters = model.perform_clustering()
        except (ValueError, IndexError, ZeroDivisionError, OverflowError):
            return None  # its noised number of rows is not positive, or its intervals have no width
        for j, rows in enumerate(clusters):
            labels[request["seeds"].index(seed), rows] = j
        return np.clip(found / SCALE, -1, 1).tolist()

    found, seconds = of_each_seed(request, run)
    path = Path(tempfile.mkdtemp(prefix="fedclust-rivals-")) / "labels.npy"
    np.save(path, labels)
    return {"centers": found, "seconds": seconds, "labels": str(path)}


if __name__ == "__main__":
    text = (Path(sys.argv[1]) / "dpm.py").read_bytes()
    serve(hashlib.sha256(text).hexdigest()[:12], {"centers": centers})
