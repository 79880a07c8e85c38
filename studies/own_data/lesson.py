"""Settings of the notebook, what it is tried with, and its random streams."""

from __future__ import annotations

from studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 6, "EPSILON": 1.0, "DELTA": 1e-5, "K": 4, "N": 6000, "M": 5, "N_MONTHS": 3,
        "N_REPEATS": 4,
    },
    variations={
        "EPSILON": (0.5, 2.0), "DELTA": (1e-6,), "K": (3, 5), "N": (3000,), "M": (10,),
    },
    streams=("visits", "lookalike", "owners"),
)  # fmt: skip
begin = LESSON.begin
