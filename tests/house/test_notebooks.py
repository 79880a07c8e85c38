"""Facts about every notebook: paired, executed in order, clean, small, and laid out alike.

That the cells run and their assertions hold is checked by nbval (`make test`). This file checks
what nbval cannot see: a notebook whose cells were never executed passes nbval vacuously.
"""

from __future__ import annotations

import ast
import base64
import importlib
import importlib.util
import inspect
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import nbformat
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SCRIPTS = sorted(FOLDER.glob("[0-9]*.py"))
REQUIRED = (
    "00_start_here",
    "01_fastlloyd",
    "02_feddp_kmeans",
    "03_locally_private_kmeans",
    "04_rr_cluster",
    "05_side_by_side",
    "06_your_own_data",
)
HEADINGS = ("Exercises", "Recap", "References")


def _load(path: Path) -> ModuleType:
    """Import a file that is not part of the package."""
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = _load(ROOT / "tools" / "build_notebooks.py")
COMPARE = _load(FOLDER / "conftest.py")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def cell_key(cell: Any) -> tuple[str, str, tuple[str, ...]]:
    return cell.cell_type, cell.source.strip(), tuple(cell.metadata.get("tags", ()))


def is_widget(cell: Any) -> bool:
    return BUILD.WIDGET_TAG in cell.metadata.get("tags", ())


def headings(notebook: Any) -> list[str]:
    lines = (
        line
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
    )
    return [line.lstrip("# ").strip() for line in lines if re.match(r"#{1,4} ", line)]


every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.parametrize("name", REQUIRED)
def test_required_notebook_exists(name: str) -> None:
    assert (FOLDER / f"{name}.py").is_file()
    assert (FOLDER / f"{name}.ipynb").is_file()


def test_scripts_and_notebooks_come_in_pairs() -> None:
    assert SCRIPTS, "no percent script in notebooks/"
    assert [p.stem for p in SCRIPTS] == [p.stem for p in NOTEBOOKS]
    assert all(re.fullmatch(r"\d\d_[a-z0-9_]+", p.stem) for p in SCRIPTS)
    numbers = [p.stem[:2] for p in SCRIPTS]
    assert len(set(numbers)) == len(numbers), "two notebooks share a number"


@every_notebook
def test_pair_is_equal(path: Path) -> None:
    source = jupytext.read(path.with_suffix(".py"), fmt="py:percent")
    expected = [
        (*cell_key(cell)[:2], tuple(BUILD.stored_tags(cell.metadata.get("tags", ()))))
        for cell in source.cells
    ]
    stored = [cell_key(cell) for cell in read(path).cells]
    assert expected, "the percent script is empty"
    assert stored == expected, "run `make notebooks`"


@every_notebook
def test_executed_from_first_to_last(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in cells if not is_widget(cell)]
    assert counts, "no code cell"
    assert counts == list(range(1, len(counts) + 1))


@every_notebook
def test_has_outputs_and_figures(path: Path) -> None:
    outputs = [out for cell in read(path).cells for out in cell.get("outputs", [])]
    assert outputs
    assert any("image/png" in out.get("data", {}) for out in outputs), "no figure"


@every_notebook
def test_no_errors_stderr_or_machine_paths_in_outputs(path: Path) -> None:
    problems = [
        f"cell {number}: {problem}"
        for number, cell in enumerate(read(path).cells, start=1)
        for output in cell.get("outputs", [])
        for problem in BUILD.output_problems(output)
    ]
    assert not problems


@every_notebook
def test_metadata_is_portable(path: Path) -> None:
    notebook = read(path)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata, "live widget state"
    assert "version" not in notebook.metadata.language_info, "version of one interpreter"
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags", "jupyter"}
        for output in cell.get("outputs", []):
            assert BUILD.WIDGET_VIEW not in output.get("data", {}), "id of a widget that is gone"


@every_notebook
def test_cell_ids_are_those_of_the_builder(path: Path) -> None:
    expected = [cell["id"] for cell in BUILD.load_script(path.with_suffix(".py")).cells]
    assert [cell["id"] for cell in read(path).cells] == expected
    assert len(set(expected)) == len(expected)


@every_notebook
def test_is_smaller_than_a_megabyte(path: Path) -> None:
    assert path.stat().st_size < BUILD.MAX_BYTES


@every_notebook
def test_follows_the_template(path: Path) -> None:
    notebook = read(path)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# "), "the first cell is the title"
    found = headings(notebook)
    for wanted in HEADINGS:
        assert any(wanted.lower() in heading.lower() for heading in found), wanted
    asserting = [c for c in notebook.cells if c.cell_type == "code" and "check(" in c.source]
    assert asserting, "a notebook must check what it claims"


