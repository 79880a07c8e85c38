"""Notebooks as chapters: stored outputs, alternative texts, and what a printed page must say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat

from tools.site import living
from tools.site.links import SCHEME, Book, blocks
from tools.site.settings import Place

NAMES = {
    "fastlloyd": "FastLloyd",
    "feddp_kmeans": "FedDP-KMeans",
    "locally_private_kmeans": "Locally private k-means",
    "rr_cluster": "RR-Cluster",
}


def short_title(stem: str) -> str:
    """The name of a chapter in the contents: "01 FastLloyd"."""
    number, _, name = stem.partition("_")
    return f"{number} {NAMES.get(name, name.replace('_', ' ').capitalize())}"


WIDGET_NOTE = """:::{container} widget-note
*Sliders for this picture stand here in JupyterLab (`make lab`).*
:::"""


def facts(stem: str, version: str, place: Place) -> str:
    """The line under a chapter's title."""
    parts = [f"Chapter {stem[:2]} of fedclust {version}"]
    base = f"{SCHEME}../files/notebooks/{stem}"
    files = [f"[notebook]({base}.ipynb)", f"[Python script]({base}.py)"]
    parts.append("Download: " + ", ".join(files))
    if place.repository:
        path = f"notebooks/{stem}.ipynb"
        parts.append(f"Run: [Binder]({place.binder(path)}), [Colab]({place.colab(path)})")
    parts.append("[how to cite](#cite-this-chapter)")
    return "\n".join(["", ":::{container} chapter-facts", " · ".join(parts), ":::"])


def citation(stem: str, title: str, version: str, place: Place) -> str:
    """The end of a chapter: version, permanent address, how to cite."""
    address = f"{place.site}chapters/{stem}.html" if place.site else ""
    entry = f'the fedclust developers. "{title}" In: *fedclust: private federated clustering in '
    entry += f"executable notebooks*, version {version}, chapter {stem[:2]}."
    lines = [
        "## Cite this chapter",
        "",
        f"> {entry}" + (f" <{address}>" if address else ""),
        "",
        "Please cite the paper of the chapter as well (see References above, and the",
        "[bibliography](site:../bibliography.html) of the whole book).",
        "",
        f"Version {version}." + (f" Permanent address: <{address}>." if address else ""),
        "The outputs on this page are stored ones, made by `make notebooks` with the settings of",
        "the notebook; [how it was made](site:../made.html) tells the rest.",
    ]
    return "\n".join(lines)


def alternative(cell: Any) -> str:
    """The alternative text of the figure in the output of a cell, empty if there is none."""
    for output in cell.get("outputs", []):
        if "image/png" in output.get("data", {}):
            return str(output.metadata.get("image/png", {}).get("alt", "figure"))
    return ""


def without_jumps(cells: Iterable[Any]) -> None:
    """Headings that skip a level (the page would have a hole in its outline), one level up."""
    level = 1
    for cell in cells:
        if cell.cell_type != "markdown":
            continue
        parts = []
        for text, prose in blocks(cell.source):
            lines = text.splitlines(keepends=True)
            for i, line in enumerate(lines):
                match = re.match(r"(#{1,6}) ", line)
                if prose and match:
                    level = min(len(match[1]), level + 1)
                    lines[i] = "#" * level + line[len(match[1]) :]
            parts += lines
        cell.source = "".join(parts)


def stage(book: Book, path: Path, version: str, place: Place) -> str:
    """Write one notebook as the source of a chapter; return its title."""
    notebook = nbformat.read(path, as_version=4)
    stem, at = path.stem, f"notebooks/{path.name}"
    page = book.pages[at]
    first = notebook.cells[0]
    heading = re.match(r"# (.+)\n", first.source)
    if heading is None:
        raise ValueError(f"{path.name}: the first cell must begin with the title")
    title = heading[1].strip()
    named = f"# {short_title(stem)}: {title}\n" + facts(stem, version, place) + "\n"
    first.source = named + first.source[heading.end() :]
    cells: list[Any] = []
    for cell in notebook.cells:
        moves = "widget" in cell.metadata.get("tags", ())
        cells.append(nbformat.v4.new_markdown_cell(WIDGET_NOTE) if moves else cell)
        if text := alternative(cell):
            cell.metadata["mystnb"] = {"image": {"alt": text}}
    cells.append(nbformat.v4.new_markdown_cell(citation(stem, title, version, place)))
    without_jumps(cells)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = book.rewrite(cell.source, at, page)
    living.place(cells, stem[:2])
    # the downloads are the committed files, not what stands here
    for suffix in (".ipynb", ".py"):
        book.copy(path.with_suffix(suffix).relative_to(book.root).as_posix())
    notebook.cells = cells
    target = book.source / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    return title
