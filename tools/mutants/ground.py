"""Mutants of what all papers stand on: noise, secure aggregation, k-means, audits."""

from __future__ import annotations

from tools.mutants.base import Mutant, mutant

ACCOUNTING: tuple[Mutant, ...] = (
    mutant(
        "accounting-gdp-delta-one-sided",
        "delta of mu-GDP keeps its second term: without it the noise of a budget is too large",
        "accounting/conversions.py",
        "return float(-math.exp(first) * math.expm1(min(second - first, 0.0)))",
        "return float(math.exp(first) / 2)",
        "test_accounting.py",
        quick=True,
    ),
    mutant(
        "accounting-zcdp-without-the-last-term",
        "the conversion of rho-zCDP is a bound: a smaller epsilon is no longer implied",
        "accounting/conversions.py",
        "math.log(1 / (a * delta)) / (a - 1)",
        "math.log(1 / (a * a * delta)) / (a - 1)",
        "test_accounting.py",
    ),
    mutant(
        "accounting-composition-forgets-delta",
        "deltas of composed releases add up",
        "accounting/conversions.py",
        "math.fsum(d for _, d in pairs)",
        "max((d for _, d in pairs), default=0.0)",
        "test_accounting.py",
    ),
)

MECHANISMS: tuple[Mutant, ...] = (
    mutant(
        "mechanisms-gaussian-noise-halved",
        "the noise of a Gaussian has the standard deviation that it states",
        "mechanisms.py",
        ".normal(0.0, self.std, shape)",
        ".normal(0.0, self.std / 2, shape)",
        "test_mechanisms.py",
        quick=True,
    ),
    mutant(
        "mechanisms-laplace-scale-for-half-the-sensitivity",
        "Laplace noise for epsilon has scale sensitivity/epsilon",
        "mechanisms.py",
        "return cls(sensitivity, sensitivity / check_epsilon(epsilon), adjacency)",
        "return cls(sensitivity, sensitivity / 2 / check_epsilon(epsilon), adjacency)",
        "test_mechanisms.py",
    ),
    mutant(
        "mechanisms-replace-one-keeps-the-sensitivity",
        "replacing a record counts as a removal and an addition",
        "mechanisms.py",
        "sensitivity=2 * self.sensitivity, adjacency",
        "sensitivity=self.sensitivity, adjacency",
        "test_mechanisms.py",
        quick=True,
    ),
    mutant(
        "mechanisms-classic-beyond-its-proof",
        "the classic calibration is refused where it is not proved",
        "mechanisms.py",
        "if check_epsilon(epsilon) >= 1:",
        "if check_epsilon(epsilon) >= 100:",
        "test_mechanisms.py",
    ),
)

KMEANS: tuple[Mutant, ...] = (
    mutant(
        "kmeans-fold-as-printed",
        "folding leaves points inside the box where they are and has period 4B",
        "kmeans.py",
        "y = np.mod(values + bound, 4 * bound)",
        "y = np.mod(values + bound, 3 * bound)",
        "test_kmeans.py",
        quick=True,
    ),
    mutant(
        "kmeans-no-guard-at-the-radius",
        "a point that rounding may put outside the radius is not counted inside",
        "kmeans.py",
        "squared + guard <= radius * radius",
        "squared - guard <= radius * radius",
        "test_kmeans.py",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*ACCOUNTING, *MECHANISMS, *KMEANS)
