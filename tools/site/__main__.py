"""`make site`: write the sources of the pages and let Sphinx build the book.

    python -m tools.site                 build/site, from build/site-source
    python -m tools.site --out FOLDER    elsewhere

A warning is an error. Ends with the number of pages and the size.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from sphinx.cmd.build import main as sphinx

import fedclust_helpers
from tools.site import api, chapters, claims, mathjax, pages, running, tables
from tools.site.links import Book
from tools.site.settings import ROOT, place

COPIED = tuple(
    f"docs/{name}.md"
    for name in "using your_table trust findings statements symbols deployment".split()
)
DOCUMENTS = {
    "docs/index.md": "index",
    "docs/tables.md": "results/index",
    "README.md": "index",
    "docs/glossary.md": "glossary",
    "docs/made.md": "made",
} | {path: Path(path).stem for path in COPIED} | {
    "data/README.md": "data",
    "CONTRIBUTING.md": "contributing",
    claims.CLAIMS: claims.PAGE,
    "fedclust/command/__init__.py": "api/command",  # its docstring says how it is used
}  # fmt: skip

UNREAD = (  # what the theme brings and no page reads
    "**/*.map", "_static/locales/*", "_static/vendor/fontawesome/webfonts/fa-[br]*",
)  # fmt: skip


def stage(source: Path, files: dict[str, Any] | None) -> None:
    """Write the sources of all pages into the folder `source`; with `files`, chapters run."""
    notebooks = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    where = DOCUMENTS | tables.places(ROOT)
    where |= {f"notebooks/{path.name}": f"chapters/{path.stem}" for path in notebooks}
    book = Book(ROOT, source, source / "extra", where)

    for path in notebooks:
        chapters.stage(book, path, fedclust_helpers.__version__, place(), files)
    listed = tables.all_tables(ROOT / "data" / "results")
    for paper in tables.papers(ROOT):
        tables.page(book, paper, {table.name: table for table in listed})
    tables.index(book)
    tables.made(book, listed)
    claims.claims(book, notebooks)
    pages.glossary(book, notebooks)
    for name in (*COPIED, "data/README.md", "CONTRIBUTING.md"):
        pages.copy(book, name)
    pages.bibliography(book, notebooks)
    if files is not None:
        pages.write(book, "licences", running.licences(files["pyodide"]))
    pages.contents(book, notebooks, licences=files is not None)
    api.stage(source)
    book.copy("fedclust/estimators/statement.schema.json")
    mathjax.unpack(source / "static" / "mathjax")


def arguments_of(found: re.Match[str]) -> str:
    """Those of a long signature as lines: Sphinx makes a list of definitions without terms."""
    lines = re.sub(r"<(/?)dd>", r"<\1span>", found[1])
    return f'<span class="sig-arguments">\n{lines}</span>'


def main(arguments: list[str] | None = None) -> int:
    """Build the book."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    source = out.with_name(f"{out.name}-source")
    start = time.perf_counter()
    for folder in (source, out):
        shutil.rmtree(folder, ignore_errors=True)
    stage(source, running.stage(out / running.FOLDER))
    staged = time.perf_counter() - start
    command = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(ROOT / "docs")]
    command += ["-D", f"html_extra_path={source / 'extra'}", "-d", str(source / "doctrees")]
    command += ["-D", f"html_static_path={ROOT / 'docs' / '_static'},{source / 'static'}"]
    if code := sphinx([*command, str(source), str(out)]):
        return int(code)
    for pattern in UNREAD:
        for path in out.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in out.glob("api/*.html"):  # a third of each is marks that no style looks at
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'<span class="(?:pre|w)">([^<]*)</span>', r"\1", text)
        text = re.sub(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>", arguments_of, text)
        path.write_text(
            re.sub(r'<span class="p">([^<\w]{1,3})</span>', r"\1", text), encoding="utf-8"
        )
    icons = out / "_static/scripts/fontawesome.js"  # draws again what a font draws
    icons.write_text("// see vendor/fontawesome\n", encoding="utf-8")
    seconds = time.perf_counter() - start
    files = [path for path in out.rglob("*") if path.is_file()]
    n_pages = sum(path.suffix == ".html" for path in files)
    sizes = {True: 0.0, False: 0.0}
    for path in files:
        sizes[running.FOLDER == path.relative_to(out).parts[0]] += path.stat().st_size / 1e6
    print(f"{n_pages} pages, {sizes[False]:.1f} MB, and {sizes[True]:.1f} MB to run chapters; "
          f"{seconds:.0f} s ({staged:.0f} s of it for the sources)")  # fmt: skip
    name = out.relative_to(ROOT) if out.is_relative_to(ROOT) else Path(out.name)
    print(f"open {name}/index.html")
    if sizes[True]:
        print(f"to run chapters in it: python -m http.server -d {name}, then http://localhost:8000")
    return 0


if __name__ == "__main__":
    sys.exit(main())
