"""FastLloyd (Diaa, Humphries, Kerschbaum): federated k-means with differential privacy.

`plan` fixes everything that is public before the first message, `run` follows it (Algorithm 1, in
`algorithm`). `parameters` holds the paper's formulas: radius (5.6), split of the budget, number of
rounds, predicted error (5.5). `plan_glloyd`, `plan_sulloyd` and `plan_lloyd` (no privacy) plan the
baselines for the same `run`. `plan_overclustered` goes beyond the paper: a lower cost at the same
guarantee.

Privacy throughout: unit is one point, neighbours by add/remove. Data lies in [-B, B]^d, where B is
the federation's `bound`. The number of points N is public, as in the paper.

Notation of the paper: eta -> `radius`, sigma -> noise multiplier, sigma^R, sigma^C -> the two
shares of it, R, C -> relative sums and counts, alpha -> `alpha`, beta -> diagonal of the box.

>>> import numpy as np
>>> from fedclust_helpers.federation import simulate
>>> rng = np.random.default_rng(0)
>>> rows = rng.choice([-0.5, 0.5], (1000, 1)) + rng.normal(0, 0.05, (1000, 2))
>>> federation = simulate([rows[:500], rows[500:]], "masked", seed=0)
>>> result = run(federation, plan(federation, n_clusters=2, epsilon=1.0))
>>> np.sort(result.centers, axis=0).round(1)
array([[-0.5, -0.5],
       [ 0.5,  0.5]])
"""

from fedclust_helpers.fastlloyd.algorithm import (
    FASTLLOYD,
    GLLOYD,
    LLOYD,
    PLANS,
    SULLOYD,
    Centers,
    plan,
    plan_glloyd,
    plan_lloyd,
    plan_sulloyd,
    update_centers,
)
from fedclust_helpers.fastlloyd.copies import WeightedCopy, together
from fedclust_helpers.fastlloyd.overclustered import (
    OVERCLUSTERED,
    Found,
    honest_mu,
    plan_overclustered,
)
from fedclust_helpers.fastlloyd.parameters import (
    EXCESS,
    RHO,
    Excess,
    default_delta,
    known_groups_excess,
    max_radius,
    measured_excess,
    n_rounds_fastlloyd,
    n_rounds_glloyd,
    n_rounds_sulloyd,
    predicted_mse,
    round_radii,
    split_noise,
    split_noise_glloyd,
)
from fedclust_helpers.program import run

__all__ = [
    "max_radius", "plan", "plan_glloyd", "plan_lloyd", "plan_overclustered",
    "plan_sulloyd", "run",
]  # fmt: skip
