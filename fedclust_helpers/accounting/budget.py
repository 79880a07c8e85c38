"""Budgets: a total (epsilon, delta), and the rule by which releases may fill it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from fedclust_helpers._checked import checked
from fedclust_helpers._lazy import dpa, optimize
from fedclust_helpers._validation import DeltaOrZero, Epsilon, Number
from fedclust_helpers.accounting.conversions import gdp_mu, pure_to_gdp_mu
from fedclust_helpers.accounting.entries import Entry, LedgerMismatchError, for_rdp, relation
from fedclust_helpers.accounting.renyi import sampled_rdp
from fedclust_helpers.accounting.search import safe_root
from fedclust_helpers.accounting.totals import total_epsilon

SMALLEST_SHARE = 1e-9  # a release that takes less of a budget is charged this much


class BudgetExceededError(RuntimeError):
    """The next release would exceed the budget of the ledger; nothing was read or charged."""


@checked
@dataclass(frozen=True)
class Budget:
    """A total (epsilon, delta) that releases may fill but not exceed.

    `filter` is the rule by which things chosen *one after the other* are added up; it is fixed
    before the first release:

    * ``"pure"`` (delta = 0): epsilons add up (Rogers et al. 2016).
    * ``"basic"`` (the default for delta > 0): shares f of (epsilon, delta) add up (Rogers et al.
      2016). What is fixed in advance, a plan or a single release, takes the smallest f for which
      all of it together is (f epsilon, f delta)-DP, by the exact accountants of the ledger. Takes
      everything that the package releases; a plan that totals exactly the budget takes f = 1.
    * ``"gdp"``: squares of mu add up to mu(epsilon, delta)^2 (Smith and Thakurta 2022). Takes
      unsampled Gaussian and pure mechanisms; the tightest for many Gaussian releases in turn.
    * ``"rdp"``: Renyi divergences at one order, chosen here from the budget alone, add up (Feldman
      and Zrnic 2021). Takes everything that has a Renyi curve, sampled or not.

    epsilon > 0 and delta in [0, 1) are for the unit and adjacency of the ledger that holds the
    budget; delta = 0 admits pure mechanisms only.

    >>> Budget(1.0, 1e-6).filter, Budget(1.0).filter
    ('basic', 'pure')
    """

    epsilon: Epsilon
    delta: DeltaOrZero = 0.0
    filter: Literal["pure", "basic", "gdp", "rdp"] | None = None

    def __post_init__(self) -> None:
        chosen = self.filter or ("pure" if self.delta == 0 else "basic")
        if (chosen == "pure") != (self.delta == 0):
            raise ValueError("filter 'pure' goes with delta = 0, the others with delta > 0")
        object.__setattr__(self, "filter", chosen)

    @property
    def rdp_order(self) -> float:
        """The order that leaves most room to zero-concentrated releases (largest limit(a)/a)."""
        best = optimize.minimize_scalar(
            lambda t: -self.rdp_limit(1 + math.exp(t)) / (1 + math.exp(t)),
            bounds=(-6.0, 12.0), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        return 1 + math.exp(best.x)

    def rdp_limit(self, order: Number) -> float:
        """The Renyi divergence at `order` that still implies (epsilon, delta)-DP."""
        if order <= 1 or math.isinf(order):
            raise ValueError(f"order must be finite and > 1, got {order}")
        log_term = math.log(1 / (order * self.delta)) / (order - 1) + math.log1p(-1 / order)
        return self.epsilon - log_term

    @property
    def limit(self) -> float:
        """The number that the costs may add up to."""
        if self.filter == "pure":
            return self.epsilon
        if self.filter == "gdp":
            return gdp_mu(self.epsilon, self.delta) ** 2
        return 1.0 if self.filter == "basic" else self.rdp_limit(self.rdp_order)

    def cost(self, release: Entry) -> float:
        """What one release takes of `limit` (inf if the filter cannot bound it)."""
        if self.filter == "basic":
            return self.share([release])
        if self.filter == "pure":
            return release.pure_epsilon
        if self.filter == "gdp":
            mu = release.gdp_mu
            if mu is None and math.isfinite(release.pure_epsilon):
                mu = pure_to_gdp_mu(release.pure_epsilon)
            if mu is None:
                raise LedgerMismatchError(
                    f"filter 'gdp' cannot bound {release.name!r}: take 'basic' or 'rdp'"
                )
            return mu * mu
        return self._rdp_cost(release)

    def _rdp_cost(self, release: Entry) -> float:
        order, rho = self.rdp_order, release.sampled_rho
        if rho is not None and release.sampling is not None:  # curves grow with the order: round up
            orders = (max(2, math.ceil(order)),)
            return sampled_rdp(release.sampling.scheme, rho, release.sampling.share, orders)[0]
        accountant = dpa.rdp.RdpAccountant([order], relation(release.adjacency))
        event = for_rdp(release.dp_event())
        if not accountant.supports(event):
            return math.inf
        accountant.compose(event)
        return float(accountant.rdp[0])

    def share(self, releases: Sequence[Entry]) -> float:
        """The smallest f for which `releases`, fixed in advance, are (f epsilon, f delta)-DP.

        inf where even 64 times the budget would not do.
        """
        forms = tuple((r.mechanisms, r.sampling, r.group) for r in releases)
        return _share(self, releases[0].unit, releases[0].adjacency, forms) if forms else 0.0


@lru_cache(maxsize=1024)
def _share(budget: Budget, unit: str, adjacency: str, forms: tuple[Any, ...]) -> float:
    releases = [Entry(0, "", m, unit, adjacency, s, g) for m, s, g in forms]

    def excess(f: float) -> float:
        at = min(f * budget.delta, 1 - 1e-12)
        return total_epsilon(releases, at) - f * budget.epsilon * (1 + 1e-9)

    pure = total_epsilon(releases, 0.0) / budget.epsilon  # may be inf
    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > 64:
            return pure
    low = high / 2
    while excess(low) <= 0:
        high, low = low, low / 2
        if low < SMALLEST_SHARE:
            return min(high, pure)
    return min(safe_root(excess, high, low, xtol=1e-7 * high, rtol=1e-7), pure)
