"""Calibration audits: does a release behave as its privacy claim says?

Three checks. None of them looks inside a mechanism: they take plain callables.

* `audit_noise_scale`: is the noise of each released query as large as claimed, in every run and
  coordinate, and independent?
* `audit_sensitivity`: can one record move the exact statistic further than the sensitivity that the
  noise was calibrated to? (no noise involved)
* `audit_canary`, `audit_release`: run the release with and without one worst-case record and bound
  from below what an attacker can tell apart. (end to end)

What a pass means: **nothing is proved.** Each check is one-sided. A failure is evidence that a
claim is wrong, at a false-alarm probability that every function states; a pass says only that this
experiment found nothing. A privacy guarantee needs a proof, and these checks find the slips between
the proof and the code: a halved noise, a sensitivity for the wrong adjacency, two queries that
share one noise stream, a release that is exact now and then.

A fourth, `audit.exercise`, puts the first three to a function that a learner wrote, and answers in
sentences.

Every result says which tests `failed`, what is `incomplete` (could not be seen with these runs, or
was left out), and a `verdict`: "FAILED", "incomplete" or "passed".

Recipe: audit at a large test budget (epsilon = 4, or mu = 1) with 4000 runs per data set, and raise
the alarm on the GDP bound. At a small budget the two score distributions nearly coincide and the
same error needs many more runs to show. Without a GDP claim only the epsilon bound applies; it is
much looser and needs about 100 000 runs. The joint canary score is dominated by the query with the
largest share of the budget, so audit sums and counts separately as well.

Arguments that several audits share:

* A query is one released array; a release may be a tuple of queries, and then `exact` values and
  `claimed_std` (of the noise, > 0; for Laplace sqrt(2) times the scale) are tuples as well.
* A release is called as ``release(rng, n_runs)`` and returns arrays of shape (n_runs, ...); with
  ``vectorized=False`` it is called as ``release(rng)`` once per run.
* `confidence`, in (0, 1), is that of each lower bound, `delta`, in [0, 1), that of the epsilon
  claim; `claimed_mu` and `claimed_epsilon`, > 0, refer to the adjacency and the unit in which the
  two data sets are neighbours.
* `smallest`, in (0, 1): the smallest share of exact releases (or of coordinates with shared noise,
  where not all pairs can be compared) that has to be seen with a probability of 95 %. With too few
  runs for it the verdict is "incomplete"; 500 runs show 1 %, on a coarse grid more are needed.

Sources: C. Clopper and E. Pearson, "The use of confidence or fiducial limits illustrated in the
case of the binomial", Biometrika 26, 1934 (the intervals); M. Jagielski, J. Ullman and A. Oprea,
"Auditing differentially private machine learning", NeurIPS 2020 (the epsilon bound from a
distinguishing attack); M. Nasr et al., "Tight auditing of differentially private machine learning",
USENIX Security 2023 (the bound inside the Gaussian-DP family); J. Schott, "Testing for complete
independence in high dimensions", Biometrika 92, 2005 (many small correlations).

>>> import numpy as np
>>> def noised_count(rng, n_runs):
...     return 100 + 2.0 * rng.standard_normal(n_runs)
>>> audit_noise_scale(noised_count, 100.0, 4.0, rng=np.random.default_rng(0)).failed[0]
'query 0: TOO LITTLE NOISE'
"""

from fedclust_helpers.audit.canary import audit_canary, audit_release
from fedclust_helpers.audit.noise_scale import audit_noise_scale
from fedclust_helpers.audit.sensitivity import audit_sensitivity

__all__ = ["audit_canary", "audit_noise_scale", "audit_release", "audit_sensitivity"]
