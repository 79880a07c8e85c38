"""Mutants of the package: that every patch applies, that the machinery sees, and ten of them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import refuses

from tools.mutants import MUTANTS, Edit, Mutant, PatchError
from tools.mutants.runner import BROKEN, KILLED, SURVIVED, run

# --- the list -------------------------------------------------------------------------------------


def test_there_are_many_and_each_says_what_it_breaks():
    names = [m.name for m in MUTANTS]
    assert len(names) >= 60 and len(set(names)) == len(names)
    for mutant in MUTANTS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", mutant.name), mutant.name
        assert len(mutant.breaks.split()) >= 4 and mutant.tests, mutant.name
    assert sum(m.quick for m in MUTANTS) == 10


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_patch_applies_to_the_tree(mutant, root):
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.path) or (root / edit.path).read_text(encoding="utf-8")
        texts[edit.path] = edit.applied_to(text)
    for path, text in texts.items():
        compile(text, path, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_tests_of_a_mutant_exist(mutant, root):
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (root / path).is_file(), path
        function = name.partition("[")[0]
        if function:
            assert f"def {function}(" in (root / path).read_text(encoding="utf-8"), test


def test_every_paper_has_mutants():
    touched = {edit.path.split("/")[1] for m in MUTANTS for edit in m.edits}
    for part in ("fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster", "estimators"):
        assert part in touched


# --- the machinery --------------------------------------------------------------------------------

FILE = "fedclust_helpers/metrics.py"


def test_an_edit_must_fit_exactly(tmp_path):
    text = "a = 1\nb = 1\n"
    assert Edit("x.py", "a = 1", "a = 2").applied_to(text) == "a = 2\nb = 1\n"
    assert Edit("x.py", "1", "2", count=2).applied_to(text) == "a = 2\nb = 2\n"
    for wrong in (
        Edit("x.py", "c = 1", ""),
        Edit("x.py", "1", "2"),
        Edit("x.py", "a = 1", "a = 1"),
    ):
        refuses(PatchError, "", wrong.applied_to, text)


def test_a_mutant_that_does_not_fit_changes_no_file(tmp_path):
    (tmp_path / "x.py").write_text("a = 1\n", encoding="utf-8")
    edits = (Edit("x.py", "a = 1", "a = 2"), Edit("x.py", "nowhere", ""))
    for bad in (edits, (Edit("y.py", "a", "b"),), (Edit("x.py", "a = 1", "a = ("),)):
        refuses(PatchError, "", Mutant("x-y", "", bad, ()).apply, tmp_path)
        assert (tmp_path / "x.py").read_text(encoding="utf-8") == "a = 1\n"


@pytest.mark.thorough
def test_killed_and_survived_are_told_apart():
    test = ("tests/ground/test_metrics.py::test_nicv_of_many_chunks_equals_one_formula",)
    path = Path(__file__).resolve().parents[2] / FILE
    before = path.read_text(encoding="utf-8")
    word = "def nicv("
    assert before.count(word) == 1
    mutants = [
        Mutant("kills-it", "", (Edit(FILE, word, "def another("),), ()),
        Mutant("a-comment", "", (Edit(FILE, word, f"# {word}\n{word}"),), test),
        Mutant("no-such-test", "", (Edit(FILE, word, f"# {word}\n{word}"),), ("tests/no.py",)),
    ]
    del mutants[0]
    outcomes = {o.mutant.name: o.verdict for o in run(mutants, jobs=1, report=lambda _: None)}
    assert outcomes == {"a-comment": SURVIVED, "no-such-test": BROKEN}
    assert path.read_text(encoding="utf-8") == before  # the working tree is left alone
    assert KILLED not in outcomes.values()


@pytest.mark.thorough
def test_ten_mutants_are_killed(root):
    command = [sys.executable, "-m", "tools.mutants", "--quick", "--no-baseline"]
    done = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "10 mutants, 10 killed" in done.stdout
