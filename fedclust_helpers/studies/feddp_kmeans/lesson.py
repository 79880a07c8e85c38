"""Settings of the notebook, what it is tried with, and its random streams."""

from __future__ import annotations

from fedclust_helpers.studies.bench.lesson import Lesson

LESSON = Lesson(settings={"SEED": 7}, variations={}, streams=())
begin = LESSON.begin
