"""Settings of the notebook, what it is tried with, and its random streams."""

from __future__ import annotations

from fedclust_helpers.studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 5, "EPSILON": 1.0, "EPSILON_LARGE": 8.0, "DELTA": 1e-6, "K": 5,
        "N_USERS": 1_000_000, "N_PHONES": 200_000, "N_PEOPLE": 10_000,
    },
    variations={
        "EPSILON": (0.5, 2.0), "EPSILON_LARGE": (4.0,), "DELTA": (1e-5,), "K": (3, 8),
        "N_USERS": (100_000,), "N_PHONES": (100_000,), "N_PEOPLE": (2000,),
    },
    streams=(
        "coin", "phones", "split", "sums", "audit", "plane", "space", "proxies", "server",
        "methods", "trust", "maps", "balls", "rounds", "palette", "poll", "liars",
    ),
)  # fmt: skip
begin = LESSON.begin
