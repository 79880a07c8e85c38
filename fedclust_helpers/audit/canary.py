"""C. What can an attacker tell apart, with and without one worst-case record?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import (
    DeltaOrZero,
    FloatArray,
    IntArray,
    Positive,
    Share,
    as_numbers,
)
from fedclust_helpers.audit._bounds import Claims, Pair, Pick, bounds_of, too_frequent
from fedclust_helpers.audit._noise_tests import Residuals, exact_runs
from fedclust_helpers.audit._queries import (
    Releasing,
    Report,
    Runs,
    as_queries,
    claimed_stds,
    draw_runs,
    unseen,
)

RUNS_PER_BATCH = 10_000  # runs drawn at once, which bounds the memory
MAX_KEPT = 2e7  # numbers that `audit_release` keeps of all runs to find contrasts
EXACT_FALSE_ALARM = 1e-3  # of the search for exact releases in `audit_release`
_N_CONTRASTS = 20  # coordinates in a contrast where there are too many for all of them


@dataclass(frozen=True)
class CanaryAudit(Report):
    """Result of `audit_canary` and `audit_release`.

    No (epsilon, delta)-DP, or mu-GDP, release with less than the lower bounds gives these scores,
    each at the stated confidence. `direction` says which score that was: the best one for
    independent noise ("matched"), or one that subtracts what other coordinates tell about the noise
    ("contrast").
    """

    epsilon_lower_bound: float  # at least 0, as the other
    mu_lower_bound: float
    claims: Claims
    n_runs: tuple[int, int]  # without and with the canary; half of them pick the event
    incomplete: tuple[str, ...]
    exact_share: tuple[float, ...] = ()  # of runs in which all that the canary moves was exact
    exact_alarm: bool = False  # exact, or repeated, values came too often
    direction: str = "matched"

    @property
    def epsilon_alarm(self) -> bool:
        """True if an epsilon was claimed and the lower bound exceeds it."""
        return self.claims.epsilon is not None and self.epsilon_lower_bound > self.claims.epsilon

    @property
    def mu_alarm(self) -> bool:
        """True if a mu was claimed and the lower bound exceeds it."""
        return self.claims.mu is not None and self.mu_lower_bound > self.claims.mu

    def _tests(self) -> Iterable[tuple[bool, str]]:
        shares = " and ".join(f"{share:.2%}" for share in self.exact_share)
        return (
            (self.epsilon_alarm, "the bound on epsilon exceeds the claim"),
            (self.mu_alarm, "the bound on mu exceeds the claim"),
            (self.exact_alarm, f"exact or repeated values, exact in {shares} of the runs"),
        )

    def _lines(self) -> list[str]:
        def said(claim: float | None) -> str:
            return "no claim" if claim is None else f"claimed {claim:.4g}"

        runs, claims = f"{self.n_runs[0]} + {self.n_runs[1]} runs", self.claims
        return [
            f"canary audit ({runs}, confidence {claims.confidence:g}, {self.direction})",
            f"epsilon >= {self.epsilon_lower_bound:.4g} ({said(claims.epsilon)}), delta ="
            f" {claims.delta:g}",
            f"mu >= {self.mu_lower_bound:.4g} ({said(claims.mu)})",
        ]


@checked
def audit_canary(
    scores_without: ArrayLike,
    scores_with: ArrayLike,
    *,
    confidence: Share = 0.95,
    delta: DeltaOrZero = 0.0,
    claimed_mu: Positive | None = None,
    claimed_epsilon: Positive | None = None,
    smallest: Share = 0.01,
) -> CanaryAudit:
    """Bound the privacy loss from below with the scores of an attack on two neighbouring data sets.

    `scores_without` and `scores_with` (n_runs,), at least two each, are those of independent runs
    on the two data sets. Any score is valid; a better one gives a sharper bound. The first half of
    each sample picks the threshold (over quantiles of the pooled scores, in both directions, for
    epsilon and mu separately); the second half is counted once at that threshold. With TPR the rate
    of scores above it on the data set with the canary, FPR the rate without, and Clopper-Pearson
    bounds of (1 - confidence)/2 on each side::

        epsilon >= log((TPR_low - delta) / FPR_high)        for any (epsilon, delta)-DP release
        mu >= ppf(1 - FPR_high) - ppf(1 - TPR_low)           for a mu-GDP release

    and the same with the roles of the data sets or the event and its complement exchanged. Values
    that repeat among the scores that pick are tried as events too: a release that is exact now and
    then gives itself away by them.

    The first is the bound of Jagielski et al. (2020), the second that of Nasr et al. (2023), which
    reads the whole trade-off curve off one point and is much sharper, but only says something about
    a claim that is made in GDP. For a correct release each claim raises a false alarm with
    probability at most 1 - confidence, and usually far less, because both binomial bounds must fail
    together: a Gaussian release at its exact mu about 0.3 % at 95 % confidence.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> without, with_ = rng.standard_normal(4000), 1.0 + rng.standard_normal(4000)
    >>> audit_canary(without, with_, claimed_mu=1.0).passed
    True
    >>> audit_canary(without, with_, claimed_mu=0.5).mu_alarm
    True
    """
    pair = as_numbers(scores_without, "scores_without"), as_numbers(scores_with, "scores_with")
    for scores, name in zip(pair, ("scores_without", "scores_with"), strict=True):
        if scores.ndim != 1 or len(scores) < 2:
            raise ValueError(f"{name} must have shape (n_runs,) with n_runs >= 2")
    claims = Claims(confidence, delta, claimed_mu, claimed_epsilon)
    incomplete = claims.missing
    for scores, name in zip(pair, ("without", "with"), strict=True):
        share, visible = too_frequent(scores)
        if share:
            incomplete.append(
                f"one score makes up {share:.2%} of the runs {name} the canary, as in a release"
                " that is exact now and then; audit the noise"
            )
        else:
            incomplete += unseen(visible, smallest, f" {name} the canary", len(scores))
    sizes = len(pair[0]), len(pair[1])
    return CanaryAudit(*bounds_of(pair, claims), claims, sizes, tuple(incomplete))


# --- scores of a release --------------------------------------------------------------------------


class _Canary(NamedTuple):
    """What a canary moves, all queries in one row of coordinates."""

    shapes: list[tuple[int, ...]]
    centre: FloatArray  # exact_without
    std: FloatArray
    shift: FloatArray  # of the exact values, in standard deviations
    mu: float  # length of the shift: what the canary shows if the Gaussian noise is as claimed


def _canary(exact_without: Any, exact_with: Any, claimed_std: Any) -> _Canary:
    centre, moved = as_queries(exact_without, "exact_without"), as_queries(exact_with, "exact_with")
    shapes = [a.shape for a in centre]
    if shapes != [b.shape for b in moved]:
        raise ValueError("exact_with must have the same queries and shapes as exact_without")
    stds = claimed_stds(claimed_std, centre)
    flat = [np.concatenate([a.ravel() for a in part]) for part in (centre, moved, stds)]
    shift = (flat[1] - flat[0]) / flat[2]
    mu = float(np.linalg.norm(shift))
    if mu == 0:
        raise ValueError("exact_with must differ from exact_without")
    return _Canary(shapes, flat[0], flat[2], shift, mu)


def _scores(
    release: Releasing,
    canary: _Canary,
    keep: IntArray,
    *,
    n_runs: int,
    vectorized: bool,
    rng: np.random.Generator,
    tell: Callable[[int], object],
) -> Pair:
    """Scores (n_runs,) of a release, and its residuals (n_runs, n_kept) around the centre.

    The score is the inner product of residual and shift, divided by mu. For independent Gaussian
    noise this is the optimal attack: N(0, 1) without the canary and N(mu, 1) with it.
    """
    scores, kept = [], []
    for start in range(0, n_runs, RUNS_PER_BATCH):
        batch = min(RUNS_PER_BATCH, n_runs - start)
        drawn = draw_runs(
            release, canary.shapes, n_runs=batch, vectorized=vectorized, rng=rng,
            tell=lambda n, before=start: tell(before + n),  # type: ignore[misc]
        )  # fmt: skip
        z = (np.concatenate(drawn, axis=1) - canary.centre) / canary.std
        scores.append(z @ canary.shift / canary.mu)
        kept.append(z[:, keep])
    return np.concatenate(scores), np.concatenate(kept)


@checked
def audit_release(
    release_without: Releasing,
    release_with: Releasing,
    exact_without: Any,
    exact_with: Any,
    claimed_std: Any,
    *,
    n_runs: Runs = 4000,
    confidence: Share = 0.95,
    delta: DeltaOrZero = 0.0,
    claimed_mu: Positive | None = None,
    claimed_epsilon: Positive | None = None,
    vectorized: bool = True,
    smallest: Share = 0.01,
    rng: np.random.Generator,
    progress: Progress = False,
) -> CanaryAudit:
    """Audit a release end to end: run it on both data sets, score, and bound the privacy loss.

    Runs come from two streams spawned from `rng`; their scores, best for independent Gaussian
    noise, go to the bounds of `audit_canary`. Two more attacks. **Contrasts:** a score that
    subtracts what the other coordinates tell about the noise (the direction Sigma^-1 (exact_with -
    exact_without), Sigma estimated on the first quarter of the runs) is used instead if it
    separates the second quarter better. Differences of two coordinates or of two clusters that
    share noise are of this form. **Exact values:** runs in which the coordinates that the canary
    moves lie at their exact values, or at one and the same value, are counted and compared with
    what noise of the claimed scale allows.

    With epsilon = 4 or mu = 1 and 4000 runs per data set, a halved noise of a Gaussian sum is found
    practically always by its mu, whose bound reaches about 0.86 of the true one. False alarms: as
    in `audit_canary`, and `EXACT_FALSE_ALARM` for the exact values (for unimodal noise no more
    peaked than Laplace).

    Releases are asked for at most `RUNS_PER_BATCH` runs at a time. `progress` shows a bar over all
    runs, or is called as progress(done, total).
    """
    canary = _canary(exact_without, exact_with, claimed_std)
    claims = Claims(confidence, delta, claimed_mu, claimed_epsilon)
    fits = n_runs * len(canary.shift) <= MAX_KEPT
    keep = np.arange(len(canary.shift)) if fits else np.flatnonzero(canary.shift)
    how: dict[str, Any] = {"n_runs": n_runs, "vectorized": vectorized}
    first, second = rng.spawn(2)
    with showing(progress, 2 * n_runs, "canary audit") as tell:
        without = _scores(release_without, canary, keep, rng=first, tell=tell, **how)
        then = _scores(
            release_with, canary, keep, rng=second, tell=lambda n: tell(n_runs + n), **how
        )
    scores, residuals = zip(without, then, strict=True)
    shift, incomplete = canary.shift[keep], claims.missing
    half, quarter = n_runs // 2, n_runs // 4
    bounds, direction = bounds_of(scores, claims), "matched"
    if not fits:
        incomplete.append(f"contrasts were not tested: over {MAX_KEPT:g} numbers to keep")
    elif len(shift) > 1 and quarter < 10:
        incomplete.append("contrasts were not tested: too few runs")
    elif len(shift) > 1:
        noise = residuals[0][:quarter], residuals[1][:quarter] - shift
        contrast = _contrast(noise, shift / canary.mu)
        contrasts = residuals[0] @ contrast, residuals[1] @ contrast
        matched, better = (
            Pick((pair[0][quarter:half], pair[1][quarter:half]), **claims.how)
            for pair in (scores, contrasts)
        )
        if better.value[1] > 1.1 * max(matched.value[1], 0.0) + 0.1:
            bounds = better.bounds((contrasts[0][half:], contrasts[1][half:]), **claims.how)
            direction = "contrast"

    moves = shift != 0
    size = (np.abs(canary.centre[keep]) / canary.std[keep] + np.abs(shift))[moves]
    shares, alarm, visible = [], False, 0.0
    for residual, centred in zip(residuals, (0 * shift, shift), strict=True):
        z = (residual - centred)[:, moves]
        noise_of = Residuals.of(z, size + np.abs(z).max(axis=0), 3.0)
        atoms = exact_runs(noise_of, independent=False, level=EXACT_FALSE_ALARM / 2)
        shares.append(atoms.share)
        alarm |= atoms.alarm or atoms.repeated
        visible = max(visible, atoms.visible)
    incomplete += unseen(visible, smallest, "", n_runs)
    return CanaryAudit(
        *bounds, claims, (n_runs, n_runs), tuple(incomplete), tuple(shares), alarm, direction
    )


def _contrast(pair: Pair, direction: FloatArray) -> FloatArray:
    """Sigma^-1 direction, of noise whose samples are given; few coordinates if there are many."""
    noise = np.concatenate([sample - sample.mean(axis=0) for sample in pair])
    n, d = noise.shape
    matched = noise @ direction
    columns = np.arange(d)
    if d > n // 10:  # those that know more about the matched score than independent noise would
        surprise = np.abs(matched @ noise / n - direction)
        columns = np.argsort(-surprise, kind="stable")[:_N_CONTRASTS]
    features = np.column_stack([matched, noise[:, columns]])
    shift = np.concatenate([[1.0], direction[columns]])
    covariance = features.T @ features / n + 1e-9 * np.eye(len(shift))
    weights = np.linalg.solve(covariance, shift)
    out = weights[0] * direction
    out[columns] += weights[1:]
    return out / np.linalg.norm(out)
