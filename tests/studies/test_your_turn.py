"""Your turn of 00 to 04: right answers pass in any style, mistakes get the sentence that helps.

The answers are in tests/your_turn; where a lesson asks for two functions, they are pairs.
"""

import importlib
import inspect

import pytest

from fedclust_helpers.audit.exercise import UNANSWERED

LESSONS = ("start", "fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster")
CASES = {name: importlib.import_module(f"your_turn.{name}") for name in LESSONS}
EXAMINE = {name: importlib.import_module(f"studies.{name}.exercise").examine for name in LESSONS}


def examined(lesson, mine):
    return EXAMINE[lesson](*(mine if isinstance(mine, tuple) else (mine,)))


@pytest.mark.parametrize(
    ("lesson", "i"), [(name, i) for name, case in CASES.items() for i in range(len(case.RIGHT))]
)
def test_a_right_answer_passes_in_any_style(lesson, i):
    found = examined(lesson, CASES[lesson].RIGHT[i])
    assert found.passed, str(found)


@pytest.mark.parametrize(
    ("lesson", "mistake"), [(name, m) for name, case in CASES.items() for m in case.MISTAKES]
)
def test_a_typical_mistake_gets_the_sentence_that_helps(lesson, mistake):
    mine, sentence = CASES[lesson].MISTAKES[mistake]
    found = examined(lesson, mine)
    assert not found.passed and sentence in str(found), str(found)


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_is_not_written_yet_passes_with_a_friendly_line(lesson):
    n_asked = len(inspect.signature(EXAMINE[lesson]).parameters)
    assert str(examined(lesson, (lambda *_: ...,) * n_asked)) == UNANSWERED
