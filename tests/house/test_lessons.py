"""The form of the lessons: short cells, one idea each, settings at the top, checks that bend.

What a lesson says is read by people; what its form promises to them is counted here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from statistics import median
from typing import Any

import jupytext
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from conftest import refuses

from studies.bench import plots, readable
from studies.bench.lesson import REMARK, Lesson
from tools import variations
from tools.variations import __main__ as tool

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py"))
MAX_CELLS, MAX_FIGURES, MAX_LINE = 70, 14, 78
MEDIAN_LINES, MAX_LINES, MAX_ALGORITHM = 8, 15, 40
N_QUESTIONS = 8

every_lesson = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def cells(script: Path, kind: str) -> list[Any]:
    found = jupytext.read(script, fmt="py:percent").cells
    return [cell for cell in found if cell.cell_type == kind]


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", ()))


def lines(cell: Any) -> int:
    """Lines that are not blank; imports are none, and a check is one, however long its sentence."""
    written = sum(bool(line.strip()) for line in cell.source.splitlines())
    if cell.cell_type != "code":
        return written
    nodes = list(ast.walk(ast.parse(cell.source)))
    spans = [(n.end_lineno or n.lineno) - n.lineno + isinstance(n, (ast.Import, ast.ImportFrom))
             for n in nodes
             if isinstance(n, (ast.Import, ast.ImportFrom))
             or (isinstance(n, ast.Call) and ast.unparse(n.func) == "check")]  # fmt: skip
    return written - sum(spans)


def section(script: Path, word: str) -> str:
    """The text of all cells from the heading with this word to the next of its level."""
    text, level = [], 0
    for cell in cells(script, "markdown"):
        for line in cell.source.splitlines():
            marks = len(line) - len(line.lstrip("#")) if re.match("#+ ", line) else 0
            if marks and word.lower() in line.lower():
                level = marks
            elif level and 0 < marks <= level:
                return "\n".join(text)
            if level:
                text.append(line)
    return "\n".join(text)


@every_lesson
def test_cells_are_short_and_few(script: Path) -> None:
    code = cells(script, "code")
    long = {
        cell.source.splitlines()[0]: lines(cell)
        for cell in code
        if lines(cell) > (MAX_ALGORITHM if "algorithm" in tags(cell) else MAX_LINES)
    }
    assert not long, "no cell above 15 lines but a paper's whole algorithm, tagged `algorithm`"
    assert sum("algorithm" in tags(cell) for cell in code) <= 2
    assert median(lines(cell) for cell in code) <= MEDIAN_LINES
    assert len(code) + len(cells(script, "markdown")) <= MAX_CELLS


@every_lesson
def test_code_fits_the_page(script: Path) -> None:
    wide = [
        line
        for cell in cells(script, "code")
        for line in cell.source.splitlines()
        if len(line) > MAX_LINE
    ]
    assert not wide


@every_lesson
def test_computing_checking_and_drawing_stand_in_cells_of_their_own(script: Path) -> None:
    figures = 0
    for cell in cells(script, "code"):
        names = {n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name)}
        calls = {
            ast.unparse(n.func) for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Call)
        }
        assert "assert" not in cell.source.split(), "checks bend: check(condition, text)"
        assert "plt.show" not in calls, "show(figure, alternative text) instead"
        if "show" in calls and "widget" not in tags(cell):
            figures += 1
            assert "hide-input" in tags(cell), f"a figure cell folds: {cell.source[:60]}"
            assert "check" not in names, f"check in a cell of its own: {cell.source[:60]}"
        if "check" in calls:
            checks = [ast.unparse(n)[:6] for n in ast.parse(cell.source).body]
            assert checks.count("check(") >= len(checks) - 3, f"only checks: {cell.source[:60]}"
    assert 3 <= figures <= MAX_FIGURES


@every_lesson
def test_figures_have_an_alternative_text(script: Path) -> None:
    stored = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    for cell in stored.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                text = output.metadata.get("image/png", {}).get("alt", "")
                assert len(text.split()) >= 8, f"say what the figure shows: {cell.source[:80]}"


@every_lesson
def test_settings_are_those_of_the_lesson(script: Path) -> None:
    code = cells(script, "code")
    (at,) = (i for i, cell in enumerate(code) if "settings" in tags(cell))
    assert at <= 2, "settings stand at the top"
    space: dict[str, Any] = {"np": np}
    exec(code[at].source, space)
    names = {
        target.id
        for node in ast.parse(code[at].source).body
        if isinstance(node, ast.Assign)
        for target in ast.walk(node)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    lesson = tool.lesson_of(script)
    assert names == set(lesson.settings)
    assert not lesson.changed(space)
    assert "lesson.begin(globals())" in code[at + 1].source
    kinds = {name.split("_")[0] for name in lesson.variations}
    assert {"EPSILON", "K", "N"} <= kinds, "two other epsilons, two other k, a smaller n"


@every_lesson
def test_settings_are_not_written_again_below_them(script: Path) -> None:
    """A literal behind a variable stays when the reader changes the variable."""
    code = cells(script, "code")
    (at,) = (i for i, cell in enumerate(code) if "settings" in tags(cell))
    fixed = []
    for cell in code[at + 1 :]:
        if "widget" in tags(cell) or "fixed" in tags(cell):
            continue  # `fixed`: the point of the cell is a number of the paper
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.keyword) and node.arg in {"epsilon", "delta", "n_clusters"}:
                if isinstance(node.value, ast.Constant) and node.value.value is not None:
                    fixed.append(ast.unparse(node))
    assert not fixed


@every_lesson
def test_ids_of_claims_link_to_their_statements(script: Path) -> None:
    page = (ROOT / "data" / "results" / "claims.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r'<a id="([^"]+)">', page))
    for cell in cells(script, "markdown"):
        linked = re.findall(r"\[([^\]]+)\]\(\.\./data/results/claims\.md#([^)]+)\)", cell.source)
        assert {anchor for _, anchor in linked} <= anchors
        rest = re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`|\$[^$]*\$", "", cell.source)
        bare = [word for word in re.findall(r"\b[A-Z]\d{1,2}\b", rest) if word in anchors]
        assert not bare, f"link each id to its statement: {bare}"


@every_lesson
def test_symbols_mean_what_the_table_says(script: Path) -> None:
    rows = re.findall(r"^\| *(\$[^|]*) *\| *([^|]*?) *\|", SYMBOLS, re.M)
    meaning = {symbol.strip(): text for symbol, text in rows}
    text = "\n".join(cell.source for cell in cells(script, "markdown"))
    used = re.findall(r"^\| *(\$[^|]*) *\| *([^|]*?) *\|", section(script, "Notation"), re.M)
    for symbol, said in used:
        assert meaning.get(symbol.strip()) == said, f"{symbol}: see docs/symbols.md"
    assert "symbols.md" in text, "a link to the table of symbols of all notebooks"


SYMBOLS = (ROOT / "docs" / "symbols.md").read_text(encoding="utf-8")


@every_lesson
def test_ends_with_eight_questions_whose_answers_fold(script: Path) -> None:
    text = section(script, "Check yourself")
    answers = re.findall(r"<details>\s*<summary>.*?</summary>(.*?)</details>", text, re.S)
    assert len(answers) == N_QUESTIONS
    for answer in answers:
        assert re.search(r"[Ss]ection \d", answer), "each is answered by a section"


@every_lesson
def test_ends_its_main_path_on_data_that_matters(script: Path) -> None:
    if script.stem.startswith("00"):
        return
    text = section(script, "Run it on data that matters")
    assert "not" in text.split(), "and when not to use this method"


# --- the machinery --------------------------------------------------------------------------------


def test_checks_are_strict_for_the_committed_settings_only(capsys: Any) -> None:
    lesson = Lesson({"SEED": 1, "EPSILON": 1.0}, {"EPSILON": (2.0,)}, ("data", "start"))
    strict = lesson.begin({"SEED": 1, "EPSILON": 1.0})
    strict.check(True, "holds")
    refuses(AssertionError, "it is so", strict.check, np.bool_(False), "it is so")
    strict.check(True, "holds")
    assert capsys.readouterr().out == "✓ holds\n", "each sentence once"
    bent = lesson.begin({"SEED": 1, "EPSILON": 2.0})
    bent.check(False, "it is so")
    out = capsys.readouterr().out
    assert "EPSILON is 2.0 here; the text was written for 1.0." in out
    assert out.endswith(REMARK + "it is so\n")


def test_streams_are_independent_and_follow_the_seed() -> None:
    lesson = Lesson({"SEED": 1}, {}, ("data", "start"))
    tools = lesson.begin({"SEED": 1})
    first = tools.stream("data").random(4)
    np.testing.assert_array_equal(first, tools.stream("data").random(4))
    assert (first != tools.stream("start").random(4)).all()
    assert (first != lesson.begin({"SEED": 2}).stream("data").random(4)).all()
    states = {tuple(seed.generate_state(2)) for seed in tools.seeds("data", 50)}
    assert len(states) == 50
    refuses(ValueError, "no stream 'other'; there are: data, start", tools.stream, "other")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"settings": {"N": 1}, "variations": {}}, "must contain SEED"),
        ({"settings": {"SEED": 1}, "variations": {"N": (2,)}}, "no setting: N"),
        ({"settings": {"SEED": 1}, "variations": {}, "streams": ("a", "a")}, "twice"),
    ],
)
def test_lessons_that_contradict_themselves(fields: Any, match: str) -> None:
    refuses(ValueError, match, Lesson, **fields)


def test_a_setting_that_is_missing_is_named() -> None:
    refuses(ValueError, "not set in this notebook: SEED", Lesson({"SEED": 1}, {}).begin, {})


def figure(draw: Any) -> Any:
    fig, ax = plt.subplots()
    draw(ax)
    return fig


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        (lambda ax: [ax.plot([1, 2], color=c, label=c) for c in ("#777777", "#7a7a7a")], "alike"),
        (lambda ax: [ax.bar([i], 1, color=c, label=c) for i, c in enumerate("rg")], "alike"),
        (lambda ax: [ax.bar([i], 1, color=c, label=c) for i, c in enumerate(("k", "#999999"))], ""),
        (lambda ax: [ax.plot([1, 2], c, color="k", label=c) for c in ("-", "--")], ""),
        (lambda ax: [ax.plot([1, 2], c, color="k", label=c) for c in ("o-", "s-")], ""),
        (lambda ax: [ax.plot([1, 2], color=c, label=c) for c in ("#000000", "#999999")], ""),
        (lambda ax: ax.plot([1, 2], color="#eeeeee", label="pale"), "too pale"),
        (lambda ax: ax.text(0.5, 0.5, "small", fontsize=6), "6.0 points"),
        (lambda ax: [ax.text(0.5, 0.5, word) for word in ("one", "other")], "overlap"),
        (lambda ax: [ax.text(x, x, word) for x, word in ((0.1, "one"), (0.8, "other"))], ""),
    ],
)
def test_what_cannot_be_read_in_grey_is_said(draw: Any, problem: str) -> None:
    found = readable.problems(figure(draw))
    plt.close("all")
    assert (problem in "; ".join(found)) if problem else not found


def test_lightness_is_that_of_grey() -> None:
    assert readable.lightness("white") == pytest.approx(100)
    assert readable.lightness("black") == 0
    assert readable.lightness("#777777") == pytest.approx(50, abs=0.5)


def test_unreadable_figures_are_refused_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCLUST_FIGURES", "strict")
    with pytest.raises(AssertionError, match="too pale"):
        plots.show(figure(lambda ax: ax.plot([1, 2], color="#eeeeee", label="pale")), "a line")
    plt.close("all")


def test_the_table_of_variations_is_of_these_lessons() -> None:
    """`make variations` was run after the last change of a setting, and nothing stopped."""
    assert variations.__doc__
    table = pd.read_csv(tool.TABLE, dtype=str, keep_default_na=False)
    assert list(table.columns) == tool.COLUMNS
    asked = [v for script in SCRIPTS for v in tool.variations(script)]
    assert [(v.notebook, v.setting, str(v.value)) for v in asked] == [
        tuple(row) for row in table[["notebook", "setting", "value"]].to_numpy()
    ]
    assert set(table.error) == {""}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "variation", [("00_start_here", "SEED", 1), ("00_start_here", "EPSILON", 2.0)]
)
def test_a_notebook_runs_through_with_other_settings(variation: Any) -> None:
    outcome = tool.outcome_of(tool.Variation(*variation))
    assert not outcome.error
