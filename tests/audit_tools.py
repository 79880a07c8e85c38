"""Audits that tests alone need: last bits of noise, noise used again later, pairs at random."""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from fedclust_helpers import audit

SPREAD = 6  # bits by which the noise must spread beyond a bit that is tested


class LowBits(NamedTuple):
    """How many of the lowest bits could be tested, and which tests failed."""

    n_tested: int
    failed: list[str]


def audit_low_bits(steps, *, n_bits=8, false_alarm=1e-3):
    """Test that the low bits of discrete noise, or of noised values, are uniform and independent.

    Wide noise on a fine grid has uniform low bits, and then the low bits of value plus noise say
    nothing about the value. Noise that went through a float has constant ones. Four families of
    tests share `false_alarm`: every bit is 1 half of the time; so is the exclusive or of two bits,
    and of the same bit of two integers in a row; and the number that the lowest bits form takes
    all values equally often (as many bits as give 8 integers to each).

    A discrete Gaussian of scale s steps has bits below 2^b uniform up to exp(-2 pi^2 (s/2^b)^2), a
    discrete Laplace up to (2^b/(2 pi s))^2: SPREAD bits below the spread that is below 1e-5.
    """
    values = np.ravel(steps)
    assert values.dtype.kind in "iu"  # floats lose low bits
    n = len(values)
    # quartiles: an outlier must not make narrow noise look wide
    spread = float(np.subtract(*np.quantile(values.astype(np.float64), [0.75, 0.25]))) / 1.35
    tested = min(n_bits, math.floor(math.log2(spread)) - SPREAD)
    words = values.astype(np.uint64)
    bits = np.stack([(words >> np.uint64(b)) & np.uint64(1) for b in range(tested)]).astype(bool)
    families = (
        {f"bit {b} is 1": bits[b] for b in range(tested)},
        {f"bits {a} and {b} differ": bits[a] ^ bits[b] for a, b in combinations(range(tested), 2)},
        {f"bit {b} changes after each": bits[b, 1:] ^ bits[b, :-1] for b in range(tested)},
    )
    failed = []
    for family in families:
        for what, coin in family.items():
            ones, m = int(coin.sum()), len(coin)
            if 2 * stats.binom.cdf(min(ones, m - ones), m, 0.5) < false_alarm / 4 / len(family):
                failed.append(f"{what} in {ones / m:.2%}")
    together = min(tested, int(math.log2(n / 8)))
    counts = np.bincount((words & np.uint64(2**together - 1)).astype(int), minlength=2**together)
    statistic = float(((counts - n / 2**together) ** 2).sum() * 2**together / n)
    if stats.chi2.sf(statistic, 2**together - 1) < false_alarm / 4:
        failed.append(f"the lowest {together} bits together are not uniform")
    return LowBits(tested, failed)


def audit_rounds(run, claimed_std, *, n_runs, rng, **how):
    """Audit the noise of all releases of a run together, each a query of `audit_noise_scale`.

    Round by round, noise that is used again in a later round looks right. ``run()`` returns a pair
    of tuples (released, exact) for each round, `claimed_std` holds a tuple for each.
    """
    runs = [
        [value - truth for pair in run() for value, truth in zip(*pair, strict=True)]
        for _ in range(n_runs)
    ]
    noise = tuple(np.stack(query) for query in zip(*runs, strict=True))
    exact = tuple(np.zeros(query.shape[1:]) for query in noise)
    stds = tuple(std for each in claimed_std for std in each)
    return audit.audit_noise_scale(lambda rng, n: noise, exact, stds, n_runs=n_runs, rng=rng, **how)


def random_neighbours(make_data, change, n_pairs, *, rng):
    """Pairs (data, data') of neighbours, by ``change(data, rng)`` of a ``make_data(rng)``."""
    made = (make_data(rng) for _ in range(n_pairs))
    return ((data, change(data, rng)) for data in made)


def canary_mu(without, with_, stds):
    """The GDP mu that a canary shows in arrays, if their Gaussian noise is as claimed."""
    return float(np.linalg.norm((with_ - without) / stds))
