"""Settings of the notebook, what it is tried with, and its random streams."""

from __future__ import annotations

from studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 4,
        "EPSILON": 4.0,
        "EPSILONS": (1.0, 2.0, 4.0, 8.0),
        "DELTA": 1e-3,
        "SMALL_DELTA": 1e-5,
        "K": 4,
        "MIN_SIZE": 8,
        "N_CLIENTS": 1000,
        "COHORT": 100,
        "N_ROUNDS": 50,
        "CLIP": 0.3,
        "N_PARTITIONS": 3,
    },
    variations={
        "EPSILON": (2.0, 8.0),
        "K": (3, 6),
        "N_CLIENTS": (400,),
        "DELTA": (1e-5,),
    },
    streams=(
        "points", "lines", "starts", "digits", "noise", "argmax", "bias", "audit", "scratch",
        "canary", "collapse", "runs", "toy",
    ),
)  # fmt: skip
begin = LESSON.begin
