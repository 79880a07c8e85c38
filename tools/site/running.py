"""A chapter that runs where it is read: Python for the browser, the packages, and what a page says.

All files lie in the folder `running` of the book: those of `tools/pyodide.py`, zips of our own code
and of compiled files, and a lock that names them to Pyodide. Nothing is fetched from elsewhere when
a page is read. Where Pyodide's files cannot be had, the book is built without the button.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tools import pyodide
from tools.site.settings import ROOT

FOLDER = "running"
OURS = ("fedclust", "fedclust_helpers", "studies", "tools/site/drawn.py", "tools/site/shell.py",
        "tools/__init__.py", "tools/site/__init__.py", "data/results")  # fmt: skip
KINDS = (".py", ".csv", ".toml", ".json", ".mplstyle")
LEFT = {"matplotlib-pyodide"}  # a drawing surface that no cell uses
SECONDS = Path(__file__).with_name("seconds.toml")
WIDGET = "Sliders for this picture are in JupyterLab (`make lab`)."


def code() -> Iterator[Path]:
    """The files of ours that a page imports or reads."""
    for name in OURS:
        path = ROOT / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (p for p in found if p.suffix in KINDS and "checkpoint" not in p.name)


def named(path: Path) -> Path:
    """The file, its name with a digest, so that a reader's cache never holds an older one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return path.rename(path.with_stem(f"{path.stem}-{digest[:12]}"))


def archive(place: Path) -> Path:
    """A zip of our own files."""
    target = place / "fedclust.zip"
    with zipfile.ZipFile(target, "w") as packed:
        for path in code():
            info = zipfile.ZipInfo(path.relative_to(ROOT).as_posix(), (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, path.read_bytes())
    return named(target)


def imports() -> list[str]:
    """The import statements of all chapters, and of what a page itself needs."""
    found = {"import tools.site.shell", "import ipywidgets", "import markdown_it"}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.add(ast.unparse(node))
    return sorted(found)


def compiled(node: str, place: Path, packages: list[str]) -> list[Path]:
    """Python's own library and a zip for the packages, with what `imports` import compiled."""
    with tempfile.TemporaryDirectory() as at:
        shutil.copyfile(Path(__file__).with_name("bytecode.py"), Path(at) / "bytecode.py")
        (Path(at) / "imports").write_text("\n".join(imports()), encoding="utf-8")
        line = [node, str(ROOT / "tools" / "wasm" / "run.mjs"), str(place.resolve())]
        line += [json.dumps(packages), json.dumps({"/at": at})]
        subprocess.run([*line, "bytecode.py", "imports"], check=True, text=True)
        made = ("python_stdlib.zip", "bytecode.zip")
        return [named(Path(shutil.copyfile(Path(at) / name, place / name))) for name in made]


def package(name: str, path: Path) -> dict[str, Any]:
    """The entry of a file in Pyodide's lock."""
    return {
        "name": name, "version": "0", "file_name": path.name, "install_dir": "site",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "package_type": "package",
        "imports": [], "depends": [], "unvendored_tests": False, "shared_library": False,
    }  # fmt: skip


def passed_on() -> list[dict[str, str]]:
    """The rows of Pyodide's list that a book holds: all but what tests need."""
    return [row for row in pyodide.listed() if not row["file"].startswith("hypothesis")]


def stage(place: Path) -> dict[str, Any] | None:
    """Lay the files into the folder `place`; what a page must know, or None without them."""
    try:
        if (node := shutil.which("node")) is None:
            raise pyodide.MissingError("there is no node")
        source = pyodide.folder()
    except pyodide.MissingError as missing:
        print(f"chapters will not run in the browser: {missing}")
        return None
    place.mkdir(parents=True)
    rows = passed_on()
    for row in rows:
        shutil.copyfile(source / row["file"], place / row["file"])
    lock = json.loads((place / "pyodide-lock.json").read_text(encoding="utf-8"))
    files = {row["file"] for row in rows}
    packages = {key: one for key, one in lock["packages"].items() if one["file_name"] in files}
    for row in rows:
        if row["from"] != "pyodide":
            name = row["from"].partition("==")[0]
            packages[name] = package(name, place / row["file"])
    for one in packages.values():
        one["depends"] = [name for name in one["depends"] if name not in LEFT]
    packages["fedclust"] = package("fedclust", archive(place))
    lock["packages"] = packages

    def write() -> None:
        (place / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")

    write()
    library, bytecode = compiled(node, place, list(packages))
    packages["bytecode"] = package("bytecode", bytecode)
    lock["info"]["library"] = library.name
    write()
    size = sum(path.stat().st_size for path in place.iterdir())
    return {"megabytes": round(size / 1e6), "pyodide": lock["info"]["version"]}


def told(stem: str, ids: Sequence[str], files: dict[str, Any] | None) -> str:
    """What a chapter tells its script: size, seconds in all, and those of cells that take long.

    `ids` are those of its code cells, which follow their text: a cell that changed says nothing.
    """
    if files is None:
        return ""
    measured = tomllib.loads(SECONDS.read_text(encoding="utf-8"))[stem]
    slow = {ids.index(name): each for name, each in measured["slow"].items() if name in ids}
    said = json.dumps(files | measured | {"slow": slow}).replace("<", "\\u003c")
    return f'\n<script type="application/json" id="run-here">{said}</script>\n'


def widget(text: str) -> str:
    """The place of a widget: a sentence, and the cell for a reader who runs the chapter."""
    said = WIDGET.replace("`make lab`", "<code>make lab</code>")
    code = escape(text).replace("\n", "&#10;")  # an empty line would end it
    return f'<div class="widget-note" data-code="{code}"><p><em>{said}</em></p></div>'


def licences(version: str) -> str:
    """The page that tells what is passed on, and under which licences."""
    lines = [
        "# Licences of what runs here",
        "",
        "A chapter that runs in the browser uses these files, which the book passes on unchanged,",
        "and their Python files once more, compiled. Our own code is under the BSD licence of the",
        "repository. The sources of what is under the Mozilla Public License: Pyodide's, version",
        f"{version}, at",
        "[pyodide/pyodide](https://github.com/pyodide/pyodide), tqdm's at",
        "[tqdm/tqdm](https://github.com/tqdm/tqdm).",
        "",
        "| file | licence | sha256 |",
        "|---|---|---|",
    ]
    row_of = "| {file} | {licence} | `{sha256:.16}` |"
    lines += [row_of.format(**row) for row in passed_on()]
    return "\n".join(lines) + "\n"
