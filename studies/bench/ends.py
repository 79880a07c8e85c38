"""What stands at the end of every lesson: what is claimed beside our numbers."""

from __future__ import annotations

import csv
from html import escape

from IPython.display import Markdown

from fedclust_helpers._validation import check_choice
from studies.bench.grading import VERDICTS
from studies.bench.results import RESULTS

MOST_ROWS = 12
SHORT_NOTE = 200
"""Characters of a note that is printed; longer ones stand on the page of all claims."""
LEGEND = (
    "In italics: the words of the source, then how we measured and where that differs from the"
    " source. (code) is its released code, (ours) a claim of this project. "
    + "; ".join(f"*{verdict}*: {meaning}" for verdict, meaning in VERDICTS.items())
    + ". A claim that is refuted is a *misprint*, a *reading* (a text taken literally), a matter of"
    " *substance*, or another *constant*."
)


def small(text: str) -> str:
    """A line of small italics below what stands in a cell; nothing if there is no text."""
    return f"<br><small><i>{escape(text, quote=False)}</i></small>" if text else ""


def end_table(*ids: str) -> Markdown:
    """What is said and what we found, one row for each of at most twelve claims.

    The graded statement with its place, and below it the words of the source; our number, and below
    it the relation of neighbours, units, data, scale, how our design differs, and a short note; the
    verdict with its kind. The legend is the same in all lessons.

    Raises
    ------
    ValueError
        If there are more ids than that, or there is no such claim.
    """
    if not 0 < len(ids) <= MOST_ROWS:
        raise ValueError(f"ids must be 1 to {MOST_ROWS} claims, got {len(ids)}")
    with (RESULTS / "claims.csv").open(encoding="utf-8", newline="") as stream:
        page = {row["id"]: row for row in csv.DictReader(stream)}
    lines = ["| what is claimed, and where | what we found | verdict |", "|---|---|---|"]
    for name in ids:
        row = page[check_choice(name, "ids", tuple(page))]
        said = row["statement"] if row["by"] == "paper" else f"({row['by']}) {row['statement']}"
        words = f"\u201c{row['words']}\u201d" if row["words"] else ""
        neighbours = f"neighbours: {row['relation']}" if row["relation"] else ""
        differs = f"differs: {row['design']}" if row["design"] else ""
        measured = "; ".join(filter(None, (neighbours, row["setup"], differs)))
        note = row["note"] if len(row["note"]) <= SHORT_NOTE else ""
        verdict = row["verdict"] + f" ({row['kind']})" * bool(row["kind"])
        found = row["found"] + small(measured) + small(note)
        cells = (f"{said} [{row['where']}]{small(words)}", found, verdict)
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return Markdown("\n".join([*lines, "", LEGEND]))
