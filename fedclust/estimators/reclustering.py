"""Other clusterings of what one fit released, and models of batches put together: at no cost.

Both are made of the weighted copies that over-clustered Lloyd releases on its way, and of nothing
else. What comes out is a record of releases, as a loaded model is: it predicts, draws and is saved,
and it cannot be fitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from fedclust.estimators import saving
from fedclust.estimators.cautions import ReleasedSizes, cautions
from fedclust_helpers._validation import FloatArray, check_int
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.datasets import scale_from_box
from fedclust_helpers.fastlloyd import WeightedCopy, together
from fedclust_helpers.fastlloyd.rounds import checked_range
from fedclust_helpers.federation.plan_statement import NOUNS

SAME = {
    "estimator": "the estimator", "columns": "the columns", "lower": "the lower bounds",
    "upper": "the upper bounds", "unit": "whose presence is protected", "adjacency": "neighbours",
    "trust": "the trust model", "receiver": "who receives", "mode": "the mode",
}  # fmt: skip
"""What models that are put together have in common, in their statements."""


class DataCopy(NamedTuple):
    """A weighted copy of the data, as it was released with noise, in the units of the data.

    `points` (L, d) stand for `weights` (L,) rows each; `weight_std` (L,) is the standard deviation
    of the noise in these: a point whose weight is no larger may stand for no row.
    """

    points: FloatArray
    weights: FloatArray
    weight_std: FloatArray


def as_json(copy: WeightedCopy | None) -> dict[str, Any] | None:
    """A copy, in the box, as a file keeps it."""
    if copy is None:
        return None
    return {one.name: np.asarray(getattr(copy, one.name)).tolist() for one in fields(copy)}


def from_json(found: Mapping[str, Any] | None, n_features: int) -> WeightedCopy | None:
    """The copy of a file; ValueError if it is none."""
    if found is None:
        return None
    names = [one.name for one in fields(WeightedCopy)]
    arrays = {name: np.asarray(found[name], dtype=np.float64) for name in names}
    n = len(arrays["points"])
    shapes = {"points": (n, n_features), "scatter": (), "noise": ()}
    for name, array in arrays.items():
        shape = shapes.get(name, (n,))
        if array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name} of its copy must be finite numbers of shape {shape}")
    least = min(arrays["weights"].min(initial=0.0), arrays["scatter"])
    if n == 0 or least < 0 or arrays["noise"] <= 0 or arrays["weights"].sum() <= 0:
        raise ValueError("its copy must have points, weights and noise that are not negative")
    scatter, noise = (float(arrays.pop(name)) for name in ("scatter", "noise"))
    return WeightedCopy(**arrays, scatter=scatter, noise=noise)


def reclustered(
    model: Any, n_clusters: Any, k_range: tuple[int, int] | None, seed: int
) -> Any:  # fmt: skip
    """A record of the same release with other clusters; see `PrivateKMeans.recluster`."""
    if model._copy is None:
        raise ValueError(f"model must have a copy of the data to be clustered again: {NO_COPY}")
    return _found(model, saving.as_json(model), model._copy, n_clusters, k_range, seed)


NO_COPY = (
    "only a fit by method='overclustered' releases one (and files of older versions do not keep it)"
)


def from_copies(
    models: Sequence[Any], n_clusters: Any = "auto", *, k_range: tuple[int, int] | None = None,
    seed: int = 0,
) -> Any:  # fmt: skip
    """One model of all rows, from models of batches that have no row in common; nothing is charged.

        january, february = (model().fit(rows) for rows in batches)
        fedclust.from_copies([january, february], 4)

    Each row was charged once, by the fit of its batch: a row in one batch has the guarantee of that
    fit, however often models are put together. **A person with rows in several batches pays for
    each of them**; the statement says what for rows in all.

    Parameters
    ----------
    models : sequence of fitted or loaded estimators
        With a copy (`copy_`): fitted by method "overclustered", on the same columns and bounds,
        under the same trust model; also models that were put together before.
    n_clusters, k_range, seed
        As for `PrivateKMeans.recluster`.

    Returns
    -------
    fitted estimator
        A record, as `load` gives: it predicts, draws, is saved and clustered again, not fitted.

    Raises
    ------
    TypeError, ValueError
        If there are no models, one has no copy or is there twice, or they differ in what they must
        have in common; nothing is ever charged.
    """
    if isinstance(models, str | Mapping) or not isinstance(models, Sequence):
        raise TypeError(f"models must be a sequence of estimators, got {type(models).__name__}")
    if not models:
        raise ValueError("models must hold at least one fitted estimator")
    for i, model in enumerate(models):
        if not hasattr(model, "recluster") or not hasattr(model, "cluster_centers_"):
            raise TypeError(f"models must be fitted estimators of k-means; number {i} is none")
        if model._copy is None:
            raise ValueError(f"models must have a copy of the data; number {i} has none: {NO_COPY}")
    facts = [dict(model.statement().facts) for model in models]
    for name, what in SAME.items():
        for i, own in enumerate(facts[1:], 1):
            if own[name] != facts[0][name]:
                raise ValueError(
                    f"models must have the same {name}: {what} of number {i} and of number 0 differ"
                    + _on_bounds(name)
                )
    copies = [model._copy for model in models]
    for i, one in enumerate(copies):
        if any(_holds(other, one) for other in copies[:i] + copies[i + 1 :]):
            raise ValueError(
                f"models must have no release in common: the copy of number {i} is there twice, and"
                " its rows would count twice"
            )
    written = saving.as_json(models[-1]) | {"statement": _all_facts(models, facts)}
    return _found(models[0], written, together(copies), n_clusters, k_range, seed)


def _on_bounds(name: str) -> str:
    if name not in ("lower", "upper"):
        return ""
    return " (bounds='private' finds others in each batch: give all of them the same public bounds)"


def _holds(whole: WeightedCopy, part: WeightedCopy) -> bool:
    """Whether the first point of one, with its weight, is in the other: noise never repeats."""
    first = np.append(part.points[0], part.weights[0])
    return bool((np.column_stack([whole.points, whole.weights]) == first).all(axis=1).any())


def _found(
    model: Any, written: dict[str, Any], copy: WeightedCopy, n_clusters: Any,
    k_range: tuple[int, int] | None, seed: int,
) -> Any:  # fmt: skip
    """The record of `written` with clusters of this copy."""
    rng = np.random.default_rng(check_int(seed, "seed", minimum=0))
    held = int(np.count_nonzero(copy.weights))
    if n_clusters == "auto":
        k = copy.best_k(checked_range(k_range), rng=rng)
    elif k_range is not None:
        raise ValueError("k_range must not be given unless n_clusters is 'auto'")
    else:
        k = check_int(n_clusters, "n_clusters")
        if k > held:
            raise ValueError(
                f"n_clusters must be at most {held}, the points of the copy that hold rows, got {k}"
            )
    centers = copy.centers(k, rng=rng)
    sizes, size_std, center_std = copy.around(centers)
    written["content"] = {
        "centers": scale_from_box(centers, *model._box).tolist(),
        "box_centers": centers.tolist(), "sizes": sizes.tolist(), "center_std": center_std.tolist(),
        "size_std": float(size_std.max()), "copy": as_json(copy),
    }  # fmt: skip
    facts, most = written["statement"], copy.largest_k()
    rows = copy.n_records / k
    facts |= {
        "n_clusters": k, "predicted_error": None,
        "plan": [pair for pair in facts["plan"] if pair[0] != "cost"],  # it is said of another k
        "found": f"{k} clusters, found in the copy of the release: {held} points with noised counts"
        " of their rows. Nothing more was released or charged. A cluster has about"
        f" {rows:,.0f} rows, {rows / copy.noise:.3g} for each noise of a count; up to {most}"
        " clusters have enough to show above it",
    }  # fmt: skip
    written["parameters"]["n_clusters"] = n_clusters
    made = model._sharing(saving.restored(type(model), written))
    told = cautions(
        ReleasedSizes(sizes, float(size_std.max()), center_std), centers, facts["n_records"], copy
    )
    made._said, made.cautions_ = (), told
    made._caution()
    return made


def _all_facts(models: Sequence[Any], facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the statement of models of batches says, of those that were put together before too."""
    batches = [batch for own in facts for batch in own.get("batches") or [_batch(own)]]
    total, delta = _in_all(models, facts)
    first, n = facts[0], len(batches)
    epsilons = [batch["epsilon"] for batch in batches]
    worst = None if None in epsilons else max(epsilons)
    least = max(batch["delta"] for batch in batches)
    rows = sum(own["n_records"] for own in facts)
    said = dict(first["plan"])
    kept = [heading for heading in said if heading.endswith((" sees", " see"))]
    plan = [
        ("method", f"over-clustered Lloyd, copies of {n} batches put together"),
        ("protects", f"one {NOUNS[first['unit']]}, {first['adjacency']} neighbours, in one batch"),
        ("guarantee", f"{_cost(worst, least)}: of the batch that costs most"),
        (
            "one row, one batch",
            "each row was charged once, by the fit of its batch; putting copies together, and every"
            " clustering of them, is free. It holds for rows that are in one batch only",
        ),
        (
            "in several",
            "a person with rows in several batches pays for each of them: with rows in all,"
            f" {_cost(total, delta)} together",
        ),
        *((h, said[h]) for h in ("trust", *kept, "noise") if h in said),
        ("public", f"{rows} records in {n} batches (or bounds of these), {first['n_features']}"
                   " features"),
        *(
            (f"batch {i}", f"{batch['n_records']:,} records: {batch['method']},"
                           f" {_cost(batch['epsilon'], batch['delta'])}")
            for i, batch in enumerate(batches, 1)
        ),
    ]  # fmt: skip
    warnings = dict.fromkeys(text for own in facts for text in own["warnings"])
    charged = {
        "epsilon": worst, "ledger_epsilon": total,
        **{of: sum((own["charged"] or {}).get("releases", 0) for own in facts)
           for of in ("releases", "ledger_releases")},
    }  # fmt: skip
    return first | {
        "method": plan[0][1], "chosen_for": None, "epsilon": worst, "delta": least,
        "n_rounds": max(own["n_rounds"] for own in facts), "n_records": rows,
        "n_clients": sum(own["n_clients"] for own in facts),
        "accountant": "; ".join(dict.fromkeys(own["accountant"] for own in facts)),
        "planned_bytes": sum(own["planned_bytes"] for own in facts),
        "plan": [list(pair) for pair in plan], "warnings": list(warnings), "charged": charged,
        "budget": None, "batches": batches, "in_all_batches": {"epsilon": total, "delta": delta},
    }  # fmt: skip


