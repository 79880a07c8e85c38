"""Results: one page for each paper, with a figure, a picker of its tables, and its notes."""

from __future__ import annotations

import html
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from studies.side_by_side.figures import NAMES
from tools.site.links import SCHEME, Book

LISTED = "docs/tables.md"
RESULTS = "data/results"


class Table(NamedTuple):
    """One CSV file under data/results: its name, its sidecar (None without one), who made it."""

    name: str
    sidecar: Mapping[str, Any] | None
    made_by: str


class Paper(NamedTuple):
    """One section of docs/tables.md that has notes: heading, page, text, notes, table -> words."""

    heading: str
    page: str
    text: str
    notes: str
    tables: Mapping[str, str]


class Figure(NamedTuple):
    """Columns of a table as lines; one panel for each value of `panel`; no row is averaged."""

    table: str
    rows: str
    x: str
    y: str
    lines: list[str]
    panel: str
    words: str


TOLD = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
FIGURES = {heading: Figure(**row) for heading, row in TOLD["figures"].items()}
WORDS = NAMES | TOLD["words"]


def worded(name: Any) -> str:
    """A column or a method in words; the table itself has the raw name."""
    return WORDS.get(name, str(name).replace("_", " "))


def all_tables(folder: Path) -> list[Table]:
    """Every table, with the sidecar that names it."""
    sidecars = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(folder.glob("*.json"))]
    of_file = {name: sidecar for sidecar in sidecars for name in sidecar.get("files", {})}
    found = []
    for path in sorted(folder.glob("*.csv")):
        sidecar = of_file.get(path.name)
        found.append(Table(path.stem, sidecar, sidecar["table"] if sidecar else ""))
    return found


def papers(root: Path) -> list[Paper]:
    """The results pages, from the list of all tables."""
    text = (root / LISTED).read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        notes = re.search(r"\s*\[Notes[^\]]*\]\(\.\./([\w/.]+)\)\.?", body)
        items = re.findall(r"^- \[(\w+)\]\([^)]*\):\s(.+?)(?=\n\n|\n- |\Z)", body, re.M | re.S)
        if notes is not None:
            page = "results/" + re.sub(r"\W+", "_", heading.lower())
            intro = body[: notes.start()].strip()
            words = {name: " ".join(said.split()) for name, said in items}
            found.append(Paper(heading, page, intro, notes[1], words))
    return found


def places(root: Path) -> dict[str, str]:
    """The files that results pages show -> page and place on it."""
    where = {}
    for paper in papers(root):
        where[paper.notes] = paper.page
        where |= {f"{RESULTS}/{name}.csv": f"{paper.page}#{name}" for name in paper.tables}
    return where


def cell_text(value: str) -> str:
    """A value as it is shown; long numbers with four digits."""
    if re.fullmatch(r"-?\d*\.\d{4,}(e-?\d+)?", value):
        return f"{float(value):.4g}"
    return value


def is_numeric(column: pd.Series) -> bool:
    """Whether all entries that are not empty are numbers."""
    filled = column[column != ""]
    return len(filled) > 0 and bool(pd.to_numeric(filled, errors="coerce").notna().all())


def script(name: str, frame: pd.DataFrame, made: str) -> str:
    """A table as a script that a page loads when it is picked (a page on disk may not fetch)."""
    data = {
        "columns": list(frame.columns),
        "numeric": [is_numeric(frame[column]) for column in frame],
        "rows": "\n".join("\t".join(map(cell_text, row)) for row in frame.to_numpy()),
        "made": made,
    }
    return f"fedclust.table({json.dumps(name)}, {json.dumps(data, separators=(',', ':'))});\n"


def drawn(figure: Figure, frame: pd.DataFrame) -> dict[str, Any]:
    """The points of a figure: panels of lines; a line with no finite x is drawn level."""
    panels = []
    for panel, rows in frame.query(figure.rows).groupby(figure.panel, sort=False):
        lines = []
        for names, own in rows.groupby(figure.lines, sort=False):
            points = own[[figure.x, figure.y]].sort_values(figure.x).to_numpy().tolist()
            finite = [p for p in points if 0 < p[0] < float("inf")]
            level = [] if finite else points[:1]
            lines.append({"name": ", ".join(map(worded, names)), "points": finite}
                         | ({"level": level[0][1]} if level else {}))  # fmt: skip
        if sum(len(line["points"]) > 1 for line in lines) > 1:
            form = TOLD["panels"].get(figure.panel, "")
            panels.append({"name": form.format(panel) or worded(panel), "lines": lines})
    return {"x": worded(figure.x), "y": worded(figure.y), "panels": panels}


