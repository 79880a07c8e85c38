"""The form of the lessons: short cells, one idea each, settings at the top, checks that bend.

What a lesson says is read by people; what its form promises to them is counted here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
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

every_lesson = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def cells(script: Path, kind: str) -> list[Any]:
    found = jupytext.read(script, fmt="py:percent").cells
    return [cell for cell in found if cell.cell_type == kind]


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", ()))


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
def test_checks_bend_and_figures_say_what_they_show(script: Path) -> None:
    for cell in cells(script, "code"):
        calls = {
            ast.unparse(n.func) for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Call)
        }
        assert "assert" not in cell.source.split(), "check(condition, text) instead"
        assert "plt.show" not in calls, "show(figure, alternative text) instead"
        if "show" in calls and "widget" not in tags(cell):
            assert "hide-input" in tags(cell), f"a figure cell folds: {cell.source[:60]}"
    stored = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    for output in (o for cell in stored.cells for o in cell.get("outputs", [])):
        if "image/png" in output.get("data", {}):
            assert len(output.metadata.get("image/png", {}).get("alt", "").split()) >= 8


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
def test_ends_with_data_that_matter_and_eight_questions_whose_answers_fold(script: Path) -> None:
    text = section(script, "Check yourself")
    answers = re.findall(r"<details>\s*<summary>.*?</summary>(.*?)</details>", text, re.S)
    assert len(answers) == 8 and all(re.search(r"[Ss]ection \d", answer) for answer in answers)
    found = section(script, "Run it on data that matters")
    assert script.stem.startswith("00") or "not" in found.split(), "when not to use this method"


# --- the machinery --------------------------------------------------------------------------------


def test_checks_are_strict_for_the_committed_settings_only(capsys: Any) -> None:
    lesson = Lesson({"SEED": 1, "EPSILON": 1.0}, {"EPSILON": (2.0,)}, ("data", "start"))
    strict = lesson.begin({"SEED": 1, "EPSILON": 1.0})
    strict.check(True, "holds")
    refuses(AssertionError, "it is so", strict.check, np.bool_(False), "it is so")
    assert not capsys.readouterr().out
    bent = lesson.begin({"SEED": 1, "EPSILON": 2.0})
    bent.check(False, "it is so")
    out = capsys.readouterr().out
    assert "EPSILON is 2.0 here; the text was written for 1.0." in out
    assert out.endswith(REMARK + "it is so\n")


def figure(draw: Any) -> Any:
    fig, ax = plt.subplots()
    draw(ax)
    return fig


def test_streams_are_independent_and_a_lesson_does_not_contradict_itself() -> None:
    lesson = Lesson({"SEED": 1}, {}, ("data", "start"))
    tools, other = lesson.begin({"SEED": 1}), lesson.begin({"SEED": 2})
    first = tools.stream("data").random(4)
    np.testing.assert_array_equal(first, tools.stream("data").random(4))
    for stream in (tools.stream("start"), other.stream("data")):
        assert (first != stream.random(4)).all()
    assert len({tuple(seed.generate_state(2)) for seed in tools.seeds("data", 50)}) == 50
    refuses(ValueError, "no stream 'other'; there are: data, start", tools.stream, "other")
    refuses(ValueError, "must contain SEED", Lesson, settings={"N": 1}, variations={})
    refuses(ValueError, "no setting: N", Lesson, {"SEED": 1}, {"N": (2,)})
    refuses(ValueError, "twice", Lesson, {"SEED": 1}, {}, ("a", "a"))
    refuses(ValueError, "not set in this notebook: SEED", lesson.begin, {})


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
def test_what_cannot_be_read_in_grey_is_said(
    draw: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = figure(draw)
    found = readable.problems(drawn)
    assert (problem in "; ".join(found)) if problem else not found
    if problem:
        monkeypatch.setenv("FEDCLUST_FIGURES", "strict")
        refuses(AssertionError, problem, plots.show, drawn, "a drawing")
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
