"""The bad-input sweep: what every public callable of the library does when one argument is wrong.

Valid arguments are recorded from the tests of the project. Just before a recorded call runs, the
test process forks; the child repeats the call with one argument changed at a time, each time in a
process of its own with a limit of time and memory, and notes what happened (`judge.VERDICTS`).
"""

from __future__ import annotations

from tools.sweep.judge import OFFENCES, VERDICTS, Case

__all__ = ["OFFENCES", "VERDICTS", "Case"]
