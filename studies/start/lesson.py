"""Settings of the notebook, what it is tried with, and its random streams."""

from __future__ import annotations

from studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 7, "EPSILON": 1.0, "DELTA": 1e-5, "N": 1000, "M": 20, "K": 4, "N_ROUNDS": 3,
        "N_TRIALS": 200_000, "N_ATTACKS": 20_000, "N_STEPS": 300,
    },
    variations={
        "EPSILON": (0.5, 2.0), "DELTA": (1e-6,), "N": (500, 3000), "M": (10,), "K": (3, 5),
        "N_ROUNDS": (2,),
    },
    streams=(
        "data", "owners", "coins", "worlds", "attack", "delta", "unit", "rounds", "start", "steps",
        "bound", "best", "wide",
    ),
)  # fmt: skip
begin = LESSON.begin
