"""B. Can one record move the exact statistic further than claimed?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, check_non_negative, check_real
from fedclust_helpers.audit._queries import Report, Statistic, as_queries

_ROUNDING = 1e-9  # relative excess over a claimed sensitivity that counts as rounding error


@dataclass(frozen=True)
class SensitivityAudit(Report):
    """Result of `audit_sensitivity`; one entry per claim."""

    worst: tuple[float, ...]  # largest change found
    claimed: tuple[float, ...]
    worst_index: tuple[int, ...]  # the number of its pair
    n_pairs: int
    incomplete = ()

    @property
    def ratio(self) -> tuple[float, ...]:
        """Largest change over claimed sensitivity (inf if a constant was claimed and it moved)."""
        return tuple(
            worst / claimed if claimed > 0 else (math.inf if worst > 0 else 0.0)
            for worst, claimed in zip(self.worst, self.claimed, strict=True)
        )

    def _tests(self) -> Iterable[tuple[bool, str]]:
        for index, ratio in zip(self.worst_index, self.ratio, strict=True):
            what = f"pair {index} changes the statistic by {ratio:.4g} times the claim"
            yield ratio > 1 + _ROUNDING, what

    def _lines(self) -> list[str]:
        worst, claimed, ratio = (
            ", ".join(f"{value:.4g}" for value in values)
            for values in (self.worst, self.claimed, self.ratio)
        )
        return [
            f"sensitivity audit ({self.n_pairs} pairs)",
            f"largest change {worst}; claimed {claimed}; ratio {ratio}",
        ]


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
    are pairs (data, data'): random ones, with the analytic worst pair where it is known. `norm` is
    1 for Laplace, 2 for Gaussian noise, or inf. A tuple `claimed` is one claim per query; a single
    number for a statistic of several queries is one about their joint norm.

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
