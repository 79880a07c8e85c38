"""B. Can one record move the exact statistic further than claimed?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import (
    Count,
    FloatArray,
    Natural,
    NonNegative,
    as_bound,
    as_points,
    check_fits,
    check_non_negative,
    check_real,
)
from fedclust_helpers.audit._queries import Report, Statistic, as_queries

N_CLIMBS = 5  # best random records that a search improves
_ROUNDING = 1e-9  # relative excess over a claimed sensitivity that counts as rounding error


@dataclass(frozen=True)
class SensitivityAudit(Report):
    """Result of `audit_sensitivity` and `search_sensitivity`; one entry per claim."""

    worst: tuple[float, ...]  # largest change found
    claimed: tuple[float, ...]
    worst_index: tuple[int, ...]  # the number of its pair
    n_pairs: int
    records: tuple[FloatArray, ...] = ()  # for a search: the one (d,) added, or the two exchanged
    incomplete = ()

    @property
    def ratio(self) -> tuple[float, ...]:
        """Largest change over claimed sensitivity (inf if a constant was claimed and it moved)."""
        return tuple(
            worst / claimed if claimed > 0 else (math.inf if worst > 0 else 0.0)
            for worst, claimed in zip(self.worst, self.claimed, strict=True)
        )

    @property
    def failed(self) -> tuple[str, ...]:  # type: ignore[override]
        """Which tests failed, in words."""
        return tuple(
            f"pair {index} changes the statistic by {ratio:.4g} times the claim"
            for index, ratio in zip(self.worst_index, self.ratio, strict=True)
            if ratio > 1 + _ROUNDING
        )

    def _lines(self) -> list[str]:
        worst, claimed, ratio = (
            ", ".join(f"{value:.4g}" for value in values)
            for values in (self.worst, self.claimed, self.ratio)
        )
        return [
            f"sensitivity audit ({self.n_pairs} pairs)",
            f"largest change {worst}; claimed {claimed}; ratio {ratio}",
        ]


def _check_norm(norm: Any, name: str = "norm") -> float:
    norm = check_real(norm, name)
    if norm < 1:
        raise ValueError(f"{name} must be >= 1 (1, 2 or inf are usual), got {norm}")
    return norm


def _changes(
    left: tuple[FloatArray, ...], right: tuple[FloatArray, ...], norms: Sequence[float], joint: bool
) -> list[float]:
    """Norm of the difference of two exact statistics, per query or over all of them."""
    if [a.shape for a in left] != [b.shape for b in right]:
        raise ValueError("statistic must return the same shapes on both data sets of a pair")
    differences = [(b - a).ravel() for a, b in zip(left, right, strict=True)]
    if joint:
        differences = [np.concatenate(differences)]
    if len(differences) != len(norms):
        raise ValueError(f"claimed must have one entry per query ({len(differences)})")
    return [
        float(np.linalg.norm(difference, ord=norm))
        for difference, norm in zip(differences, norms, strict=True)
    ]


@checked
def audit_sensitivity(
    statistic: Statistic,
    neighbours: Iterable[tuple[Any, Any]],
    claimed: float | tuple[float, ...],
    *,
    norm: float | tuple[float, ...] = 2,
) -> SensitivityAudit:
    """Compare the change of an exact statistic over neighbouring data sets with a claim.

    No noise and no chance: a change above the claim (by more than 1e-9 of it, which is taken as
    rounding) is a counter-example to it. The adjacency is whatever the pairs are, so state it where
    you build them; a sensitivity for adding one record is in general only half of the one for
    replacing a record.

    ``statistic(data)`` returns an array or a tuple of arrays, exact and deterministic. `neighbours`
    are pairs (data, data'), from `random_neighbours`, say, with the analytic worst pair where it is
    known. `norm` is 1 for Laplace, 2 for Gaussian noise, or inf. A tuple `claimed` is one claim per
    query; a single number for a statistic of several queries is one about their joint norm.

    Examples
    --------
    >>> import numpy as np
    >>> data = np.array([[1.0], [-1.0]])
    >>> pairs = [(data, data[:1]), (data, data[1:])]
    >>> audit_sensitivity(lambda x: x.sum(axis=0), pairs, 1.0).passed
    True
    >>> audit_sensitivity(lambda x: x.sum(axis=0), [(data[:1], data[1:])], 1.0).ratio
    (2.0,)
    """
    joint = not isinstance(claimed, tuple)
    claims = claimed if isinstance(claimed, tuple) else (claimed,)
    claims = tuple(check_non_negative(value, "claimed") for value in claims)
    given = norm if isinstance(norm, tuple) else (norm,) * len(claims)
    norms = tuple(_check_norm(value) for value in given)
    if len(norms) != len(claims):
        raise ValueError(f"norm must have one entry per claim ({len(claims)}), got {len(norms)}")
    worst, index, n_pairs = [0.0] * len(claims), [0] * len(claims), 0
    for pair in neighbours:
        left, right = (as_queries(statistic(data), "statistic") for data in pair)
        for query, change in enumerate(_changes(left, right, norms, joint)):
            if change > worst[query]:
                worst[query], index[query] = change, n_pairs
        n_pairs += 1
    if n_pairs == 0:
        raise ValueError("neighbours must hold at least one pair of data sets")
    return SensitivityAudit(tuple(worst), claims, tuple(index), n_pairs)


@checked
def random_neighbours(
    make_data: Callable[[np.random.Generator], Any],
    change: Callable[[Any, np.random.Generator], Any],
    n_pairs: Count,
    *,
    rng: np.random.Generator,
) -> Iterator[tuple[Any, Any]]:
    """Return an iterator of `n_pairs` random pairs (data, data') of neighbouring data sets.

    ``make_data(rng)`` returns a data set, ``change(data, rng)`` a neighbour of it, as a new object:
    this function is the adjacency (add one record, replace one record, remove one client, ...).
    """
    made = (make_data(rng) for _ in range(n_pairs))
    return ((data, change(data, rng)) for data in made)


@checked
def search_sensitivity(
    statistic: Statistic,
    data: ArrayLike,
    bounds: tuple[ArrayLike, ArrayLike],
    claimed: NonNegative,
    *,
    adjacency: Literal["add/remove", "replace-one"] = "add/remove",
    norm: Annotated[float, _check_norm] = 2,
    n_random: Count = 300,
    n_steps: Natural = 400,
    rng: np.random.Generator,
    progress: Progress = False,
) -> SensitivityAudit:
    """Look for the record that moves a statistic most, by random search and hill climbing.

    A third of the random records is uniform in the box, a third sits at its corners, and a third
    lies near a data point at a random distance. The best `N_CLIMBS` of them are then improved by
    Gaussian steps whose size grows after a success and shrinks after a failure. What it finds is a
    lower bound on the sensitivity; more steps are needed in many dimensions and for two records.

    ``statistic(points)`` returns an array or a tuple of arrays (measured by its joint norm) for
    points of shape (n, d); `data` are the records that both data sets share, one side having one
    more ("add/remove") or both a different one ("replace-one"). `bounds` are the lowest and highest
    value of a record, each a number or of shape (d,). `n_random` records are tried, and `n_steps`
    in each climb. `progress` shows a bar over them, or is called as progress(done, total).
    """
    points = as_points(data, "data")
    n_features = points.shape[1]
    low, high = (as_bound(end, "bounds", n_features) for end in bounds)
    if not (low < high).all():
        raise ValueError("bounds must have every lowest value below the highest value")
    check_fits(n_random * points.size, "n_random")
    replace = adjacency == "replace-one"
    n_records = 1 + replace
    without = as_queries(statistic(points), "statistic")
    width = high - low

    def change(records: FloatArray) -> float:
        after = [
            as_queries(statistic(np.vstack([points, record])), "statistic") for record in records
        ]
        left, right = (after[0], after[1]) if replace else (without, after[0])
        return _changes(left, right, (norm,), joint=True)[0]

    def fresh(count: int) -> FloatArray:
        shape = (count, n_records, n_features)
        uniform = rng.uniform(low, high, size=shape)
        corners = np.where(rng.random(shape) < 0.5, low, high)
        scale = width * 10.0 ** rng.uniform(-3, 0, size=(count, n_records, 1))
        rows = points[rng.integers(len(points), size=(count, n_records))]
        near = np.clip(rows + scale * rng.standard_normal(shape), low, high)
        kind = rng.integers(3, size=(count, n_records, 1))
        return np.select([kind == 0, kind == 1], [uniform, corners], near)

    starts = fresh(n_random)
    best, best_records, best_index = -1.0, starts[0], 0
    evaluations, climbs = n_random, min(N_CLIMBS, n_random)
    with showing(progress, n_random + climbs * n_steps, "sensitivity search") as tell:
        found = np.array([change(records) for records in starts])
        tell(n_random)
        for start in np.argsort(found, kind="stable")[::-1][:climbs]:
            value, records, index, step = float(found[start]), starts[start], int(start), 0.1
            for draw in fresh(n_steps):
                # a pair of records also tries to exchange one of the two for a fresh one
                jump = replace and rng.random() < 0.25
                if jump:
                    proposal = np.where(rng.permutation(2)[:, None] == 0, records, draw)
                else:
                    move = step * width * rng.standard_normal((n_records, n_features))
                    proposal = np.clip(records + move, low, high)
                attempt = change(proposal)
                better = attempt > value
                if better:
                    value, records, index = attempt, proposal, evaluations
                if not jump:
                    step = min(step * 1.8, 1.0) if better else max(step * 0.87, 1e-10)
                evaluations += 1
                tell(evaluations)
            if value > best:
                best, best_records, best_index = value, records, index
    return SensitivityAudit(
        (best,), (claimed,), (best_index,), evaluations, tuple(best_records.copy())
    )
