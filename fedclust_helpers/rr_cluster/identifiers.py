"""Cluster identifiers that may be shown: Gaussian noise on one-hots, or a randomised answer.

Two one-hot identifiers differ by sqrt(2) in L2 (replace-one). Scaling them to C_s <= 1 scales the
noise alike and leaves the argmax as it is, so C_s = 1 throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray, check_epsilon
from fedclust_helpers.accounting.entries import Pure
from fedclust_helpers.mechanisms import NoiseSource, Shape
from fedclust_helpers.program import ANSWERS

Identifiers = Literal["exact", "printed", "corrected", "exponential", "krr"]
PURE = ("exponential", "krr")


@dataclass(frozen=True)
class RandomAnswer(Pure):
    """A random identifier instead of a noised one: pure epsilon-DP for one client, replace-one.

    "krr", k-ary randomised response: the true identifier has weight e^epsilon, any other one 1.
    "exponential", the exponential mechanism with utility 1 for the true identifier and 0 for the
    others: weight e^(epsilon/2). All inputs share one normaliser, so the factor 2 of its theorem is
    wasted: it is "krr" at epsilon/2, charged epsilon.
    """

    kind: str
    epsilon: float
    adjacency: str = "replace-one"
    sensitivity: float = math.sqrt(2)
    norm: ClassVar[int] = 2
    std: ClassVar[float] = math.inf
    grid: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def log_weight(self) -> float:
        """Log-odds of the true identifier against any one other."""
        return self.epsilon / (2 if self.kind == "exponential" else 1)

    def answer(self, identifiers: FloatArray, *, rng: Any) -> IntArray:
        """Random cluster numbers (m,) for exact one-hot identifiers (m, k)."""
        m, k = identifiers.shape
        true = identifiers.argmax(axis=1)
        keep = 1 / (1 + (k - 1) * math.exp(-self.log_weight))
        other = (true + rng.integers(1, k, m)) % k if k > 1 else true
        return np.where(rng.random(m) < keep, true, other)

    def sample(self, shape: Shape, *, rng: NoiseSource) -> FloatArray:
        """Refused: an answer depends on the true one."""
        raise TypeError("RandomAnswer adds no noise; use answer")

    def tail(self, probability: float) -> float:
        """No noise is added: 0."""
        return 0.0


ANSWERS.update({kind: partial(RandomAnswer, kind) for kind in PURE})
