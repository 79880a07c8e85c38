"""Cluster identifiers that may be shown: Gaussian noise on one-hots, or a randomised answer.

Two one-hot identifiers differ by sqrt(2) in L2 (replace-one). Scaling them to C_s <= 1 scales the
noise alike and leaves the argmax as it is, so C_s = 1 throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import dp_accounting as dpa
import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_epsilon,
    check_instance,
    check_positive,
    check_rng,
)
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Mechanism,
    NoiseSource,
    NoNoise,
    Shape,
)

Identifiers = Literal["exact", "printed", "corrected", "exponential", "krr"]
PURE = ("exponential", "krr")


@dataclass(frozen=True)
class RandomAnswer:
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
    gdp_mu: ClassVar[float | None] = None
    rho: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind", PURE)
        check_epsilon(self.epsilon)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon that is charged."""
        return self.epsilon

    @property
    def log_weight(self) -> float:
        """Log-odds of the true identifier against any one other."""
        return self.epsilon / (2 if self.kind == "exponential" else 1)

    def sample(self, shape: Shape, *, rng: NoiseSource) -> FloatArray:
        """Refused: an answer depends on the true one."""
        raise TypeError("RandomAnswer adds no noise; use identifiers.privatise")

    def tail(self, probability: float) -> float:
        """No noise is added: 0."""
        return 0.0

    def dp_event(self) -> dpa.DpEvent:
        """The event that dominates every epsilon-DP mechanism, as `DiscreteLaplace` states it."""
        return dpa.dp_event.DiscreteLaplaceDpEvent(self.epsilon, 1)

    def as_replace_one(self) -> RandomAnswer:
        """Itself."""
        return replace(self)


IdentifierMechanism = Gaussian | DiscreteGaussian | RandomAnswer | NoNoise


def identifier_mechanism(kind: str, amount: float) -> IdentifierMechanism:
    """How a one-hot identifier is released (replace-one, one client).

    "corrected" adds N(0, 2 sigma_s^2), "printed" N(0, sigma_s^2) as in Algorithm 2; `amount` is
    sigma_s, and both are charged what they are: sensitivity sqrt(2). For "exponential" and "krr"
    `amount` is the epsilon of one answer. "exact" shows identifiers as they are: the ledger says
    inf.
    """
    check_choice(kind, "kind", get_args(Identifiers))
    if kind == "exact":
        return NoNoise("replace-one")
    sigma = check_positive(amount, "amount")
    if kind in PURE:
        return RandomAnswer(kind, amount)
    std = sigma * (math.sqrt(2) if kind == "corrected" else 1.0)
    return Gaussian(math.sqrt(2), std, "replace-one")


def privatise(identifiers: Any, mechanism: Mechanism, *, rng: NoiseSource) -> IntArray:
    """Released cluster numbers (m,) from exact one-hot identifiers (m, k).

    Algorithm 2, lines 10 and 11. For a discrete mechanism the identifiers come in whole steps of
    its grid, as a federation hands them out.
    """
    identifiers = check_instance(identifiers, np.ndarray, "identifiers", what="an array (m, k)")
    if identifiers.ndim != 2 or identifiers.shape[1] == 0:
        raise ValueError(f"identifiers must have shape (m, k), got {identifiers.shape}")
    if identifiers.dtype.kind not in "fiubO":
        raise TypeError("identifiers must be an array of real numbers of shape (m, k)")
    m, k = identifiers.shape
    if isinstance(mechanism, NoNoise):
        return identifiers.argmax(axis=1)
    if isinstance(mechanism, Gaussian):
        return (identifiers + mechanism.sample((m, k), rng=rng)).argmax(axis=1)
    if isinstance(mechanism, DiscreteGaussian):
        return (identifiers + mechanism.sample_steps((m, k), rng=rng)).argmax(axis=1)
    if not isinstance(mechanism, RandomAnswer):
        raise TypeError(f"mechanism must hide identifiers, got {type(mechanism).__name__}")
    generator = check_rng(rng)
    true = identifiers.argmax(axis=1)
    keep = 1 / (1 + (k - 1) * math.exp(-mechanism.log_weight))
    other = (true + generator.integers(1, k, m)) % k if k > 1 else true
    return np.where(generator.random(m) < keep, true, other)
