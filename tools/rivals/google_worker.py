"""Runs Google's LSH clustering for `tools.rivals`, in an environment of its own.

Reads one request a line (JSON) from standard input, answers with one line. Imports nothing of ours;
the folder that holds `clustering` is the first argument.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def fingerprint(folder: Path) -> str:
    """The first 12 digits of the SHA-256 of its modules, in the order of their names."""
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(text).hexdigest()[:12]


def main() -> None:
    """Answer until there are no more requests."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, sys.argv[1])
    from clustering import clustering_algorithm, clustering_params

    print(json.dumps({"version": fingerprint(Path(sys.argv[1]) / "clustering")}), flush=True)
    # it draws from NumPy's global generator, which is seeded by its name here: ours never do that
    seed_global = getattr(np.random, "seed")  # noqa: B009

    def centers(request: dict[str, Any]) -> dict[str, Any]:
        """Centres of one run for each seed, and the processor time of each."""
        points, found, seconds = np.load(request["points"]), [], []
        # all that is known of the rows is that they lie in the box: the ball around it
        radius = float(np.sqrt(points.shape[1]))
        for seed in request["seeds"]:
            seed_global(seed)
            begin = time.process_time()
            result = clustering_algorithm.private_lsh_clustering(
                request["k"],
                clustering_params.Data(datapoints=points, radius=radius),
                clustering_params.DifferentialPrivacyParam(request["epsilon"], request["delta"]),
            )
            found.append(np.asarray(result.centers).tolist())
            seconds.append(time.process_time() - begin)
        return {"centers": found, "seconds": seconds}

    for line in sys.stdin:
        request = json.loads(line)
        assert request.pop("ask") == "centers"
        print(json.dumps(centers(request)), flush=True)


if __name__ == "__main__":
    main()
