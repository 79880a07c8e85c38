"""An algorithm for rows in a box, on bounds that are found privately: one plan, one total."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any, NamedTuple

from fedclust.describing.bounds import (
    Limits,
    check_rate,
    of_rows,
    private_bounds,
    told,
)
from fedclust.describing.summary import BOUNDS_SHARE
from fedclust_helpers import fastlloyd
from fedclust_helpers._validation import check_share
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import Algorithm, Options, Public, Scale, Steps

Share = Annotated[float, check_share]


class Within(NamedTuple):
    """What an algorithm returned in the box [-bound, bound]^d, and the `limits` of that box.

    The fields of `value` (centers, ...) are attributes here, too.

    >>> import numpy as np
    >>> from fedclust.describing import FASTLLOYD, run
    >>> from fedclust_helpers.federation import simulate
    >>> federation = simulate([np.linspace(20, 80, 3000)[:, None]], "trusted", seed=0, domain="raw")
    >>> plan = FASTLLOYD.planner()(federation, n_clusters=2, epsilon=2.0, delta=1e-6)
    >>> found = run(federation, plan)
    >>> found.value.limits.found, found.centers.shape
    (array([ True]), (2, 1))
    """

    limits: Limits
    value: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.value, name)


def on_private_bounds(algorithm: Algorithm) -> Algorithm:
    """The same algorithm for raw rows: bounds first, for a share of mu^2, then all as it was.

    For an algorithm whose dial is a noise multiplier. Its plan is one of the algorithm with an
    option more, `bounds_share`, and so are its total and its ledger.
    """

    @wraps(algorithm.steps, assigned=["__doc__"])
    def steps(
        public: Public, sigma: float, *, bounds_share: Share = BOUNDS_SHARE, **options: Any
    ) -> Steps:
        limits = yield from private_bounds(public, sigma / math.sqrt(bounds_share))
        yield Scale(limits.lower, limits.upper)
        value = yield from algorithm.steps(public, sigma / math.sqrt(1 - bounds_share), **options)
        return Within(limits, value)

    def multiplier(plan: Plan) -> float:
        """That of the noise of the bounds alone."""
        return float(plan.dial / math.sqrt(plan.options["bounds_share"]))

    def inner_plan(plan: Plan) -> Plan:
        """The plan as the algorithm's own hooks read it."""
        return replace(plan, dial=plan.dial / math.sqrt(1 - plan.options["bounds_share"]))

    def check(facts: FederationFacts, options: Options) -> Options:
        share = {"bounds_share": options.pop("bounds_share")}
        return algorithm.check(facts, of_rows(facts, options)) | share

    def predict(plan: Plan) -> tuple[float | None, str]:
        check_rate(plan.facts, multiplier(plan))
        return (None, "") if algorithm.predict is None else algorithm.predict(inner_plan(plan))

    def says(plan: Plan, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
        rows = rows if algorithm.says is None else algorithm.says(inner_plan(plan), rows)
        return [*rows, *told(plan.facts, multiplier(plan), share=plan.options["bounds_share"])]

    def title(facts: FederationFacts, options: Options) -> str:
        named = algorithm.name if algorithm.title is None else algorithm.title(facts, options)
        return f"{named}, on private bounds"

    return Algorithm(
        name=f"{algorithm.name}, on private bounds", steps=steps, budget=algorithm.budget,
        search=algorithm.search, check=check, default_delta=algorithm.default_delta,
        predict=predict, title=title, says=says,
    )  # fmt: skip


FASTLLOYD = on_private_bounds(fastlloyd.FASTLLOYD)
OVERCLUSTERED = on_private_bounds(fastlloyd.OVERCLUSTERED)