def provenance(sidecar: Mapping[str, Any]) -> str:
    """The sidecar in words."""
    versions = sidecar.get("versions", {})
    known = ", ".join(f"{k} {v}" for k, v in versions.items() if v != "not recorded")
    told = f"Made by {sidecar['command']}: {sidecar.get('cells', 'not recorded')} measured cells, "
    told += f"{sidecar.get('cpu_seconds', 'not recorded')} CPU seconds, commit {commit(sidecar)}; "
    told += f"seeds: {sidecar.get('seeds', 'not recorded')}; versions: {known or 'not recorded'}."
    for part, own in sidecar.get("made_apart", {}).items():
        told += f" Rows of {part} made apart by {own['command']}, {own['cpu_seconds']} CPU "
        told += f"seconds, version {own['versions']['fedclust_helpers']}, commit {commit(own)}."
    return told


def commit(record: Mapping[str, Any]) -> str:
    """The commit of the code, in ten letters; else, in brackets, that which brought the numbers."""
    found = str(record.get("commit", "not recorded"))
    if re.match("[0-9a-f]{40}", found):
        return found[:10] + found[40:]
    brought = record.get("committed_in")
    return f"({brought[:10]})" if brought else found


def page(book: Book, paper: Paper, tables: Mapping[str, Table]) -> None:
    """Write the page of one paper."""
    items = []
    for name, words in paper.tables.items():
        frame = pd.read_csv(book.root / RESULTS / f"{name}.csv", dtype=str, keep_default_na=False)
        sidecar = tables[name].sidecar
        csv = book.relative(book.copy(f"{RESULTS}/{name}.csv"), paper.page)
        files = [f'<a href="{csv}">{name}.csv</a>']
        if sidecar is not None:
            record = book.relative(book.copy(f"{RESULTS}/{tables[name].made_by}.json"), paper.page)
            files.append(f'<a href="{record}">record</a>')
        code = script(name, frame, provenance(sidecar) if sidecar is not None else "")
        (book.extra / f"files/{RESULTS}/{name}.js").write_text(code, encoding="utf-8")
        said = html.escape(words[0].upper() + words[1:])
        items.append(
            f'<li id="{name}" data-script="{csv.removesuffix("csv")}js">'
            f"<span>{said}</span> {len(frame)} rows: {', '.join(files)}</li>"
        )
    figure = FIGURES[paper.heading]
    points = drawn(figure, pd.read_csv(book.root / RESULTS / f"{figure.table}.csv"))
    stored = json.dumps(points, separators=(",", ":"))
    notes = (book.root / paper.notes).read_text(encoding="utf-8")
    notes = re.sub(r"^# .*\n", "## Notes\n", notes)
    lines = [
        f"# Results: {paper.heading}", "", book.rewrite(paper.text, LISTED, paper.page), "",
        "```{raw} html",
        f'<figure class="lv" data-living="lines"><div class="lv-stage"></div>'
        f'<p class="lv-take">{html.escape(figure.words)} From <a href="#{figure.table}">'
        f'{figure.table}</a>.</p><script type="application/json">{stored}</script></figure>',
        "```", "", "## Tables", "",
        "```{raw} html", '<div class="results"><ul>', *items, "</ul></div>", "```", "",
        book.rewrite(notes, paper.notes, paper.page),
    ]  # fmt: skip
    write(book, paper.page, "\n".join(lines))


def write(book: Book, page_name: str, text: str) -> None:
    """Write the source of a page."""
    target = book.source / f"{page_name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def index(book: Book) -> None:
    """The page that lists all tables, under their papers."""
    text = (book.root / LISTED).read_text(encoding="utf-8")
    toc = ["", "```{toctree}", ":hidden:", ":maxdepth: 1", ""]
    toc += [f"{paper.heading} </{paper.page}>" for paper in papers(book.root)]
    text = book.rewrite(text, LISTED, book.pages[LISTED])
    write(book, book.pages[LISTED], text + "\n".join([*toc, "```"]))


def made(book: Book, tables: list[Table]) -> None:
    """How it was made: all records side by side, in the text of docs/made.md."""
    lines = [
        "| table | rows | command | cells | CPU seconds | design | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    sidecars = {t.made_by: t.sidecar for t in tables if t.sidecar is not None}
    for _, sidecar in sorted(sidecars.items()):
        names = [file.removesuffix(".csv") for file in sidecar["files"]]
        links = (f"[{n}]({SCHEME}{book.address(f'{RESULTS}/{n}.csv', '')})" for n in names)
        command = sidecar["command"].replace("python -m studies ", "")
        apart = list(sidecar.get("made_apart", {}).values())
        seconds = [str(part.get("cpu_seconds", "")) for part in (sidecar, *apart)]
        commits = [commit(part) for part in (sidecar, *apart)]
        row = [", ".join(links), " + ".join(map(str, sidecar["files"].values())), f"`{command}`"]
        row += [sidecar.get("cells", ""), " + ".join(seconds)]
        row += [sidecar.get("design_fingerprint", ""), ", ".join(commits)]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    text = (book.root / "docs" / "made.md").read_text(encoding="utf-8")
    write(book, "made", text.replace("<!-- records -->", "\n".join(lines)))
