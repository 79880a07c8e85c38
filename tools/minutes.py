"""How long a lesson takes, as five readers spent their time.

    python tools/minutes.py                 every notebooks/NN_*.py
    python tools/minutes.py 01_fastlloyd    the ones whose name contains this

Counted is the way from the title to "Try it": words / 110, 12 seconds a visible line of code, 90
seconds a prediction, a minute a figure, words of printed output / 200. Words: those of the Markdown
cells (of a link its text, of a table its entries). Lines: code that is not blank, settings and
imports too, without the folded cells (tagged `hide-input`). Predictions: paragraphs that begin with
**Predict. Figures: images, living figures and widgets. Outputs are those of the notebook beside the
script: build it first. Cells tagged `your-turn` or `solution` and what follows "Try it" are not
counted; the title says how long they take.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parents[1]
BUDGET = {
    "00": 50,
    "01": 65,
    "02": 65,
    "03": 65,
    "04": 65,
    "05": 35,
    "06": 35,
}
"""The most minutes of each notebook."""
LIVING = "<!-- living:"
FOLDED, APART = "hide-input", {"your-turn", "solution"}
STATED = re.compile(
    r"\b(\d+) minutes to read, predict and run(?:; your turn (\d+) more)?; exercises (\d+) more\b"
)


class Count(NamedTuple):
    """What one lesson asks of its reader."""

    words: int
    lines: int
    predictions: int
    figures: int
    printed: int

    @property
    def minutes(self) -> float:
        told = self.words / 110 + self.printed / 200
        return told + self.lines / 5 + 1.5 * self.predictions + self.figures


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


def printed(script: Path) -> dict[str, tuple[int, int]]:
    """(images, words printed) by the source of a cell, in the notebook beside the script."""
    found: dict[str, tuple[int, int]] = {}
    stored = script.with_suffix(".ipynb")
    for cell in nbformat.read(stored, as_version=4).cells if stored.exists() else ():
        shown = cell.get("outputs", [])
        data = [output.get("data", {}) for output in shown]
        images = sum("image/png" in each for each in data)
        texts = [str(output.get("text", "")) for output in shown]
        for each in (each for each in data if "image/png" not in each):
            kinds = (k for k in ("text/html", "text/markdown", "text/plain") if k in each)
            text = str(each.get(next(kinds, ""), ""))
            texts.append(re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL))
        found[cell.source.strip()] = images, sum(map(words_of, texts))
    return found


def count(script: Path) -> Count:
    """What is read, run, guessed and looked at on the way to "Try it"."""
    cells = [cell for _, part in body(script) for cell in part if not APART & {*tags(cell)}]
    text = [cell.source for cell in cells if cell.cell_type == "markdown"]
    code = [cell for cell in cells if cell.cell_type == "code"]
    outputs = printed(script)
    shown = [outputs.get(cell.source.strip(), (0, 0)) for cell in code]
    return Count(
        words=sum(map(words_of, text)),
        lines=sum(lines_of(cell.source) for cell in code if FOLDED not in tags(cell)),
        predictions=len(re.findall(r"^\*\*Predict", "\n".join(text), flags=re.MULTILINE)),
        figures=sum(images for images, _ in shown)
        + sum("widget" in tags(cell) for cell in code)
        + "\n".join(text).count(LIVING),
        printed=sum(words for _, words in shown),
    )


def stated(script: Path) -> int | None:
    """The minutes that the title cell promises, None if it says none."""
    title = jupytext.read(script, fmt="py:percent").cells[0].source
    match = STATED.search(" ".join(title.split()))
    return int(match[1]) if match else None


def main(names: list[str]) -> int:
    for script in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py")):
        if names and not any(Path(name).stem in script.stem for name in names):
            continue
        found, said, most = count(script), stated(script), BUDGET[script.stem[:2]]
        each = ", ".join(f"{name} {n}" for name, n in found._asdict().items())
        print(f"{script.stem}: {found.minutes:.1f} minutes ({each})")
        print(f"    the title says {said}, the budget is {most}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
