"""The form of the lessons: short cells, one idea each, settings at the top, checks that bend.

What a lesson says is read by people; what its form promises to them is counted here.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import jupytext
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from conftest import refuses

import studies
from studies.bench import plots, readable, samples
from studies.bench.ends import LEGEND
from studies.bench.grading import VERDICTS
from studies.bench.lesson import REMARK, Lesson
from tools import minutes
from tools.build_notebooks import load_script
from tools.variations import __main__ as tool
from tools.variations.numbers import unprinted

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
def test_every_data_set_is_tried_and_is_rows_in_the_box(script: Path) -> None:
    """Small epsilon and k = 2 too; what a lesson clusters comes from its function `data`."""
    lesson, tried = tool.lesson_of(script), tool.lesson_of(script).variations
    assert 0.3 in tried["EPSILON"] and 2 in tried["K"]
    data = tool.lesson_module(script).data
    for name in (lesson.settings["DATA"], *tried["DATA"]):
        rows = data(name, rng=np.random.default_rng(1))
        assert isinstance(rows, samples.Rows) and np.abs(rows.points).max() <= 1
        assert rows.points.shape == (len(rows.owners), len(rows.names))
        assert rows.lower.shape == rows.upper.shape == rows.points.shape[1:]
        assert sum(map(len, rows.clients())) == len(rows.points) and rows.k >= 2
        np.testing.assert_allclose(rows.in_units(np.ones(len(rows.names))), rows.upper)
    refuses(ValueError, "DATA", data, "nothing", rng=np.random.default_rng(1))


@every_lesson
def test_a_lesson_takes_no_longer_than_its_budget(script: Path) -> None:
    assert minutes.count(script).minutes <= minutes.BUDGET[script.stem[:2]]


@every_lesson
def test_the_title_says_how_long_it_takes(script: Path) -> None:
    found, said = minutes.count(script).minutes, minutes.stated(script)
    assert said is not None, "50 minutes to read, predict and run; exercises 15 more"
    assert found <= said < found + 5, f"counted: {found:.1f} minutes"
    turn = any("your-turn" in tags(cell) for cell in cells(script, "code"))
    text = " ".join(cells(script, "markdown")[0].source.split())
    assert turn == ("your turn" in text.split("exercises")[0]), "your turn 15 more"


@every_lesson
def test_code_is_as_wide_as_a_printed_page(script: Path) -> None:
    wide = [line for c in cells(script, "code") for line in c.source.splitlines() if len(line) > 79]
    assert not wide


def named_in(claim: ast.expr) -> set[str] | None:
    """Names in the fields of a text; None if it is no text, or a field is more than arithmetic."""
    if isinstance(claim, ast.Constant):
        return set() if isinstance(claim.value, str) else None
    if not isinstance(claim, ast.JoinedStr):
        return None
    plain = (ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Name, ast.Load)
    plain += (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    nodes = list(ast.walk(claim))
    if not all(isinstance(node, plain) for node in nodes):
        return None
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def moving_claims(source: str, settings: Any) -> list[str]:
    """Calls of `check` whose claim is not the same text whether it holds or not."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "check":
            named = named_in(node.args[1])
            if named is None or named - set(settings):
                found.append(ast.unparse(node))
    return found


@every_lesson
def test_a_claim_is_false_where_its_check_does_not_hold(script: Path) -> None:
    """So it is constant, but for settings; what was measured stands beside it."""
    source = "\n".join(cell.source for cell in cells(script, "code"))
    assert not moving_claims(source, tool.lesson_of(script).settings)


def test_a_claim_that_moves_is_found() -> None:
    good = 'check(a < b, "a is less", found=f"{a} < {b}"); check(x, f"less at ε = {2 * EPSILON:g}")'
    assert not moving_claims(good, {"EPSILON": 1.0})
    for claim in ("text", 'f"{a:.2f} is less"', 'f"{max(EPSILON, 1)}"', '"a" + text', "2"):
        assert moving_claims(f"check(a < b, {claim})", {"EPSILON": 1.0}), claim


CALLS = tomllib.loads((Path(__file__).parent / "calls_into_studies.toml").read_text("utf-8"))


