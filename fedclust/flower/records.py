"""What a study released as a model that `fedclust.load` reads, where it kept a copy of the data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from fedclust.estimators import reclustering, saving
from fedclust.estimators.cautions import released_sizes
from fedclust.estimators.statement import statement_of
from fedclust.flower.study import Study
from fedclust_helpers import __version__
from fedclust_helpers.fastlloyd import WeightedCopy


def as_model(study: Study, result: Any) -> str | None:
    """The file of a `PrivateKMeans` with the result of over-clustered Lloyd, else None.

    So it can be clustered again, and put together with those of other batches of rows.
    """
    copy = getattr(result, "copy", None)
    if not isinstance(copy, WeightedCopy):
        return None
    b, plan = study.bound, result.plan
    copy = replace(
        copy, points=copy.points / b, sum_std=copy.sum_std / b, scatter=copy.scatter / b**2
    )
    found = released_sizes(result, result.centers)
    whole = np.full(study.n_features, b)
    lower, upper = (
        whole * sign if side is None else np.asarray(side)
        for side, sign in ((study.lower, -1), (study.upper, 1))
    )
    statement = statement_of(
        "PrivateKMeans", plan, (lower, upper), columns=study.columns, warnings=(),
        ledger=result.ledger, bounds_from="given, public", result=result,
    )  # fmt: skip
    assert found.center_std is not None
    written = {
        "format": saving.FORMAT, "version": __version__, "estimator": "PrivateKMeans",
        "parameters": {
            "n_clusters": len(result.centers), "epsilon": plan.epsilon, "delta": plan.delta,
            "mode": plan.facts.mode, "method": "overclustered", "trust": study.trust,
        },
        "content": {
            "centers": np.asarray(study.in_units(result.centers)).tolist(),
            "box_centers": (result.centers / b).tolist(), "sizes": found.sizes.tolist(),
            "size_std": found.size_std, "center_std": (found.center_std / b).tolist(),
            "copy": reclustering.as_json(copy),
        },
        "statement": dict(statement.facts) | {"played": PLAYED},
    }  # fmt: skip
    return json.dumps(written, indent=1, allow_nan=False)


PLAYED = "by clients on machines apart, over a network"
