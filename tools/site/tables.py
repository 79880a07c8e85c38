"""Result tables as pages: rows that sort and filter, and where they come from."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tools.site.links import SCHEME, Book

SHOWN = 20  # rows that stand in the page itself; the script shows the others
LISTED = "docs/tables.md"


class Table(NamedTuple):
    """One CSV file under data/results: its name, its sidecar (None without one), its notes."""

    name: str
    sidecar: Mapping[str, Any] | None
    made_by: str
    notes: str


def all_tables(folder: Path) -> list[Table]:
    """Every table, with the sidecar that names it and the README that explains it."""
    sidecars = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(folder.glob("*.json"))]
    of_file = {name: sidecar for sidecar in sidecars for name in sidecar.get("files", {})}
    readmes = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("README*.md"))}
    found = []
    for path in sorted(folder.glob("*.csv")):
        sidecar = of_file.get(path.name)
        word = re.compile(rf"`{path.stem}(?:\.csv)?`")
        own = f"README_{path.stem.split('_')[0]}.md"
        explained = [name for name, text in readmes.items() if word.search(text)]
        notes = own if own in explained else next(iter(explained), "")
        made_by = sidecar["table"] if sidecar else ""
        found.append(Table(path.stem, sidecar, made_by, notes))
    return found


def words(root: Path) -> dict[str, str]:
    """Name of each table -> what it holds, from the list of all tables."""
    text = (root / LISTED).read_text(encoding="utf-8")
    items = re.findall(r"^- \[(\w+)\]\([^)]*\):\s(.+?)(?=\n\n|\n- |\Z)", text, re.M | re.S)
    return {name: " ".join(said.split()) for name, said in items}


def cell_text(value: str) -> str:
    """A value as it is shown; long numbers with four digits."""
    if re.fullmatch(r"-?\d*\.\d{4,}(e-?\d+)?", value):
        return f"{float(value):.4g}"
    return value


def html_table(frame: pd.DataFrame, name: str) -> str:
    """A table of HTML: the first rows as they are, all of them for the script that sorts."""
    numeric = [is_numeric(frame[column]) for column in frame]
    head = "".join(
        f'<th scope="col"{" class=number" if n else ""}>{html.escape(c)}</th>'
        for c, n in zip(frame.columns, numeric, strict=True)
    )
    rows = [[cell_text(str(value)) for value in row] for row in frame.to_numpy()]
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if n else ''}>{html.escape(value)}</td>"
            for value, n in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in rows[:SHOWN]
    )
    data = json.dumps({"numeric": numeric, "rows": rows}, separators=(",", ":"))
    data = data.replace("</", "<\\/")
    return (
        f'<div class="results" data-name="{html.escape(name)}">\n'
        f'<div class="results-scroll" tabindex="0" role="region" aria-label="table {name}">\n'
        f'<table class="results-table"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>\n"
        f'<script type="application/json">{data}</script></div>'
    )


def is_numeric(column: pd.Series) -> bool:
    """Whether all entries that are not empty are numbers."""
    filled = column[column != ""]
    return len(filled) > 0 and bool(pd.to_numeric(filled, errors="coerce").notna().all())


def provenance(sidecar: Mapping[str, Any]) -> list[str]:
    """The sidecar in words."""
    versions = sidecar.get("versions", {})
    known = ", ".join(f"{k} {v}" for k, v in versions.items() if v != "not recorded")
    lines = [
        f"- made by `{sidecar['command']}`, design fingerprint "
        f"`{sidecar.get('design_fingerprint', 'not recorded')}`",
        f"- {sidecar.get('cells', 'not recorded')} measured cells, "
        f"{sidecar.get('cpu_seconds', 'not recorded')} CPU seconds",
        f"- seeds: {sidecar.get('seeds', 'not recorded')}",
        f"- versions: {known or 'not recorded'}",
        f"- commit: {commit(sidecar)} ([what the signs mean]({SCHEME}../made.html))",
    ]
    for part, own in sidecar.get("made_apart", {}).items():
        lines.append(
            f"- rows of `{part}` made apart by `{own['command']}`, {own['cpu_seconds']} CPU"
            f" seconds, version {own['versions']['fedclust_helpers']}, commit: {commit(own)}"
        )
    return lines


def page(book: Book, table: Table) -> None:
    """Write the page of one table."""
    path = f"data/results/{table.name}.csv"
    frame = pd.read_csv(book.root / path, dtype=str, keep_default_na=False)
    at = book.pages[path]
    csv = SCHEME + book.relative(book.copy(path), at)
    said = book.rewrite(words(book.root)[table.name], LISTED, at)
    lines = [f"# {table.name}", "", f"{said[0].upper()}{said[1:]}", ""]
    lines.append(f"{len(frame)} rows, {frame.shape[1]} columns. Download: [CSV]({csv}).")
    if table.notes:
        notes = f"data/results/{table.notes}"
        target = SCHEME + book.relative(book.address(notes, ""), at)
        lines.append(f"What the columns mean, and what the table says: [notes]({target}).")
    lines += ["", "```{raw} html", html_table(frame, table.name), "```", ""]
    if table.sidecar is not None:
        sidecar = f"data/results/{table.made_by}.json"
        lines += ["## How it was made", "", *provenance(table.sidecar)]
        whole = SCHEME + book.relative(book.copy(sidecar), at)
        lines += [f"- the whole record, design included: [{table.made_by}.json]({whole})", ""]
    write(book, at, "\n".join(lines))


def write(book: Book, page_name: str, text: str) -> None:
    """Write the source of a page."""
    target = book.source / f"{page_name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def index(book: Book, tables: list[Table]) -> None:
    """The page that lists all tables, under their papers, with their notes."""
    at, heading = book.pages[LISTED], ""
    text = (book.root / LISTED).read_text(encoding="utf-8")
    toc = ["", "```{toctree}", ":hidden:", ":maxdepth: 1", ""]
    for line in text.splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        for file in re.findall(r"\]\(\.\./(data/results/[\w.]+)\)", line):
            if file.endswith(".csv"):
                toc.append(f"/{book.pages[file]}")
            elif "/README" in file:
                toc.append(f"Notes: {heading} </{book.pages[file]}>")
    write(book, at, book.rewrite(text, LISTED, at) + "\n".join([*toc, "```"]))


def made(book: Book, tables: list[Table]) -> None:
    """How it was made: all records side by side, in the text of docs/made.md."""
    lines = [
        "| table | rows | command | cells | CPU seconds | design | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    sidecars = {t.made_by: t.sidecar for t in tables if t.sidecar is not None}
    for _, sidecar in sorted(sidecars.items()):
        names = [file.removesuffix(".csv") for file in sidecar["files"]]
        pages = [SCHEME + book.pages[f"data/results/{name}.csv"] + ".html" for name in names]
        links = (f"[{name}]({page})" for name, page in zip(names, pages, strict=True))
        command = sidecar["command"].replace("python -m fedclust_helpers.studies ", "")
        apart = list(sidecar.get("made_apart", {}).values())
        seconds = [str(part.get("cpu_seconds", "")) for part in (sidecar, *apart)]
        commits = [commit(part) for part in (sidecar, *apart)]
        row = [", ".join(links), " + ".join(map(str, sidecar["files"].values())), f"`{command}`"]
        row += [sidecar.get("cells", ""), " + ".join(seconds)]
        row += [sidecar.get("design_fingerprint", ""), ", ".join(commits)]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    text = (book.root / "docs" / "made.md").read_text(encoding="utf-8")
    write(book, "made", text.replace("<!-- records -->", "\n".join(lines)))


def commit(record: Mapping[str, Any]) -> str:
    """The commit of the code, in ten letters; else, in brackets, that which brought the numbers."""
    found = str(record.get("commit", "not recorded"))
    if re.match("[0-9a-f]{40}", found):
        return found[:10] + found[40:]
    brought = record.get("committed_in")
    return f"({brought[:10]})" if brought else found