def _batch(facts: Mapping[str, Any]) -> dict[str, Any]:
    """One batch, as the statement of its fit has it."""
    return {name: facts[name] for name in ("method", "n_records", "epsilon", "delta")}


def _in_all(
    models: Sequence[Any], facts: Sequence[Mapping[str, Any]]
) -> tuple[float | None, float]:
    """What rows in all batches cost together, and at which delta.

    As one ledger adds the releases up where the fits are at hand; of records by the plain sum.
    """
    if all(hasattr(model, "result_") for model in models):
        ledgers, delta = [m.result_.ledger for m in models], max(own["delta"] for own in facts)
        first = ledgers[0]
        releases = [release for ledger in ledgers for release in ledger.releases]
        total = PrivacyLedger(first.unit, first.adjacency, releases=releases).epsilon(delta)
        return (total if math.isfinite(total) else None), delta
    each = [own.get("in_all_batches") or own for own in facts]
    epsilons = [own["epsilon"] for own in each]
    total = math.inf if None in epsilons else math.fsum(epsilons)
    return (total if math.isfinite(total) else None), math.fsum(own["delta"] for own in each)


def _cost(epsilon: float | None, delta: float) -> str:
    return f"epsilon = {'infinite' if epsilon is None else f'{epsilon:.6g}'} at delta = {delta:.3g}"