def calls_into_studies(script: Path) -> set[str]:
    """Functions and classes of `studies` that visible cells before "Try it" name."""
    code = [cell for _, part in minutes.body(script) for cell in part if cell.cell_type == "code"]
    bound: dict[str, Any] = {}
    found = set()
    for tree in (ast.parse(cell.source) for cell in code):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    if each.name.split(".")[0] == "studies":
                        bound[each.asname or "studies"] = importlib.import_module(each.name)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("studies"):
                module = importlib.import_module(str(node.module))
                for each in node.names:
                    value = getattr(module, each.name, None)
                    value = value or importlib.import_module(f"{node.module}.{each.name}")
                    bound[each.asname or each.name] = value
    for cell in (c for c in code if not {"hide-input", "widget"} & {*tags(c)}):
        for node in ast.walk(ast.parse(cell.source)):
            if not isinstance(node, ast.Attribute | ast.Name):
                continue
            path = ast.unparse(node).split(".")
            value = bound.get(path[0])
            for name in path[1:]:
                value = getattr(value, name, None)
            if callable(value) and str(getattr(value, "__module__", "")).startswith("studies"):
                found.add(".".join(path))
    return found


@every_lesson
def test_what_is_hidden_is_listed_with_a_reason(script: Path) -> None:
    """A hidden call draws, loads, or repeats what the page shows."""
    listed = CALLS[script.stem[:2]]
    assert calls_into_studies(script) - set(CALLS["all"]) == set(listed)
    assert all(10 < len(reason) < 100 for part in CALLS.values() for reason in part.values())


def test_what_all_lessons_may_call_some_do() -> None:
    assert set(CALLS["all"]) <= set.union(*map(calls_into_studies, SCRIPTS))


ENDS = ("Try it", "What ", "Going further", "Check yourself", "References")


@every_lesson
def test_a_section_asks_shows_and_says_what_to_take_away(script: Path) -> None:
    parts = minutes.sections(jupytext.read(script, fmt="py:percent").cells)
    numbered = [part for part in parts if re.match(r"\d+\. ", part[0])]
    assert [int(heading.split(".")[0]) for heading, _ in numbered] == [*range(1, len(numbered) + 1)]
    assert len(numbered) <= (7 if script.stem[:2] in ("05", "06") else 10)
    for heading, found in numbered:
        text = "\n".join(cell.source for cell in found if cell.cell_type == "markdown")
        assert "**Predict" in text, heading
        assert "**Take away" in text or "**Verdict" in text, heading
        assert "claims.md#" not in text, f"{heading}: ids of claims stand in the table at the end"
    rest = [heading for heading, _ in parts[parts.index(numbered[-1]) + 1 :]]
    assert [end for end in ENDS if any(heading.startswith(end) for heading in rest)] == [*ENDS]
    order = [next(i for i, heading in enumerate(rest) if heading.startswith(end)) for end in ENDS]
    assert order == sorted(order)
    code = [cell for _, found in minutes.body(script) for cell in found if cell.cell_type == "code"]
    for cell in code:
        most = 6 if "hide-input" in tags(cell) else 24 if "algorithm" in tags(cell) else 12
        assert minutes.lines_of(cell.source) <= most, cell.source[:60]
    answers = re.findall(r"</summary>(.*?)</details>", section(script, "Check yourself"), re.S)
    assert len(answers) == 5 and all(re.search(r"[Ss]ection \d", answer) for answer in answers)


@every_lesson
def test_numbers_of_the_prose_are_printed_computed_or_cited(script: Path) -> None:
    assert not unprinted(nbformat.read(script.with_suffix(".ipynb"), as_version=4))


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


# --- the machinery --------------------------------------------------------------------------------

LESSON = """# %% [markdown]
# # A title [of three](../words.md)
#
# *45 minutes to read, predict and run; your turn 15 more; exercises 15 more.*

# %% tags=["settings"]
SEED = 1

# %% [markdown]
# ## 1. One question?
#
# | a | 4 |
# |---|---|
# Printed 12.5, said 13 %, computed 250; section 7.5, [cited 99.9](../data/results/x.csv).
#
# **Predict.** 1.5 or 2.5?

# %% tags=["hide-input"]
draw()
# %%
print(250 / 20)

# %% [markdown]
# The share is 13 % in 1965. An invented 4.25.

# %% [markdown] tags=["your-turn"]
# Write it again.

# %% tags=["your-turn"]
mine = None

# %% [markdown]
# ## Try it
#
# Not counted: 8.75.
"""


