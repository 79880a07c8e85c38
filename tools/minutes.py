"""How long a lesson takes: words / 180 + visible lines of code / 3, in minutes.

    python tools/minutes.py                 every notebooks/NN_*.py
    python tools/minutes.py 01_fastlloyd    the ones whose name contains this

Counted is what stands between the title and the end of the last numbered section. Words: those of
the Markdown cells (of a link its text, of a table its entries). Lines: code that is not blank,
settings and imports too, without the folded cells (tagged `hide-input`) that draw a picture. What
follows the last numbered section (exercises, the table of claims, questions) is not counted; the
title says how long the exercises take.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jupytext

ROOT = Path(__file__).resolve().parents[1]
BUDGET = {"00": 45, "01": 60, "02": 60, "03": 60, "04": 60, "05": 30, "06": 30}
"""The most minutes of each notebook."""
FOLDED = "hide-input"
STATED = re.compile(r"\b(\d+) minutes; exercises (\d+) more\b")


class Count(NamedTuple):
    """What one lesson asks of its reader."""

    words: int
    lines: int

    @property
    def minutes(self) -> float:
        return self.words / 180 + self.lines / 3


def words_of(markdown: str) -> int:
    """Words that are read: no addresses of links, no rules of tables, no tags."""
    text = re.sub(r"\]\([^)\s]*\)|<[^>]+>|<!--.*?-->", "] ", markdown, flags=re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def lines_of(source: str) -> int:
    return sum(bool(line.strip()) for line in source.splitlines())


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", ()))


def sections(cells: list[Any]) -> list[tuple[str, list[Any]]]:
    """(heading, cells) from the title on; a cell that holds several headings is cut at each."""
    found: list[tuple[str, list[Any]]] = [("", [])]
    for cell in cells:
        if cell.cell_type != "markdown":
            found[-1][1].append(cell)
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            if part.startswith("## "):
                found.append((part.splitlines()[0][3:], []))
            if part.strip():
                found[-1][1].append(type(cell)(cell, source=part))
    return found


def body(script: Path) -> list[tuple[str, list[Any]]]:
    """The sections that are counted: from the title to the last one with a number."""
    parts = sections(jupytext.read(script, fmt="py:percent").cells)
    numbered = [i for i, (heading, _) in enumerate(parts) if re.match(r"\d+\. ", heading)]
    return parts[: numbered[-1] + 1]


def count(script: Path) -> Count:
    """Words and visible lines of a lesson."""
    cells = [cell for _, part in body(script) for cell in part]
    words = sum(words_of(cell.source) for cell in cells if cell.cell_type == "markdown")
    code = [cell for cell in cells if cell.cell_type == "code" and FOLDED not in tags(cell)]
    return Count(words, sum(lines_of(cell.source) for cell in code))


def stated(script: Path) -> int | None:
    """The minutes that the title cell promises, None if it says none."""
    title = jupytext.read(script, fmt="py:percent").cells[0].source
    match = STATED.search(" ".join(title.split()))
    return int(match[1]) if match else None


def main(names: list[str]) -> int:
    for script in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py")):
        if names and not any(Path(name).stem in script.stem for name in names):
            continue
        found, said = count(script), stated(script)
        size = f"{found.words} words, {found.lines} lines, {found.minutes:.1f} minutes"
        most = BUDGET[script.stem[:2]]
        print(f"{script.stem}: {size}; the title says {said}, the budget is {most}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
