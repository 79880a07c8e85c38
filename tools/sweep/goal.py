"""What the sweep asks of the library, and how a sample of it is drawn."""

from __future__ import annotations

import re

import numpy as np

from tools.sweep.judge import CLEAR, FINE, NONSENSE, Case

CASES_PER_TARGET = 30  # about how many there are, for the size of a sample

# arguments and modules that touch noise, budget, sampling or bounds
GUARDED_ARGUMENTS = re.compile(
    r"epsilon|delta|sigma|^mu$|rho|budget|ledger|mechanism|noise|sampl|rate|cohort|population|size"
    r"|bound|radius|clip|sensitiv|scale|std|grid|adjacency|unit|domain|n_records|n_clients|n_rounds"
    r"|n_labels|seed|mode|plan|federation|statistic|query|rng|confidence|share|probability|weight"
)
GUARDED_MODULES = (
    "accounting", "mechanisms", "secure_aggregation", "federation", "client_statistics",
    "local_randomizers", "frequency_oracles", "estimators",
)  # fmt: skip


def misses(case: Case) -> bool:
    """Whether a case is one that the library must not have."""
    if case.reason or case.verdict in (FINE, CLEAR):
        return False
    if case.verdict != NONSENSE:
        return True
    module = any(f"{m}." in f"{case.target}." for m in GUARDED_MODULES)
    return module or bool(GUARDED_ARGUMENTS.search(case.argument))


def sample(
    wanted: dict[str, list[str]], n_cases: int, seed: int
) -> tuple[dict[str, list[str]], float]:
    """Some targets, with one test each, and the share of their cases that makes `n_cases`."""
    rng = np.random.default_rng(seed)
    n_targets = min(len(wanted), max(1, n_cases // 10))
    names = sorted(wanted)
    chosen = [names[i] for i in sorted(rng.choice(len(names), n_targets, replace=False))]
    share = min(1.0, n_cases / (n_targets * CASES_PER_TARGET))
    return {name: wanted[name][:1] for name in chosen}, share