def test_minutes_are_those_of_words_lines_guesses_figures_and_output(tmp_path: Path) -> None:
    script = tmp_path / "00_toy.py"
    script.write_text(LESSON)
    assert minutes.stated(script) == 45
    words = "A title of three / 45 minutes to read predict and run your turn 15 more"
    words += " exercises 15 more / 1 One question / a 4"
    words += " / Printed 12.5 said 13 computed 250 section 7.5 cited 99.9 / Predict 1.5 or 2.5"
    words += " / The share is 13 in 1965 An invented 4.25"
    n = len(words.replace("/", " ").split())
    assert minutes.count(script) == (n, 2, 1, 0, 0)
    notebook = load_script(script)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    picture = {"image/png": "AAAA", "text/plain": "<Figure with 3 words>"}
    table = {"text/html": "<style>a b</style><b>two words</b>", "text/plain": "not these"}
    code[1].outputs = [nbformat.v4.new_output("display_data", data=picture)]
    code[2].outputs = [nbformat.v4.new_output("stream", text="12.5 printed")]
    code[2].outputs += [nbformat.v4.new_output("display_data", data=table)]
    code[3].outputs = code[2].outputs
    nbformat.write(notebook, script.with_suffix(".ipynb"))
    assert minutes.count(script) == (n, 2, 1, 1, 4)
    assert minutes.Count(110, 5, 2, 1, 200).minutes == 1 + 1 + 3 + 1 + 1


def test_a_number_that_no_run_prints_is_found(tmp_path: Path) -> None:
    script = tmp_path / "00_toy.py"
    script.write_text(LESSON)
    notebook = jupytext.read(script, fmt="py:percent")
    (shown,) = (cell for cell in notebook.cells if cell.source == "print(250 / 20)")
    shown["outputs"] = [{"output_type": "stream", "text": "12.5 and 0.128"}]
    # what stands in a paragraph that cites a table may stand there alone
    assert [line.split(" in ")[0] for line in unprinted(notebook)] == ["1: 4.25"]
    shown["outputs"] = []
    assert [line.split(" in ")[0] for line in unprinted(notebook)] == ["1: 13 %", "1: 4.25"]


def test_the_table_at_the_end_has_words_place_number_and_verdict() -> None:
    text = studies.end_table("L1", "L.code.truncation").data
    assert [line.count("|") for line in text.splitlines()] == [4] * 4 + [0, 0]
    page = studies.load_results("claims").fillna("").set_index("id").loc["L1"]
    assert (
        f"| {page.statement} [Thm 5.1]<br><small><i>\u201c{page.words}\u201d</i></small> |" in text
    )
    assert f"{page.found}<br><small><i>neighbours: {page.relation}" in text
    assert text.endswith(LEGEND) and all(f"*{verdict}*: " in LEGEND for verdict in VERDICTS)
    assert "| reproduced |" in text and "| (code) " in text and "| refuted (substance) |" in text
    refuses(ValueError, "ids must be 1 to 12 claims, got 13", studies.end_table, *["L1"] * 13)
    refuses(ValueError, "ids", studies.end_table, "L999")


def test_rows_are_dealt_in_units_and_drawn() -> None:
    few = samples.tumours(3, 90, rng=np.random.default_rng(1))
    assert [len(part) for part in few.clients()] == [30] * 3 and few.k == 2
    raw = few.table().to_numpy()
    assert (raw > 5).all() and (raw < 40).all() and not np.allclose(raw, few.points)
    pixels = samples.photograph(4, 100, rng=np.random.default_rng(1))
    assert (np.diff(pixels.owners) >= 0).all() and pixels.points.shape == (100, 3)


def test_checks_are_strict_for_the_committed_settings_only(capsys: Any) -> None:
    lesson = Lesson({"SEED": 1, "EPSILON": 1.0}, {"EPSILON": (2.0,)}, ("data", "start"))
    strict = lesson.begin({"SEED": 1, "EPSILON": 1.0})
    strict.check(True, "holds")
    refuses(AssertionError, "it is so", strict.check, np.bool_(False), "it is so")
    strict.check(True, "holds")
    strict.check(True, "it is less", found="1 against 2")
    assert capsys.readouterr().out == "✓ holds\n✓ it is less: 1 against 2\n", "each once"
    bent = lesson.begin({"SEED": 1, "EPSILON": 2.0})
    bent.check(False, "it is less", found="2 against 1")
    out = capsys.readouterr().out
    assert "EPSILON is 2.0 here; the text was written for 1.0." in out
    assert out.endswith(REMARK + "it is less (2 against 1)\n")


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
    """A lesson that was tried was tried whole, as it is set now, and nothing stopped."""
    table = pd.read_csv(tool.TABLE, dtype=str, keep_default_na=False)
    assert list(table.columns) == tool.COLUMNS
    tried = [script for script in SCRIPTS if script.stem in set(table.notebook)]
    asked = [tool.key_of(v) for script in tried for v in tool.variations(script)]
    assert asked == [tuple(row) for row in table[tool.KEYS].to_numpy()]
    assert set(table.error) <= {""}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "variation", [("00_start_here", "SEED", 1), ("00_start_here", "EPSILON", 2.0)]
)
def test_a_notebook_runs_through_with_other_settings(variation: Any) -> None:
    outcome = tool.outcome_of(tool.Variation(*variation))
    assert not outcome.error
