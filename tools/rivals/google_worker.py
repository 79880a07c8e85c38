"""Google's LSH clustering for `tools.rivals`; its argument is the folder with `clustering`."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from serving import of_each_seed, serve

sys.path.insert(0, sys.argv[1])
from clustering import clustering_algorithm, clustering_params  # noqa: E402


def fingerprint(folder: Path) -> str:
    """The first 12 digits of the SHA-256 of its modules, in the order of their names."""
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(text).hexdigest()[:12]


def centers(request: dict[str, Any]) -> dict[str, Any]:
    """Centres of one run for each seed, and the processor time of each."""
    points = np.load(request["points"])
    # of the rows only the smallest public ball around them is known
    data = clustering_params.Data(datapoints=points, radius=request["radius"])
    budget = clustering_params.DifferentialPrivacyParam(request["epsilon"], request["delta"])

    def run(seed: int) -> Any:
        # it draws from NumPy's global generator, which is seeded by its name: ours never do that
        getattr(np.random, "seed")(seed)  # noqa: B009
        result = clustering_algorithm.private_lsh_clustering(request["k"], data, budget)
        return np.asarray(result.centers).tolist()

    found, seconds = of_each_seed(request, run)
    return {"centers": found, "seconds": seconds}


if __name__ == "__main__":
    serve(fingerprint(Path(sys.argv[1]) / "clustering"), {"centers": centers})
