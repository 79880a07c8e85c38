"""Facts about every notebook: paired, executed in order, clean, small, and laid out alike.

That the cells run and their assertions hold is checked by nbval (`make test`). This file checks
what nbval cannot see: a notebook whose cells were never executed passes nbval vacuously.
"""

from __future__ import annotations

import ast
import base64
import importlib
import inspect
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SCRIPTS = sorted(FOLDER.glob("[0-9]*.py"))
BUILD = SimpleNamespace(**run_path(str(ROOT / "tools" / "build_notebooks.py")))
COMPARE = SimpleNamespace(**run_path(str(FOLDER / "conftest.py")))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def is_widget(cell: Any) -> bool:
    return BUILD.WIDGET_TAG in cell.metadata.get("tags", ())


def said(cell: Any) -> tuple[str, str, str, list[str]]:
    return cell.id, cell.cell_type, cell.source.strip(), list(cell.metadata.get("tags", ()))


every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_scripts_and_notebooks_come_in_pairs() -> None:
    assert SCRIPTS and [p.stem for p in SCRIPTS] == [p.stem for p in NOTEBOOKS]
    assert [p.stem[:3] for p in SCRIPTS] == [f"{n:02}_" for n in range(7)]


@every_notebook
def test_pair_is_equal_and_portable(path: Path) -> None:
    source, notebook = BUILD.load_script(path.with_suffix(".py")), read(path)
    assert [said(c) for c in notebook.cells] == [said(c) for c in source.cells], "make notebooks"
    assert path.stat().st_size < BUILD.MAX_BYTES
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata, "live widget state"
    assert "version" not in notebook.metadata.language_info, "version of one interpreter"
    assert all(set(cell.metadata) <= {"tags", "jupyter"} for cell in notebook.cells)


@every_notebook
def test_outputs_are_those_of_one_clean_run(path: Path) -> None:
    """From first to last cell, but those that wait for a browser (`make browser-test`)."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    ran, widgets = ([c for c in cells if is_widget(c) is wanted] for wanted in (False, True))
    assert [cell.execution_count for cell in ran] == list(range(1, len(ran) + 1))
    assert ran and widgets
    for cell in widgets:
        assert BUILD.SKIP_TAG in cell.metadata.tags and cell.execution_count is None
        assert [out.data["text/markdown"] for out in cell.outputs] == [BUILD.WIDGET_NOTE]
    calls = re.compile(r"\b(?:interact(?:ive)?|play\.explore\w*|\w*Slider)\(")
    outputs = [output for cell in ran for output in cell.outputs]
    assert not [p for output in outputs for p in BUILD.output_problems(output)]
    assert any("image/png" in output.get("data", {}) for output in outputs), "no figure"
    for cell in ran:
        assert not calls.search(cell.source), "only widget cells make controls"
        # nbval compares with what is stored, so an empty output would be compared with nothing
        assert cell.outputs or "nbval-check-output" not in cell.metadata.get("tags", ())


@every_notebook
def test_widget_cells_call_what_there_is(path: Path) -> None:
    """Nothing runs them but a browser, so look at names and arguments here."""
    code = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    imported = re.findall(r"^from studies\.(\w+) import widget as play$", "\n".join(code), re.M)
    assert len(imported) == 1, "one module of widgets, imported as play"
    module = importlib.import_module(f"studies.{imported[0]}.widget")
    found = 0
    for cell in read(path).cells:
        if not is_widget(cell):
            continue
        for call in ast.walk(ast.parse(cell.source)):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("play."):
                continue
            found += 1
            signature = inspect.signature(getattr(module, ast.unparse(call.func)[5:]))
            names = {k.arg: None for k in call.keywords if k.arg is not None}
            signature.bind_partial(*call.args, **names)
    assert found


def text(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def data(kind: str, **fields: str) -> dict[str, Any]:
    return {"output_type": kind, "data": {name.replace("_", "/"): v for name, v in fields.items()}}


REFUSED = [
    text("UserWarning: x", "stderr"),
    {"output_type": "display_data", "data": {BUILD.WIDGET_VIEW: {"model_id": "1"}}},
    {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["t"]},
    text("saved to /" + "home/someone/x.csv"),
    text("/" + "tmp/ipykernel_1/2.py:3: note"),
    data("display_data", text_html="<b>C:" + "\\Users\\x</b>"),
    data("execute_result", text_plain="<object at 0x7f00aa00bb00>"),
    data("execute_result", text_plain=f"{ROOT}"),
]
ACCEPTED = [
    text("epsilon 0.5, 12/home games, ring 0xff"),
    data("display_data", image_png="AA/" + "home/xx", text_plain="F"),
]


def test_the_builder_refuses_outputs_of_one_machine_only() -> None:
    assert all(BUILD.output_problems(nbformat.from_dict(output)) for output in REFUSED)
    assert not any(BUILD.output_problems(nbformat.from_dict(output)) for output in ACCEPTED)


TOY = """# %% [markdown]
# # Toy

