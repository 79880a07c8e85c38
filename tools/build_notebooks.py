"""Generate the notebooks from their percent scripts, execute them, and store the outputs.

    python tools/build_notebooks.py                 every notebooks/NN_*.py
    python tools/build_notebooks.py 01_fastlloyd    the ones whose name contains this

One way only: the script is the source, the notebook is the product. Nothing is taken from an
existing notebook. A second run on the same machine leaves no difference, because

* cell ids are hashes of the cell source,
* figures are stored with a palette of 64 colours (a third of the bytes),
* times, widget state, widget ids and version numbers of the interpreter are not stored,
* an output that shows a memory address, a machine path, an error or anything on stderr is refused.

Interactive controls need a live kernel and a browser: a stored copy of them would only be a dead
id, and a build or a test that waits for them may wait for ever. So cells tagged `widget` are never
executed here, and get the tag `nbval-skip` for `make test`. Their output is one line of text; the
figure above them is the static version. `make browser-test` runs and moves them.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
MAX_BYTES = 1_000_000

WIDGET_TAG, SKIP_TAG = "widget", "nbval-skip"
HIDE_TAG = "hide-input"  # folded on the page by its tag, in JupyterLab by `jupyter.source_hidden`
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_NOTE = "*Interactive controls: run this cell in JupyterLab to use them.*"
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}

_ADDRESS = re.compile(r"\b(?:at )?0x[0-9a-f]{8,}\b")
_MACHINE_PATH = re.compile(
    r"(?<![\w.:/])/(?:home|root|Users|tmp|private|var/folders)/|\b[A-Z]:\\\w"
)


class BuildError(RuntimeError):
    """A notebook cannot be stored as it is; the message names the notebook, cell and reason."""


def output_text(output: Any) -> str:
    """Return everything a reader can see as text in one output (images are left out)."""
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join(output.get("traceback", []))
    data = output.get("data", {})
    return "\n".join(str(value) for mime, value in data.items() if not mime.startswith("image/"))


def output_problems(output: Any) -> list[str]:
    """Say why an output may not be stored; an empty list when it may."""
    text = output_text(output)
    problems = []
    if output.output_type == "error":
        problems.append(f"error output {output.get('ename')}: {output.get('evalue')}")
    if output.output_type == "stream" and output.name == "stderr":
        problems.append(f"text on stderr: {text.strip()[:300]!r}")
    if WIDGET_VIEW in output.get("data", {}):
        problems.append(f"interactive controls: tag the cell {WIDGET_TAG!r}, then it is not run")
    if match := _MACHINE_PATH.search(text):
        problems.append(f"path of a machine: {text[match.start() : match.start() + 80]!r}")
    if str(ROOT) in text:
        problems.append("path of this repository")
    if match := _ADDRESS.search(text):
        problems.append(f"memory address {match.group()!r}, different in every run")
    return problems


def stored_tags(tags: Sequence[str]) -> list[str]:
    """The tags of a cell as they are stored: widget cells are skipped by nbval as well."""
    skip = [SKIP_TAG] if WIDGET_TAG in tags and SKIP_TAG not in tags else []
    return [*tags, *skip]


def load_script(path: Path) -> Any:
    """Read a percent script as a notebook: stable cell ids; metadata are tags and what folds."""
    import jupytext
    import nbformat

    source = jupytext.read(path, fmt="py:percent")
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO}
    )
    seen: Counter[str] = Counter()
    for cell in source.cells:
        tags = stored_tags(cell.metadata.get("tags", []))
        hidden = {"jupyter": {"source_hidden": True}} if HIDE_TAG in tags else {}
        cell.metadata = nbformat.from_dict(({"tags": tags} if tags else {}) | hidden)
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[digest] += 1
        cell["id"] = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        notebook.cells.append(cell)
    return notebook


def smaller_png(encoded: str) -> str:
    """Store a figure with a palette of 64 colours: a third of the bytes, no visible change."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    buffer = io.BytesIO()
    flat = Image.new("RGB", image.size, "white")
    flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    flat.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def clean_outputs(notebook: Any, name: str) -> None:
    """Make the outputs of an executed notebook stable, in place; refuse what cannot be."""
    import nbformat

    problems = []
    for number, cell in enumerate(notebook.cells, start=1):
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        outputs = []
        if WIDGET_TAG in cell.metadata.get("tags", []):
            note = {"text/markdown": WIDGET_NOTE, "text/plain": WIDGET_NOTE.strip("*")}
            cell.outputs = [nbformat.v4.new_output("display_data", data=note)]
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = smaller_png(output.data["image/png"])
            problems += [f"{name}, cell {number}: {text}" for text in output_problems(output)]
            last = outputs[-1] if outputs else None
            if (
                last is not None
                and last.output_type == output.output_type == "stream"
                and last.name == output.name
            ):
                last.text += output.text  # how a stream is cut into messages depends on timing
            else:
                outputs.append(output)
        cell.outputs = outputs
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO}
    )
    if problems:
        raise BuildError("\n".join(problems))


def execute(notebook: Any, *, folder: Path, timeout: int) -> None:
    """Run all cells but widgets, in `folder`; raises BuildError where one fails."""
    import nbclient

    client = nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        skip_cells_with_tag=WIDGET_TAG,
        extra_arguments=["--log-level=CRITICAL"],
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except nbclient.exceptions.CellTimeoutError:
        raise BuildError(f"a cell ran longer than {timeout} s") from None
    except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.DeadKernelError) as error:
        raise BuildError(str(error)) from None


def build(path: Path, *, timeout: int) -> tuple[bool, int]:
    """Execute one percent script and write the notebook beside it.

    Returns
    -------
    changed : bool
        Whether the stored notebook differs from the one that was there.
    size : int
        Bytes of the stored notebook.
    """
    import nbformat

    notebook = load_script(path)
    try:
        execute(notebook, folder=path.parent, timeout=timeout)
    except BuildError as error:
        raise BuildError(f"{path.name}: {error}") from None
    clean_outputs(notebook, path.name)
    nbformat.validate(notebook)
    text = nbformat.writes(notebook, version=4).rstrip("\n") + "\n"
    size = len(text.encode())
    if size >= MAX_BYTES:
        raise BuildError(f"{path.name}: {size / 1e6:.2f} MB, the limit is {MAX_BYTES / 1e6:.0f} MB")
    target = path.with_suffix(".ipynb")
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return False, size
    temporary = target.with_suffix(".partial")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(target)
    return True, size


def main(arguments: list[str] | None = None) -> int:
    """Build the notebooks named on the command line (all of them when none is)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="part of a notebook's file name")
    parser.add_argument("--timeout", type=int, default=300, help="seconds per cell (300)")
    parser.add_argument("--folder", type=Path, default=NOTEBOOKS, help="where the scripts lie")
    options = parser.parse_args(arguments)

    scripts = sorted(options.folder.glob("[0-9][0-9]_*.py"))
    if options.names:
        scripts = [s for s in scripts if any(Path(n).stem in s.stem for n in options.names)]
    if not scripts:
        print(f"no notebook script found in {options.folder.name}/", file=sys.stderr)
        return 2

    # The kernel inherits these: one thread, and sets that print in one order.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ["FEDCLUST_FIGURES"] = "strict"
    failed = 0
    for script in scripts:
        start = time.perf_counter()
        try:
            changed, size = build(script, timeout=options.timeout)
        except BuildError as error:
            failed += 1
            print(f"FAILED {error}", file=sys.stderr)
            continue
        seconds = time.perf_counter() - start
        state = "written" if changed else "unchanged"
        print(f"{script.stem}: {state}, {size / 1000:.0f} kB, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
