"""B. Can one record move the exact statistic further than claimed?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_choice,
    check_int,
    check_non_negative,
    check_real,
    check_rng,
)
from fedclust_helpers.audit._queries import (
    Statistic,
    as_queries,
    float_array,
    join_numbers,
)

_ROUNDING = 1e-9  # relative excess over a claimed sensitivity that counts as rounding error


@dataclass(frozen=True)
class SensitivityAudit:
    """Result of `audit_sensitivity` and `search_sensitivity`.

    Attributes
    ----------
    worst : tuple of float
        Largest change found, one entry per audited query (a single entry for a joint norm).
    claimed : tuple of float
        The claimed sensitivities.
    worst_index : tuple of int
        Which pair gave the largest change (the evaluation's number, for a search).
    n_pairs : int
        Number of pairs of neighbouring data sets that were compared.
    slack : float
        Relative excess over the claim that was allowed.
    records : tuple of ndarray of shape (d,)
        For a search: the record added, or the two records exchanged. Empty otherwise.
    """

    worst: tuple[float, ...]
    claimed: tuple[float, ...]
    worst_index: tuple[int, ...]
    n_pairs: int
    slack: float
    records: tuple[FloatArray, ...] = ()

    @property
    def ratio(self) -> tuple[float, ...]:
        """Largest change over claimed sensitivity (inf if a constant was claimed and it moved)."""
        return tuple(
            worst / claimed if claimed > 0 else (math.inf if worst > 0 else 0.0)
            for worst, claimed in zip(self.worst, self.claimed, strict=True)
        )

    @property
    def passed(self) -> bool:
        """True if no pair exceeded the claim. A pass says only that none was found."""
        return all(ratio <= 1 + self.slack + _ROUNDING for ratio in self.ratio)

    def __str__(self) -> str:
        return (
            f"sensitivity audit ({self.n_pairs} pairs): {'passed' if self.passed else 'FAILED'}\n"
            f"  largest change {join_numbers(self.worst)}; claimed {join_numbers(self.claimed)}; "
            f"ratio {join_numbers(self.ratio)}; at pair {', '.join(map(str, self.worst_index))}"
        )


def _check_norm(norm: Any) -> float:
    norm = check_real(norm, "norm")
    if norm < 1:
        raise ValueError(f"norm must be >= 1 (1, 2 or inf are usual), got {norm}")
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
        raise ValueError(
            f"claimed must have one entry per query ({len(differences)}), got {len(norms)}"
        )
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
    slack: float = 0.0,
) -> SensitivityAudit:
    """Compare the change of an exact statistic over neighbouring data sets with a claim.

    No noise and no chance: a change above the claim is a counter-example to it. The adjacency is
    whatever the pairs are, so state it where you build them; a sensitivity for adding one record
    is in general only half of the one for replacing a record.

    Parameters
    ----------
    statistic : callable
        ``statistic(data)`` returning an array or a tuple of arrays, exact and deterministic.
    neighbours : iterable of (data, data')
        Pairs of neighbouring data sets, for instance from `random_neighbours`. Put the analytic
        worst pair among them where it is known.
    claimed : float or tuple of float
        The claimed sensitivity, >= 0. A tuple is one claim per query. A single number for a
        statistic of several queries is a claim about their joint norm.
    norm : float or tuple of float
        Norm of the change, >= 1: 1 for Laplace, 2 for Gaussian noise, or inf.
    slack : float
        Relative excess that is allowed, >= 0 (for instance the rounding of fixed-point numbers).
        A relative excess of 1e-9 is always taken as floating-point rounding.

    Returns
    -------
    SensitivityAudit

    Raises
    ------
    TypeError
        If a number has the wrong type.
    ValueError
        If there is no pair, if a number is out of range, or if the statistic's shapes differ.

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
    slack = check_non_negative(slack, "slack")

    worst, index, n_pairs = [0.0] * len(claims), [0] * len(claims), 0
    for left, right in neighbours:
        changes = _changes(
            as_queries(statistic(left), "statistic"),
            as_queries(statistic(right), "statistic"),
            norms,
            joint,
        )
        for query, change in enumerate(changes):
            if change > worst[query]:
                worst[query], index[query] = change, n_pairs
        n_pairs += 1
    if n_pairs == 0:
        raise ValueError("neighbours must hold at least one pair of data sets")
    return SensitivityAudit(tuple(worst), claims, tuple(index), n_pairs, slack)


@checked
def random_neighbours(
    make_data: Callable[[np.random.Generator], Any],
    change: Callable[[Any, np.random.Generator], Any],
    n_pairs: int,
    *,
    rng: np.random.Generator,
) -> Iterator[tuple[Any, Any]]:
    """Yield `n_pairs` random pairs of neighbouring data sets.

    Parameters
    ----------
    make_data : callable
        ``make_data(rng)`` returning a data set.
    change : callable
        ``change(data, rng)`` returning a neighbour of it, as a new object. This function is the
        adjacency: add one record, replace one record, remove one client, ...
    n_pairs : int
        Number of pairs, at least 1.
    rng : numpy.random.Generator
        Given to both callables.

    Returns
    -------
    iterator of (data, data')

    Raises
    ------
    TypeError, ValueError
        If `n_pairs` or `rng` is not usable.
    """
    n_pairs = check_int(n_pairs, "n_pairs")
    check_rng(rng)

    def pairs() -> Iterator[tuple[Any, Any]]:
        for _ in range(n_pairs):
            data = make_data(rng)
            yield data, change(data, rng)

    return pairs()


@checked
def search_sensitivity(
    statistic: Statistic,
    data: ArrayLike,
    bounds: tuple[ArrayLike, ArrayLike],
    claimed: float,
    *,
    adjacency: str = "add/remove",
    norm: float = 2,
    slack: float = 0.0,
    n_random: int = 300,
    n_climbs: int = 5,
    n_steps: int = 400,
    rng: np.random.Generator,
) -> SensitivityAudit:
    """Look for the record that moves a statistic most, by random search and hill climbing.

    A third of the random records is uniform in the box, a third sits at its corners, and a third
    lies near a data point at a random distance. The best `n_climbs` of them are then improved by
    Gaussian steps whose size grows after a success and shrinks after a failure. What it finds is a
    lower bound on the sensitivity; more steps are needed in many dimensions and for two records.

    Parameters
    ----------
    statistic : callable
        ``statistic(points)`` returning an array or a tuple of arrays for points of shape (n, d). A
        tuple is measured by its joint norm.
    data : array_like of shape (n, d)
        The records that both data sets share. Never changed.
    bounds : tuple of array_like
        Lowest and highest value of a record, each a number or of shape (d,).
    claimed : float
        The claimed sensitivity, >= 0.
    adjacency : {"add/remove", "replace-one"}
        "add/remove" compares `data` with `data` and one more record; "replace-one" compares `data`
        and one record with `data` and another record.
    norm : float
        Norm of the change, >= 1.
    slack : float
        Relative excess that is allowed, >= 0.
    n_random, n_climbs, n_steps : int
        Random records, climbs, and steps in each climb.
    rng : numpy.random.Generator
        Source of the search's randomness.

    Returns
    -------
    SensitivityAudit
        With the record that was found in `records` (two for "replace-one").

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a number or a shape is out of range, or if lower bounds are not below upper bounds.
    """
    points = as_points(data, "data")
    n_features = points.shape[1]
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        raise ValueError("bounds must be a tuple (lowest, highest)")
    ends = [float_array(end, "bounds") for end in bounds]
    if any(end.shape not in ((), (n_features,)) for end in ends):
        raise ValueError(f"bounds must be numbers or arrays of shape ({n_features},)")
    low, high = (np.broadcast_to(end, (n_features,)) for end in ends)
    if not (low < high).all():
        raise ValueError("bounds must have every lowest value below the highest value")
    claimed = check_non_negative(claimed, "claimed")
    replace = check_choice(adjacency, "adjacency", ("add/remove", "replace-one")) == "replace-one"
    norm = _check_norm(norm)
    slack = check_non_negative(slack, "slack")
    n_random = check_int(n_random, "n_random", maximum=10**8)
    n_climbs = check_int(n_climbs, "n_climbs", minimum=0, maximum=n_random)
    n_steps = check_int(n_steps, "n_steps", minimum=0)
    check_rng(rng)

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
    found = np.array([change(records) for records in starts])
    evaluations = n_random
    best, best_records, best_index = -1.0, starts[0], 0
    for start in np.argsort(found, kind="stable")[::-1][: max(n_climbs, 1)]:
        value, records, index, step = float(found[start]), starts[start], int(start), 0.1
        for draw in fresh(n_steps if n_climbs else 0):
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
        if value > best:
            best, best_records, best_index = value, records, index
    return SensitivityAudit(
        (best,), (claimed,), (best_index,), evaluations, slack, tuple(best_records.copy())
    )
