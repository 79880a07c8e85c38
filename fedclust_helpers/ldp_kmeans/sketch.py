"""A sketch of the data for local privacy: randomised bins of random projections.

Each user answers one public question: in which bins of a few wrapped directions does your point
lie? The answer is one symbol and goes through g-ary randomised response; that is all that leaves
the device. A density is then fitted to all answers at once (`sketch_fit`).

The idea is that of compressive mixture learning (Gribonval, Blanchard, Keriven, Traonmilin 2021;
Keriven, Tremblay, Traonmilin, Gribonval, "Compressive K-means", 2017): a mixture of k clusters has
few parameters, so a few random measurements of the data determine it. Here each user contributes
to one measurement only, and randomises it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._index import bincount
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.federation.reports import public_coins
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.queries import Query
from fedclust_helpers.mechanisms import NoiseSource

MAX_SYMBOLS = 256
MAX_AXES = 8


def bins_for(epsilon: float, n_features: int) -> tuple[int, ...]:
    """Bins of each axis of a question: their product is near e^epsilon + 1, at most 256.

    Randomised response over g symbols tells most about the true one at g of about e^epsilon + 1
    (as in optimised local hashing); two bins an axis use a symbol best, as many axes as there are.
    """
    goal = min(math.exp(min(epsilon, 6.0)) + 1, MAX_SYMBOLS)
    n_axes = min(max(1, round(math.log2(goal))), n_features, MAX_AXES)
    low = max(2, math.floor(goal ** (1 / n_axes)))
    choices = [(low + 1,) * more + (low,) * (n_axes - more) for more in range(n_axes + 1)]
    fits = [bins for bins in choices if math.prod(bins) <= MAX_SYMBOLS] or [(2,) * n_axes]
    return min(fits, key=lambda bins: abs(math.prod(bins) - goal))


@dataclass(frozen=True, eq=False)
class Questions:
    """m public questions about points in R^d.

    Question j looks along t orthonormal directions; along axis i the line is wrapped with a period
    and cut into `bins[i]` equal bins. The bins of all axes together are one of g symbols.

    Attributes
    ----------
    directions : array (m, t, d), orthonormal for each question
    periods, phases : arrays (m, t); a coordinate y falls in bin floor(B frac(y/period + phase))
    bins : tuple of t ints
    """

    directions: FloatArray
    periods: FloatArray
    phases: FloatArray
    bins: tuple[int, ...]

    @property
    def n_questions(self) -> int:
        """The number m of questions."""
        return len(self.directions)

    @property
    def n_symbols(self) -> int:
        """The number g of different answers to a question."""
        return math.prod(self.bins)

    @cached_property
    def digits(self) -> IntArray:
        """The bin on each axis of each symbol, (t, g)."""
        return np.stack(np.unravel_index(np.arange(self.n_symbols), self.bins)).astype(np.int64)

    def symbols(self, points: FloatArray, questions: IntArray) -> IntArray:
        """The true answers (n,) of points (n, d) to their questions (n,)."""
        answer = np.zeros(len(points), dtype=np.int64)
        for axis, n_bins in enumerate(self.bins):
            # a sum in a fixed order: a row's answer depends on that row alone
            place = self.phases[questions, axis].copy()
            for column in range(points.shape[1]):
                slope = self.directions[:, axis, column] / self.periods[:, axis]
                place += slope[questions] * points[:, column]
            place -= np.floor(place)
            place[~np.isfinite(place)] = 0.0  # too far out to be told: the first bin
            answer *= n_bins
            answer += np.minimum((place * n_bins).astype(np.int64), n_bins - 1)
        return answer


def draw_questions(
    n_questions: int,
    n_features: int,
    bins: tuple[int, ...],
    sides: Sequence[float],
    *,
    rng: np.random.Generator,
    phase: float | None = None,
) -> Questions:
    """Random directions and phases; bins of side ``sides/sqrt(d)``, in equal shares.

    With several bins an axis the side is that of two: the period stays.
    """
    m, d, t = n_questions, n_features, len(bins)
    directions = np.linalg.qr(rng.standard_normal((m, d, t)))[0].transpose(0, 2, 1)
    middle = math.prod(bins) ** (1 / t) / 2
    side = np.resize(np.asarray(sides), m) / math.sqrt(d) / middle
    periods = side[:, None] * np.asarray(bins)
    phases = rng.random((m, t)) if phase is None else np.full((m, t), phase)
    return Questions(np.ascontiguousarray(directions), periods, phases, bins)


class SketchQuery(Query):
    """One symbol of each user about one of the questions; the server keeps counts (m, g).

    Privacy: g-ary randomised response with `epsilon`, any two values of one user. The question
    depends on the user's number and public coins only.
    """

    parts = ("symbol",)
    _kinds = "iu"

    def __init__(
        self, questions: Questions, epsilon: float, *, rng: np.random.Generator, name: str
    ) -> None:
        public = {
            "directions": questions.directions, "periods": questions.periods,
            "phases": questions.phases,
        }  # fmt: skip
        super().__init__(name, public)
        self.questions = questions
        self.response = RandomizedResponse(epsilon, questions.n_symbols)
        self.mechanisms = (self.response,)
        self._seed = int(rng.integers(2**63))
        self.counts = np.zeros((questions.n_questions, questions.n_symbols))

    def _question_of(self, users: IntArray) -> IntArray:
        coins = public_coins(self._seed, users) >> np.uint64(11)
        return (coins % np.uint64(self.questions.n_questions)).astype(np.int64)

    def _answer(self, points: FloatArray, users: IntArray) -> IntArray:
        return self.questions.symbols(points, self._question_of(users))

    def _encode(self, points: FloatArray, users: IntArray, rng: NoiseSource) -> NDArray[Any]:
        """One randomised symbol (m,) for each of these users."""
        return self.response.randomize(self._answer(points, users), rng=rng).astype(np.uint8)

    def _decode(self, users: IntArray, symbols: NDArray[Any]) -> None:
        cell = self._question_of(users) * self.questions.n_symbols + symbols.astype(np.int64)
        found = bincount(cell, minlength=self.counts.size).reshape(self.counts.shape)
        np.add(self.counts, found, out=self.counts)
