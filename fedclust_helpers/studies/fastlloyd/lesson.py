"""Settings of notebook 01, what it is tried with, and its random streams."""

from __future__ import annotations

from fedclust_helpers.studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 2025, "EPSILON": 1.0, "K": 5, "N": 2000,
        "N_GUESSES": 120, "N_SCORES": 400, "N_CASES": 1500, "N_DRAWS": 400_000, "N_AUDIT": 2500,
        "N_SETS": 20,
    },
    variations={"EPSILON": (0.5, 2.0), "K": (3, 8), "N": (1000,), "N_SETS": (40,)},
    streams="data start guesses member-in member-out errors neighbours gdp slips masks reuse"
    " rounding scratch run search noise-scale canary broken wire breaks solutions publish".split(),
)  # fmt: skip
begin = LESSON.begin
