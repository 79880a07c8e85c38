"""Mutants of the package: edits fit the tree, tests exist, and the runner tells them apart."""

import ast
import re

import pytest
from conftest import refuses

from tools.mutants.catalogue import ROOT, Edit, Mutant, PatchError, mutants, parsed
from tools.mutants.mechanical import GUARDS, all_of, drawn, equivalents
from tools.mutants.runner import BROKEN, KILLED, SURVIVED, run

FILE = "fedclust_helpers/metrics.py"


@pytest.mark.parametrize("mutant", mutants(), ids=lambda m: m.name)
def test_a_mutant_fits_the_tree_and_its_tests_exist(mutant):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", mutant.name)
    assert len(mutant.breaks.split()) >= 4 and mutant.tests
    mutant.texts()
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


def test_there_are_many_and_every_part_has_some():
    names = [m.name for m in mutants()]
    assert 80 <= len(names) <= 200 and len(set(names)) == len(names)
    parts = {edit.path.split("/")[1] for m in mutants() for edit in m.edits}
    assert {"fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster", "estimators"} <= parts


def test_an_edit_must_fit_exactly():
    text = "a = 1\nb = 1\n"
    assert Edit("x.py", "a = 1", "a = 2").applied_to(text) == "a = 2\nb = 1\n"
    for old, new in (("c = 1", ""), ("1", "2"), ("a = 1", "a = 1"), ("a = 1", "a = (")):
        refuses(PatchError, "x.py", Edit("x.py", old, new).applied_to, text)
    block = "a-b: words\nin x.py\n- one\n-   two\n+ three\nin y.py\n- four\nby tests/t.py::test"
    edits = (Edit("x.py", "one\n  two", "three"), Edit("y.py", "four", ""))
    assert parsed(block) == Mutant("a-b", "words", edits, ("tests/t.py::test",))
    refuses(PatchError, "a line begins", parsed, block.replace("by ", "of "))


@pytest.mark.parametrize("module", GUARDS)
def test_chance_makes_programs_that_differ(module):
    made = all_of(module)
    before = ast.dump(ast.parse(made[0].edits[0].old))
    assert len({m.name for m in made}) == len(made)
    for mutant in made:
        assert ast.dump(ast.parse(mutant.edits[0].new)) != before, mutant.name
    assert all((ROOT / test).is_file() for test in made[0].tests[2:])


def test_draws_are_those_of_their_seed_and_equivalents_are_in_the_tree():
    names = [m.name for m in drawn(2, 0)]
    assert len(names) == 2 * len(GUARDS) and names == [m.name for m in drawn(2, 0)]
    assert names != [m.name for m in drawn(2, 1)]
    assert equivalents() <= {m.name for module in GUARDS for m in all_of(module)}


@pytest.mark.thorough
def test_killed_survived_and_broken_are_told_apart():
    test = ("tests/helpers/ground/test_metrics.py::test_nicv_of_many_chunks_equals_one_formula",)
    word = "def nicv("
    before = (ROOT / FILE).read_text(encoding="utf-8")
    harmless = (Edit(FILE, word, f"# a note\n{word}"),)
    wrong = (Edit(FILE, word, f"def nicv(*_, **__):\n    return 0.0\n\n\n{word[:-1]}_of_old("),)
    tasks = {
        SURVIVED: Mutant("a-note", "", harmless, test),
        KILLED: Mutant("no-cost", "", wrong, test),
        BROKEN: Mutant("no-test", "", harmless, ("tests/no.py",)),
    }
    outcomes = run(list(tasks.values()), jobs=1, report=lambda _: None)
    assert [o.verdict for o in outcomes] == list(tasks)
    assert (ROOT / FILE).read_text(encoding="utf-8") == before  # the working tree is left alone


@pytest.mark.thorough
def test_four_mutants_are_killed():
    chosen = [m for m in mutants() if m.name.startswith("mechanisms-")][:4]
    assert {o.verdict for o in run(chosen)} == {KILLED}
