"""What the audits share: releases as tuples of queries, and the form of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from fedclust_helpers._validation import FloatArray, as_numbers, check_int

MAX_RUNS = 10**8  # runs of one audit
Runs = Annotated[int, partial(check_int, minimum=2, maximum=MAX_RUNS)]
Releasing = Callable[..., Any]
Statistic = Callable[[Any], Any]


class Report:
    """What an audit found: which tests `failed`, in words, and what is `incomplete`.

    Incomplete is what could not be seen, or was not looked at. A kind of report gives the rows of
    its text (`_lines`) and its tests (`_tests`).
    """

    incomplete: tuple[str, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Which tests failed, in words."""
        return tuple(text for failed, text in self._tests() if failed)

    @property
    def alarm(self) -> bool:
        """True if a test failed: evidence that the claim is wrong."""
        return bool(self.failed)

    @property
    def verdict(self) -> Literal["passed", "FAILED", "incomplete"]:
        """FAILED if a test failed, incomplete if none did but something was not tested."""
        return "FAILED" if self.failed else "incomplete" if self.incomplete else "passed"

    @property
    def passed(self) -> bool:
        """True if everything was tested and no test failed. A pass is no proof of privacy."""
        return self.verdict == "passed"

    def _tests(self) -> Iterable[tuple[bool, str]]:
        """Whether each test failed, and what that means."""
        raise NotImplementedError

    def _lines(self) -> list[str]:
        """What was audited, and the numbers that were found."""
        raise NotImplementedError

    def __str__(self) -> str:
        head, *numbers = self._lines()
        numbers += [f"ALARM: {reason}" for reason in self.failed]
        numbers += [f"incomplete: {reason}" for reason in self.incomplete]
        return "\n  ".join([f"{head}: {self.verdict}", *numbers])


def unseen(visible: float, smallest: float, which: str, n_runs: int) -> list[str]:
    """What is incomplete if exact releases had to be more frequent than `smallest` to be seen."""
    if visible <= smallest:
        return []
    return [
        f"exact releases{which} in fewer than {visible:.2g} of the {n_runs} runs would not be seen;"
        " more are needed"
    ]


def as_queries(value: Any, name: str) -> tuple[FloatArray, ...]:
    """A tuple is several queries, anything else is one."""
    parts = value if isinstance(value, tuple) else (value,)
    if not parts:
        raise ValueError(f"{name} must hold at least one query, got an empty tuple")
    return tuple(as_numbers(part, name) for part in parts)


def claimed_stds(claimed_std: Any, exact: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """One array of standard deviations per query, broadcast to the query's shape."""
    parts = claimed_std if isinstance(claimed_std, tuple) else (claimed_std,)
    if len(parts) != len(exact):
        raise ValueError(f"claimed_std must have one entry per query ({len(exact)})")
    out = []
    for part, value in zip(parts, exact, strict=True):
        std = as_numbers(part, "claimed_std")
        if not ((std >= 1e-100) & (std <= 1e100)).all():  # squares must be numbers
            raise ValueError("claimed_std must be > 0, between 1e-100 and 1e100 (rescale)")
        try:
            out.append(np.broadcast_to(std, value.shape))
        except ValueError:
            raise ValueError(f"claimed_std must broadcast to shape {value.shape}") from None
    return tuple(out)


def draw_runs(
    release: Releasing,
    shapes: Sequence[tuple[int, ...]],
    *,
    n_runs: int,
    vectorized: bool,
    rng: np.random.Generator,
    tell: Callable[[int], object],
) -> list[FloatArray]:
    """Draw `n_runs` releases: one array of shape (n_runs, n_coordinates) per query.

    ``tell(n)`` hears how many are drawn, after each or, `vectorized`, at the end.
    """
    if vectorized:
        drawn = as_queries(release(rng, n_runs), "release")
        tell(n_runs)
    else:
        singles = []
        for run in range(n_runs):
            singles.append(as_queries(release(rng), "release"))
            tell(run + 1)
        if len({tuple(query.shape for query in single) for single in singles}) > 1:
            raise ValueError("release must return arrays of the same shapes in every run")
        drawn = tuple(np.stack(query) for query in zip(*singles, strict=True))
    found, expected = [query.shape for query in drawn], [(n_runs, *shape) for shape in shapes]
    if found != expected:
        raise ValueError(f"release must return arrays of shape {expected}, got {found}")
    return [query.reshape(n_runs, -1) for query in drawn]
