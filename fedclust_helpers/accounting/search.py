"""One search: the number at which a cost passes what is allowed, on the side of what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedclust_helpers._lazy import optimize

MAX_SIGMA = 2.0**24


def safe_root(
    excess: Callable[[float], float], safe: float, unsafe: float, *, xtol: float = 0.0,
    rtol: float = 8.9e-16, step: float | None = None, slack: float = 0.0, smooth: bool = True,
) -> float:  # fmt: skip
    """The number next to the root of `excess` where it is at most 0; costs rise towards `unsafe`.

    excess(safe) <= 0 < excess(unsafe), and the sign changes once between them. Within xtol + rtol
    |x| of the root: by Brent's method, or by halving where `excess` jumps (not `smooth`). What is
    returned was itself checked: a root with more than `slack` (the rounding of a formula) moves
    towards `safe`, by `step` (by default a share rtol of itself), then by twice as much.
    """
    if not smooth:
        while abs(unsafe - safe) > xtol + rtol * max(abs(safe), abs(unsafe)):
            middle = (safe + unsafe) / 2
            safe, unsafe = (middle, unsafe) if excess(middle) <= 0 else (safe, middle)
        return safe
    root = float(optimize.brentq(excess, unsafe, safe, xtol=xtol, rtol=rtol))
    step = rtol * abs(root) if step is None else step
    while root != safe and not excess(root) <= slack:  # nan is not within it
        root = safe if abs(safe - root) <= step else root + math.copysign(step, safe - root)
        step *= 2
    return root


def least(
    excess: Callable[[float], float], refusal: str, *, start: float = 1.0,
    step: float = math.log(2), growth: float = 1.5, most: float = MAX_SIGMA,
    lowest: float = -math.inf, xtol: float = 5e-7, smooth: bool = True,
) -> float:  # fmt: skip
    """The smallest x > 0 with excess(x) <= 0, for a falling `excess`; a ValueError above `most`.

    Its logarithm is bracketed in growing steps from `start`, and found within `xtol`; within 1e-3
    where `excess` jumps to its `lowest` value (a conversion that gives 0 all at once), since a root
    cannot be found faster there than by halving.
    """

    def at(t: float) -> float:
        return excess(math.exp(t))

    low = high = math.log(start)
    value = at(low)
    if not value <= 0:  # nan keeps no budget
        while not value <= 0:
            low, high, step = high, high + step, growth * step
            if high > math.log(most):
                raise ValueError(refusal)
            value = at(high)
    else:
        while (at_low := at(low - step)) <= 0:
            low, value, step = low - step, at_low, growth * step
            if low < -math.log(most):  # as little noise as that is none
                return math.exp(low)
        low, high = low - step, low
    while value <= lowest and high - low > 1e-3:
        middle = (low + high) / 2
        found = at(middle)
        low, high, value = (middle, high, value) if found > 0 else (low, middle, found)
    if value > lowest:
        high = safe_root(at, high, low, xtol=xtol, step=2e-7, smooth=smooth)
    return math.exp(high)