# %%
import matplotlib.pyplot as plt

print("one")
print("two")

# %% tags=["hide-input"]
_ = plt.plot([1, 2, 3])
plt.show()

# %% tags=["widget", "nbval-ignore-output"]
import time

time.sleep(1000)  # a control that waits for a browser

# %%
1 + 1

# %%
1 + 1
"""


@pytest.mark.thorough
def test_building_twice_leaves_no_difference(tmp_path: Path) -> None:
    script = tmp_path / "00_toy.py"
    script.write_text(TOY)
    assert BUILD.main(["--folder", str(tmp_path)]) == 0
    first = script.with_suffix(".ipynb").read_bytes()
    changed, _ = BUILD.build(script, timeout=600)
    assert not changed
    assert script.with_suffix(".ipynb").read_bytes() == first
    stored = read(script.with_suffix(".ipynb"))
    counts = [c.execution_count for c in stored.cells if c.cell_type == "code"]
    assert counts == [1, 2, None, 3, 4]
    assert BUILD.WIDGET_NOTE in str(stored.cells[3].outputs)
    assert stored.cells[2].metadata.jupyter.source_hidden, "folded in JupyterLab too"
    assert stored.cells[3].metadata.tags == ["widget", "nbval-ignore-output", "nbval-skip"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("assert 1 + 1 == 3", "AssertionError"),
        ("import time\ntime.sleep(60)", "a cell ran longer than 3 s"),
        ("from ipywidgets import IntSlider\nIntSlider()", "interactive controls: tag the cell"),
    ],
)
def test_building_says_which_notebook_waits(tmp_path: Path, code: str, match: str) -> None:
    (tmp_path / "00_toy.py").write_text(f"# %%\n{code}\n")
    with pytest.raises(BUILD.BuildError, match=f"(?s)00_toy.*{match}"):
        BUILD.build(tmp_path / "00_toy.py", timeout=3)
    assert not (tmp_path / "00_toy.ipynb").exists()


@pytest.mark.thorough
def test_nbval_does_not_run_widget_cells_and_compares_the_others(tmp_path: Path) -> None:
    script = tmp_path / "00_toy.py"
    script.write_text(TOY)
    BUILD.build(script, timeout=600)
    shutil.copy2(FOLDER / "conftest.py", tmp_path)
    notebook = script.with_suffix(".ipynb")

    def run() -> str:
        options = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300", "-p", "no:xdist"]
        command = [sys.executable, "-m", "pytest", "-q", *options, str(notebook)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert (done.returncode == 0) == (" failed" not in done.stdout)
        return done.stdout

    assert "4 passed, 1 skipped" in run()
    stored = read(notebook)
    for cell in stored.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = f"an older {output.text}"
    nbformat.write(stored, notebook)
    assert "1 failed, 3 passed, 1 skipped" in run()


@pytest.mark.parametrize(
    ("stored", "found", "digits", "same"),
    [
        ("eps = 1.00, 3 rounds", "eps = 1.01, 3 rounds", True, True),
        ("eps = 1.00, 3 rounds", "eps = 1.02, 3 rounds", True, False),
        ("eps = 1.00, 3 rounds", "mu = 1.00, 3 rounds", True, False),
        ("1.5e-05", "1.6e-05", True, True),
        ("1.5e-05", "1.5e-04", True, False),
        ("-0.31", "0.31", True, False),
        ("n = 2000", "n = 2", True, False),
        ("a 1", "a 1 2", True, False),
        ("cost   0.95, reproduced", "cost 12.5, reproduced", False, True),
        ("cost 0.95, reproduced", "cost 0.95, refuted", False, False),
        ("cost 0.95", "cost nan", False, False),
    ],
)
def test_words_are_compared_and_numbers_where_said(
    stored: str, found: str, digits: bool, same: bool
) -> None:
    assert COMPARE.same_text(stored, found, digits=digits) is same


def test_figures_are_compared_by_existence_and_size() -> None:
    def figure(width: int, height: int) -> dict[str, Any]:
        file = io.BytesIO()
        Image.new("P", (width, height)).save(file, "PNG")
        data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": "<Figure>"}
        return {"output_type": "display_data", "data": data, "metadata": {}}

    stream = {"output_type": "stream", "name": "stdout", "text": "done"}
    assert not COMPARE.difference([figure(20, 10)], [figure(20, 10)])
    assert "pixels" in COMPARE.difference([figure(20, 10)], [figure(21, 10)])
    assert "became" in COMPARE.difference([figure(20, 10)], [])
    assert "became" in COMPARE.difference([stream], [stream, figure(20, 10)])
    assert "now" in COMPARE.difference([stream], [stream | {"text": "undone"}])
