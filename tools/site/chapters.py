"""Notebooks as chapters: stored outputs, alternative texts, and what a printed page must say."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import nbformat

from tools.site import living, running
from tools.site.drawn import drawn
from tools.site.links import SCHEME, Book
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


def picture(book: Book, data: str, told: dict[str, Any], page: str) -> str:
    """A stored figure as HTML; its content is a file."""
    content = base64.b64decode(data)
    file = book.extra / "figures" / f"{hashlib.sha256(content).hexdigest()[:12]}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return drawn(book.relative(f"figures/{file.name}", page), content, told)


def shown(book: Book, cell: Any, page: str) -> None:
    """Outputs of a cell as the page shows them: pictures are files."""
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/png" in data:
            told = output.metadata.get("image/png", {})
            output.data = {"text/html": picture(book, data["image/png"], told, page)}
            output.metadata = {}


def stage(
    book: Book, path: Path, version: str, place: Place, files: dict[str, Any] | None = None
) -> None:
    """Write one notebook as the source of a chapter; with `files`, one that runs there."""
    notebook = nbformat.read(path, as_version=4)
    stem, at = path.stem, f"notebooks/{path.name}"
    page = book.pages[at]
    first = notebook.cells[0]
    heading = re.match(r"# (.+)\n", first.source)
    if heading is None:
        raise ValueError(f"{path.name}: the first cell must begin with the title")
    title = heading[1].strip()
    number, name = stem[:2], short_title(stem)[3:]
    shown_title = title if title.startswith(f"{name}: ") else f"{name}: {title}"
    named = f"# {number} {shown_title}\n" + facts(stem, version, place) + "\n"
    ids = [cell.id for cell in notebook.cells if cell.cell_type == "code"]
    named += running.told(stem, ids, files)
    first.source = named + first.source[heading.end() :]
    cells: list[Any] = []
    for cell in notebook.cells:
        if "widget" in cell.metadata.get("tags", ()):
            cell = nbformat.v4.new_markdown_cell(running.widget(cell.source))
        cells.append(cell)
        shown(book, cell, page)
    cells.append(nbformat.v4.new_markdown_cell(citation(stem, title, version, place)))
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = living.placed(book.rewrite(cell.source, at, page))
    bare = nbformat.read(path, as_version=4)  # to run: its outputs stand on the page
    for cell in bare.cells:
        cell.update({"outputs": []} if cell.cell_type == "code" else {})
    script = book.copy(path.with_suffix(".py").relative_to(book.root).as_posix())
    nbformat.write(bare, (book.extra / script).with_suffix(".ipynb"))
    notebook.cells = cells
    target = book.source / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
