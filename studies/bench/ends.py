"""What stands at the end of every lesson: the paper's words beside our numbers."""

from __future__ import annotations

import re

from IPython.display import Markdown

from fedclust_helpers._validation import check_choice
from studies.bench.results import load_results

MOST_ROWS = 10
KINDS = re.compile(r"(Misprint|Reading|Two readings|Substance|Constant)\b")
"""How the note of a claim begins whose words and numbers differ."""


def end_table(*ids: str) -> Markdown:
    """What is said and what we found, one row for each of at most ten claims.

    The words of the paper (of a claim without a quotation: ours), the place, our number, and the
    verdict with its kind where the two differ: misprint, reading, substance or constant.

    Raises
    ------
    ValueError
        If there are more ids than that, or there is no such claim.
    """
    if not 0 < len(ids) <= MOST_ROWS:
        raise ValueError(f"ids must be 1 to {MOST_ROWS} claims, got {len(ids)}")
    page = load_results("claims").fillna("").set_index("id")
    page = page.reindex(columns=[*page.columns.union(["words", "kind"])], fill_value="")
    lines = ["| id | what is said | where | what we found | verdict |", "|---|---|---|---|---|"]
    for name in ids:
        check_choice(name, "ids", tuple(page.index))
        row = {column: str(page.at[name, column]) for column in page.columns}
        begins = KINDS.match(row["note"])
        kind = row["kind"] or (begins[1].lower() if begins else "")
        words = f'"{row["words"]}"' if row["words"] else row["statement"]
        said = words if row["by"] == "paper" else f"({row['by']}) {words}"
        verdict = row["verdict"] + f" ({kind})" * bool(kind)
        cells = (name, said, row["where"], row["found"], verdict)
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return Markdown("\n".join(lines))
