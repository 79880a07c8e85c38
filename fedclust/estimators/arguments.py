"""Arguments of scikit-learn's estimators that these have not, and what to do instead."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.preprocessing import MaxAbsScaler

PARAMETERS = {
    "random_state": "the name is seed, for mode='teaching' only: secure noise has no seed",
    "n_init": "each further start would be a release of its own, and cost its share of epsilon",
    "max_iter": "the number of rounds is part of the plan: options={'n_rounds': ...} where a method"
    " lets you choose",
    "tol": "rounds are planned in advance: when to stop must not depend on the rows",
    "init": "public starting centres go into options={'initial': ...} of method 'fastlloyd'",
    "n_jobs": "a fit runs in one process",
    "algorithm": "the name is method",
}
ARGUMENTS = {
    "sample_weight": "noise is calibrated for rows of weight 1, and a weight would multiply what a"
    " row can move; leave rows out by a public rule instead",
    "groups": "the name is clients",
    "owners": "the name is clients",
}


def refuse_parameters(kind: str, named: dict[str, Any]) -> None:
    """TypeError for a parameter that scikit-learn's estimators have and this one must not."""
    for name in named:
        if name in PARAMETERS:
            raise TypeError(f"{kind} has no parameter {name!r}: {PARAMETERS[name]}")


def refuse_arguments(y: Any, further: dict[str, Any]) -> None:
    """Refuse labels and weights beside the rows, before anything is read."""
    for name in further:
        why = ARGUMENTS.get(name, "it takes X, clients and, where a server has rows, X_server")
        raise TypeError(f"fit() takes no argument {name!r}: {why}")
    if y is not None:
        raise ValueError(
            "y must be None: rows have no labels here. If it says whose each row is, give it as"
            " clients: fit(X, clients=...), and in a Pipeline fit(X, STEP__clients=...)"
        )


def check_output(estimator: Any, one_table: bool) -> None:
    """Refuse what `transform` could not be given out as, before a fit is charged."""
    own = getattr(estimator, "_sklearn_output_config", {})
    wanted = own.get("transform", get_config()["transform_output"])
    if wanted == "default":
        return
    if not one_table:
        raise ValueError(
            "set_output must be 'default' for several clients, whose distances are a list of"
            " arrays: transform the rows of each by itself"
        )
    MaxAbsScaler().set_output(transform=wanted).fit_transform([[1.0]])  # is it there?
