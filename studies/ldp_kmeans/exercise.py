""" "Your turn" of notebook 03: what leaves a phone, and what the server makes of all answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedclust_helpers.audit import exercise
from fedclust_helpers.audit.exercise import Examination, Finding, Stop
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse

EPSILON, N_USERS, HOLD = 1.0, 1000, 300
TRUTH = 1 / (1 + np.exp(-EPSILON))


def _bits() -> Any:
    return (np.arange(N_USERS) < HOLD).astype(int)


def _asks(report: Callable[..., Any], value: int, n: int, rng: np.random.Generator) -> Any:
    return report(np.full(n, value), EPSILON, rng)


def _form(report: Callable[..., Any]) -> Iterator[Finding]:
    """Answers of many users who hold the same."""
    said = [np.asarray(_asks(report, v, 10_000, np.random.default_rng(v))) for v in (0, 1)]
    if any(each.shape != (10_000,) for each in said):
        raise Stop("Return one answer for each user: as many as there are bits.")
    if not np.isin(said, (0, 1)).all():
        raise Stop("An answer must be 0 or 1, like the bit of its user.")
    if all(np.ptp(each) == 0 for each in said):
        raise Stop("All users tell the truth, or all lie: flip a coin for each (`size=len(bits)`).")
    if said[1].mean() < said[0].mean():
        raise Stop("Most answers are lies: the truth has the probability e^ε / (e^ε + 1).")
    yield Finding(True, "One answer of each user, true more often than not.")


def _estimate(estimate: Callable[..., Any], bits: Any, rng: np.random.Generator) -> Any:
    own = RandomizedResponse(EPSILON, 2).randomize(bits, rng=rng)
    return estimate(own, EPSILON)


def _undone(said: Any) -> float:
    return float((said.sum() - len(said) * (1 - TRUTH)) / (2 * TRUTH - 1))


SLIPS = (
    (lambda said: said.sum(),
     "You count the yes answers: lies pull their number towards one half."),
    (lambda said: said.sum() / (2 * TRUTH - 1),
     "Before you divide, subtract what lies alone would give: n (1 - p), p the chance of a truth."),
    (lambda said: said.sum() - len(said) * (1 - TRUTH),
     "You subtract n (1 - p), p the chance of a truth. Now a user with a 1 adds 2p - 1 on "
     "average, not 1: divide by that."),
    (lambda said: _undone(said) / len(said), "You return a share; the number of users is due."),
    (lambda said: len(said) - _undone(said),
     "You return how many users hold a 0; those with a 1 are due."),
)  # fmt: skip


def _slips(estimate: Callable[..., Any]) -> Iterator[Finding]:
    """Known wrong estimates, on answers that are counted by hand."""
    said = np.array([1, 1, 0, 1, 0, 0, 0, 1, 0, 0])
    got = np.asarray(estimate(said, EPSILON), dtype=np.float64)
    if got.shape != ():
        yield Finding(False, "An estimate is one number.")
        return
    for slip, sentence in SLIPS:
        if np.isclose(got, slip(said)):
            yield Finding(False, sentence)


ASKED = exercise.Asked(_estimate, lambda bits: float(bits.sum()), ("estimate",))


def examine(report: Callable[..., Any], estimate: Callable[..., Any]) -> Examination:
    """Examine ``report(bits, epsilon, rng)`` and ``estimate(said, epsilon)``.

    The promise is pure, for one user whose bit is another one: epsilon-LDP. The estimate gets the
    answers of a right coin, so that each of the two is judged alone.
    """
    std = (N_USERS * TRUTH * (1 - TRUTH)) ** 0.5 / (2 * TRUTH - 1)
    asked = exercise.examine(  # fmt: skip
        report,
        _form,
        exercise.reports(
            _asks,
            (0, 1),
            epsilon=EPSILON,
            what="An answer",
            hint="The truth has the probability e^ε / (e^ε + 1).",
        ),
    )
    server = exercise.examine(estimate, _slips, exercise.estimates(ASKED, _bits(), (std,)))
    if not asked.answered:
        return asked
    if not server.answered:
        text = "The estimate is not written yet."
        return Examination((*asked.findings, Finding(False, text)))
    return Examination(asked.findings + server.findings)
