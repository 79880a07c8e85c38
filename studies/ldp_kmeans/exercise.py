""" "Your turn" of notebook 03: what leaves a phone, and what the server makes of all answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedclust_helpers.audit import exercise
from fedclust_helpers.audit.exercise import Examination, Finding
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
        yield Finding(False, "One answer of each user is due: as many as there are bits.")
    elif not np.isin(said, (0, 1)).all():
        yield Finding(False, "An answer is 0 or 1, like what it is about.")
    elif all(np.ptp(each) == 0 for each in said):
        text = "All users tell the truth, or all lie: flip a coin for each (`size=len(bits)`)."
        yield Finding(False, text)
    elif said[1].mean() < said[0].mean():
        yield Finding(False, "More lies than truths: the truth has e^ε / (e^ε + 1), the larger.")
    else:
        yield Finding(True, "One answer of each user, true more often than not.")


def _estimate(estimate: Callable[..., Any], bits: Any, rng: np.random.Generator) -> Any:
    own = RandomizedResponse(EPSILON, 2).randomize(bits, rng=rng)
    return estimate(own, EPSILON)


def _undone(said: Any) -> float:
    return float((said.sum() - len(said) * (1 - TRUTH)) / (2 * TRUTH - 1))


SLIPS = (
    (lambda said: said.sum(), "You count the yes answers: lies pull that towards one half."),
    (lambda said: said.sum() / (2 * TRUTH - 1), "Take away the lies of those who hold 0, too."),
    (lambda said: said.sum() - len(said) * (1 - TRUTH),
     "Lies are taken away, but a truth still counts e^ε / (e^ε + 1), not 1: divide."),
    (lambda said: _undone(said) / len(said), "That is a share. How many users is it?"),
    (lambda said: len(said) - _undone(said), "That is how many hold a 0."),
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
            hint="The truth has probability e^ε / (e^ε + 1).",
        ),
    )
    server = exercise.examine(estimate, _slips, exercise.estimates(ASKED, _bits(), (std,)))
    if not asked.answered:
        return asked
    if not server.answered:
        text = "The estimate is not written yet."
        return Examination((*asked.findings, Finding(False, text)))
    return Examination(asked.findings + server.findings)
