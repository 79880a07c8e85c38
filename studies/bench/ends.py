"""What stands at the end of every lesson: the paper's words beside our numbers."""

from __future__ import annotations

from IPython.display import Markdown

from fedclust_helpers._validation import check_choice
from studies.bench.grading import VERDICTS
from studies.bench.results import load_results

MOST_ROWS = 10


def end_table(*ids: str) -> Markdown:
    """What is said and what we found, one row for each of at most ten claims.

    The words of the paper (of a claim without a quotation: ours) with their place, our number, and
    the verdict with its kind where the two differ: misprint, reading, substance or constant. A line
    below says what the verdicts mean.

    Raises
    ------
    ValueError
        If there are more ids than that, or there is no such claim.
    """
    if not 0 < len(ids) <= MOST_ROWS:
        raise ValueError(f"ids must be 1 to {MOST_ROWS} claims, got {len(ids)}")
    page = load_results("claims").fillna("").set_index("id")
    lines, met = ["| what is said, and where | what we found | verdict |", "|---|---|---|"], []
    for name in ids:
        check_choice(name, "ids", tuple(page.index))
        row = {column: str(page.at[name, column]) for column in page.columns}
        words = f'"{row["words"]}"' if row["words"] else row["statement"]
        said = words if row["by"] == "paper" else f"({row['by']}) {words}"
        verdict = row["verdict"] + f" ({row['kind']})" * bool(row["kind"])
        cells = (f"{said} [{row['where']}]", row["found"], verdict)
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        met += [row["verdict"]] * (row["verdict"] not in met)
    legend = "; ".join(f"*{verdict}*: {VERDICTS[verdict]}" for verdict in met)
    return Markdown("\n".join([*lines, "", f"{legend}."]))
