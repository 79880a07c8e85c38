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
PAPERS = {
    "fastlloyd": "FastLloyd",
    "feddp": "FedDP-KMeans",
    "ldp": "Locally private k-means",
    "rr": "RR-Cluster",
    "better": "Beyond the papers",
    "rivals": "Side by side",
    "side": "Side by side",
    "trust": "Beyond the papers",
}
OTHERS = "About the project"
NOTES = "data/results/README"


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


def group(name: str) -> str:
    """Under which heading a table is listed."""
    return PAPERS.get(name.split("_")[0], OTHERS)


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
        f"- versions: {known or 'not recorded'}; commit: {sidecar.get('commit', 'not recorded')}",
    ]
    for part, own in sidecar.get("made_apart", {}).items():
        lines.append(
            f"- rows of `{part}` made apart by `{own['command']}`, {own['cpu_seconds']} CPU"
            f" seconds, version {own['versions']['fedclust_helpers']}, commit: {own['commit']}"
        )
    return lines


def page(book: Book, table: Table) -> None:
    """Write the page of one table."""
    path = f"data/results/{table.name}.csv"
    frame = pd.read_csv(book.root / path, dtype=str, keep_default_na=False)
    at = book.pages[path]
    csv = SCHEME + book.relative(book.copy(path), at)
    lines = [f"# {table.name}", ""]
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
    lines = ["# Result tables", ""]
    lines += [
        "Every number that took longer than a notebook may take. Each table has a page with all",
        "its rows (click a heading to sort, type to filter) and the record of how it was made.",
        "[How it was made](../made.md) has all records side by side.",
        "",
    ]
    rest = {name.rpartition("/")[2] for name in book.pages if name.startswith(NOTES)}
    for heading in [*dict.fromkeys(PAPERS.values()), OTHERS]:
        here = [table for table in tables if group(table.name) == heading]
        notes = sorted({t.notes for t in here} & rest if heading != OTHERS else rest)
        rest -= set(notes)
        if not here and not notes:
            continue
        lines += [f"## {heading}", ""]
        lines += ["```{toctree}", ":maxdepth: 1", ""]
        at = {file: book.pages[f"data/results/{file}"].rpartition("/")[2] for file in notes}
        lines += [f"Notes: design, columns, findings <{at[file]}>" for file in notes]
        lines += [table.name for table in here]
        lines += ["```", ""]
    write(book, "results/index", "\n".join(lines))


def made(book: Book, tables: list[Table]) -> None:
    """How it was made: all records side by side, in the text of docs/made.md."""
    lines = [
        "| table | rows | command | cells | CPU seconds | design | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    sidecars = {t.made_by: t.sidecar for t in tables if t.sidecar is not None}
    for name, sidecar in sorted(sidecars.items()):
        first = next(iter(sidecar["files"]))
        link = f"[{name}]({SCHEME}{book.pages[f'data/results/{first}']}.html)"
        command = sidecar["command"].replace("python -m fedclust_helpers.studies ", "")
        commit = str(sidecar.get("commit", "not recorded"))
        commit = re.sub("^([0-9a-f]{10})[0-9a-f]{30}", r"\1", commit)
        row = [link, sum(sidecar["files"].values()), f"`{command}`"]
        row += [sidecar.get(key, "") for key in ("cells", "cpu_seconds", "design_fingerprint")]
        lines.append("| " + " | ".join(map(str, [*row, commit])) + " |")
    text = (book.root / "docs" / "made.md").read_text(encoding="utf-8")
    write(book, "made", text.replace("<!-- records -->", "\n".join(lines)))