@every_notebook
def test_widget_cells_are_neither_built_nor_run_by_nbval(path: Path) -> None:
    # they wait for a browser that is not there; `make browser-test` runs and moves them
    widgets = [c for c in read(path).cells if is_widget(c)]
    assert widgets, "at least one cell tagged `widget`"
    for cell in widgets:
        assert BUILD.SKIP_TAG in cell.metadata.tags
        assert cell.execution_count is None
        assert [out.data["text/markdown"] for out in cell.outputs] == [BUILD.WIDGET_NOTE]


@every_notebook
def test_only_widget_cells_make_controls(path: Path) -> None:
    calls = re.compile(r"\b(?:interact(?:ive)?|play\.explore\w*|\w*Slider)\(")
    for cell in read(path).cells:
        if cell.cell_type == "code" and calls.search(cell.source):
            assert is_widget(cell), cell.source


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


@every_notebook
def test_exactly_compared_cells_have_an_output(path: Path) -> None:
    # nbval compares with what is stored, so an empty stored output would be compared with nothing
    for cell in read(path).cells:
        if "nbval-check-output" in cell.metadata.get("tags", ()):
            assert cell.outputs, cell.source


def _output(**fields: Any) -> Any:
    return nbformat.from_dict(fields)


@pytest.mark.parametrize(
    "output",
    [
        _output(output_type="stream", name="stderr", text="UserWarning: x"),
        _output(output_type="display_data", data={BUILD.WIDGET_VIEW: {"model_id": "1"}}),
        _output(output_type="error", ename="ValueError", evalue="bad", traceback=["t"]),
        _output(output_type="stream", name="stdout", text="saved to /" + "home/someone/x.csv"),
        _output(output_type="stream", name="stdout", text="/" + "tmp/ipykernel_1/2.py:3: note"),
        _output(output_type="display_data", data={"text/html": "<b>C:" + "\\Users\\x</b>"}),
        _output(output_type="execute_result", data={"text/plain": "<object at 0x7f00aa00bb00>"}),
        _output(output_type="execute_result", data={"text/plain": f"{ROOT}"}),
    ],
)
def test_builder_refuses(output: Any) -> None:
    assert BUILD.output_problems(output)


@pytest.mark.parametrize(
    "output",
    [
        _output(output_type="stream", name="stdout", text="epsilon 0.5, 12/home games, ring 0xff"),
        _output(
            output_type="display_data", data={"image/png": "AA/" + "home/xx", "text/plain": "F"}
        ),
    ],
)
def test_builder_accepts(output: Any) -> None:
    assert not BUILD.output_problems(output)


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
def test_building_a_failing_notebook_fails(tmp_path: Path) -> None:
    (tmp_path / "00_toy.py").write_text("# %%\nassert 1 + 1 == 3\n")
    assert BUILD.main(["--folder", str(tmp_path)]) == 1
    assert not (tmp_path / "00_toy.ipynb").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("import time\ntime.sleep(60)", "a cell ran longer than 3 s"),
        ("from ipywidgets import IntSlider\nIntSlider()", "interactive controls: tag the cell"),
    ],
)
def test_building_says_which_notebook_waits(tmp_path: Path, code: str, match: str) -> None:
    (tmp_path / "00_toy.py").write_text(f"# %%\n{code}\n")
    with pytest.raises(BUILD.BuildError, match=f"00_toy.*{match}"):
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
    ("stored", "found", "same"),
    [
        ("eps = 1.00, 3 rounds", "eps = 1.00, 3 rounds", True),
        ("eps = 1.00, 3 rounds", "eps = 1.01, 3 rounds", True),
        ("eps = 1.00, 3 rounds", "eps = 1.02, 3 rounds", False),
        ("eps = 1.00, 3 rounds", "mu = 1.00, 3 rounds", False),
        ("1.5e-05", "1.6e-05", True),
        ("1.5e-05", "1.5e-04", False),
        ("-0.31", "0.31", False),
        ("n = 2000", "n = 2", False),
        ("a 1", "a 1 2", False),
    ],
)
def test_stored_text_is_compared_with_its_numbers(stored: str, found: str, same: bool) -> None:
    assert COMPARE.same_text(stored, found, digits=True) is same


def test_numbers_of_runs_are_not_compared_but_their_words_are() -> None:
    assert COMPARE.same_text("cost   0.95, reproduced", "cost 12.5, reproduced", digits=False)
    assert not COMPARE.same_text("cost 0.95, reproduced", "cost 0.95, refuted", digits=False)
    assert not COMPARE.same_text("cost 0.95", "cost nan", digits=False)


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
