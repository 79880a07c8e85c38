"""Algorithms as programs: a paper's pseudo-code, its plan, its run, and nothing said twice.

An algorithm is a generator. It yields a `Release` (a noised sum of a statistic) with how much noise
each part gets, and is sent the `Answer`. From it follow the planner (`Algorithm.planner`), which
makes a dry run without rows and finds the least noise for a budget, and `run`, in which a
federation answers. An algorithm sees `Public` facts and coins, and answers; never data.

Other requests: `Members` and `SumsOf` (identifiers, then sums by groups), `Remember` (what clients
start from), `Scale` (public bounds of rows that are as they are), `Ask` and `Divide` (users who
randomise for themselves). A tuple of requests is one round of messages.

>>> import numpy as np
>>> from fedclust_helpers.client_statistics import TOTAL
>>> from fedclust_helpers.federation import simulate
>>> def total(public: Public, sigma: float) -> Steps:
...     answer = yield Release(TOTAL, [Noise("gaussian", sigma)])
...     return answer  # an `Answer`: an array for each part of the statistic
>>> plan = Algorithm(name="a noised total", steps=total).planner()
>>> federation = simulate([np.ones((500, 1))], "trusted", seed=0)
>>> found = run(federation, plan(federation, epsilon=1.0, delta=1e-6))
>>> isinstance(found, Run), found.value[0].round(-1)
(True, array([500.]))
"""

from fedclust_helpers.program.algorithm import (
    ALGORITHMS,
    Algorithm,
    Options,
    as_given,
    least_noise,
)
from fedclust_helpers.program.asking import Ask, Divide
from fedclust_helpers.program.execution import Execution, Run, run
from fedclust_helpers.program.grouped import Members, SumsOf
from fedclust_helpers.program.public import (
    ANSWERS,
    NO_NOISE,
    Answer,
    Noise,
    Public,
    gaussian,
    laplace,
)
from fedclust_helpers.program.requests import Release, Remember, Scale
from fedclust_helpers.program.session import Request, Session, Steps, drive

__all__ = [
    "Algorithm", "Answer", "Ask", "Divide", "Noise", "Public", "Release",
    "Run", "run", "Steps",
]  # fmt: skip
