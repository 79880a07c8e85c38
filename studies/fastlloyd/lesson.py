"""Settings of notebook 01, what it is tried with, and its random streams."""

from __future__ import annotations

from studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 2025, "EPSILON": 1.0, "DELTA": 1e-6, "K": 5, "N": 2000,
        "N_GUESSES": 60, "N_SCORES": 300, "N_CASES": 1500, "N_DRAWS": 400_000, "N_AUDIT": 1000,
        "N_SETS": 30, "N_RUNGS": 12,
    },
    variations={"EPSILON": (0.5, 2.0), "K": (3, 8), "N": (1000,), "N_SETS": (20,)},
    streams="data start guesses member-in member-out errors neighbours gdp slips ball fold masks"
    " reuse rounding scratch run serverless noise-scale search canary broken iris wire breaks"
    " solutions publish ladder".split(),
)  # fmt: skip
begin = LESSON.begin
