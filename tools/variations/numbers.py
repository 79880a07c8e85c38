"""Which numbers of a lesson's prose does a run not print?

A number in a sentence is computed beside it (it stands in a cell of code), printed (in an output,
or in the description of a figure), or cited: a paragraph that links a table of data/results may
name its numbers. Looked at are numbers with a decimal point, a percent sign, or two digits and
more. Numbers of sections, equations and so on, years, formulas and code are left out, and so is a
paragraph that begins with **Predict**: its numbers are for the reader to guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.minutes import sections

CITED = re.compile(r"\]\([^)]*data/results/\w+\.csv\)")
NO_PROSE = re.compile(
    r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<[^>]+>|https?://\S+"
    r"|\b(?i:sections?|eq\.|equations?|theorems?|tables?|figures?|lines?|algorithms?|lemmas?"
    r"|notebooks?) [\d.,]+(?:(?:,| and| to) \d[\d.]*)*|\b0[0-6]\b"
    r"|\b(?:19|20)\d\d\b|\bcommit \w+|\b10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"
)
NUMBER = re.compile(
    r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?: ?%)?(?![\w]|\.\d)"
)


def values_of(text: str) -> Iterator[tuple[str, float, int]]:
    """(as written, value, digits after the point) of each number; a percentage is a share."""
    for match in NUMBER.finditer(text):
        word = match[0].replace(",", "").replace(" ", "")
        percent, plain = word.endswith("%"), word.rstrip("%")
        digits = len(plain.partition("e")[0].partition(".")[2]) - int(plain.partition("e")[2] or 0)
        yield match[0], float(plain) / (100 if percent else 1), digits + 2 * percent


def shown(notebook: Any) -> list[float]:
    """Every number that a reader finds in code and outputs, in descriptions of figures too."""
    texts = []
    for cell in (c for c in notebook.cells if c.cell_type == "code"):
        texts.append(cell.source.replace("_", ""))
        for output in cell.get("outputs", []):
            texts += [str(output.get("text", "")), *map(str, output.get("data", {}).values())][:8]
            texts.append(str(output.get("metadata", {}).get("image/png", {}).get("alt", "")))
    return [value for text in texts if len(text) < 50_000 for _, value, _ in values_of(text)]


def unprinted(notebook: Any) -> list[str]:
    """Numbers of the numbered sections' prose that this run shows nowhere, with their sentences."""
    known, found = shown(notebook), []
    for heading, cells in sections(notebook.cells):
        if not re.match(r"\d+\. ", heading):
            continue
        for cell in (c for c in cells if c.cell_type == "markdown"):
            for paragraph in re.split(r"\n\s*\n", cell.source):
                if CITED.search(paragraph) or paragraph.startswith("**Predict"):
                    continue
                text = NO_PROSE.sub(" ", " ".join(paragraph.split()))
                for word, value, digits in values_of(text):
                    if digits < 1 and abs(value) < 10:
                        continue
                    half = 0.5000001 * 10.0**-digits
                    near = (x for x in known if abs(x - value) <= half or x == 100 * value)
                    if next(near, None) is None:
                        at = text.index(word)
                        around = text[max(at - 40, 0) : at + 25]
                        found.append(f"{heading.split('.')[0]}: {word} in {around!r}")
    return found
