"""Releases as tuples of queries: what the three audits share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
)

MAX_RUNS = 10**8  # runs of one audit
Release = Callable[..., Any]
Statistic = Callable[[Any], Any]


def float_array(value: Any, name: str) -> FloatArray:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiubO":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold real numbers") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite (no nan, no inf)")
    return array


def as_queries(value: Any, name: str) -> tuple[FloatArray, ...]:
    """A tuple is several queries, anything else is one."""
    parts = value if isinstance(value, tuple) else (value,)
    if not parts:
        raise ValueError(f"{name} must hold at least one query, got an empty tuple")
    arrays = tuple(float_array(part, name) for part in parts)
    if any(array.size == 0 for array in arrays):
        raise ValueError(f"{name} must not hold an empty array")
    return arrays


def claimed_stds(claimed_std: Any, exact: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """One array of standard deviations per query, broadcast to the query's shape."""
    parts = claimed_std if isinstance(claimed_std, tuple) else (claimed_std,)
    if len(parts) != len(exact):
        raise ValueError(
            f"claimed_std must have one entry per query ({len(exact)}), got {len(parts)}"
        )
    out = []
    for part, value in zip(parts, exact, strict=True):
        std = float_array(part, "claimed_std")
        if np.asarray(part).dtype.kind == "b":
            raise TypeError("claimed_std must hold real numbers, got bool")
        if (std <= 0).any():
            raise ValueError("claimed_std must be > 0")
        if not ((std >= 1e-100) & (std <= 1e100)).all():  # squares must be numbers
            raise ValueError("claimed_std must lie between 1e-100 and 1e100 (rescale)")
        try:
            out.append(np.broadcast_to(std, value.shape))
        except ValueError:
            raise ValueError(
                f"claimed_std must broadcast to the query's shape {value.shape}, got {std.shape}"
            ) from None
    return tuple(out)


def draw_runs(
    release: Release,
    shapes: Sequence[tuple[int, ...]],
    *,
    n_runs: int,
    vectorized: bool,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Draw `n_runs` releases: one array of shape (n_runs, n_coordinates) per query."""
    if vectorized:
        drawn = as_queries(release(rng, n_runs), "release")
    else:
        singles = [as_queries(release(rng), "release") for _ in range(n_runs)]
        if len({tuple(query.shape for query in single) for single in singles}) > 1:
            raise ValueError("release must return arrays of the same shapes in every run")
        drawn = tuple(np.stack(query) for query in zip(*singles, strict=True))
    expected = [(n_runs, *shape) for shape in shapes]
    if [query.shape for query in drawn] != expected:
        raise ValueError(
            f"release must return arrays of shape {expected} over {n_runs} runs, "
            f"got {[query.shape for query in drawn]}"
        )
    return [query.reshape(n_runs, -1) for query in drawn]


def join_numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
