"""The page of all claims, made from the rows of each paper and committed under data/results.

``python -m studies --claims`` writes ``claims.csv`` and ``claims.md``.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedclust_helpers._validation import check_choice
from studies.bench import grading
from studies.bench.results import RESULTS, load_results

PAPERS = {
    "fastlloyd": "FastLloyd",
    "feddp_kmeans": "FedDP-KMeans",
    "ldp_kmeans": "Locally private k-means",
    "rr_cluster": "RR-Cluster",
    "beyond": "Beyond the papers",
    "side_by_side": "Side by side",
}
"""Folder of a paper -> its name."""
KINDS = ("all", "theory", "tables")


def claims(paper: str, kind: str = "all") -> pd.DataFrame:
    """The committed claims of a paper, with their verdicts: columns `grading.COLUMNS`.

    Parameters
    ----------
    paper : str
        "fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster", "beyond" or "side_by_side".
    kind : str
        "all", those checked live ("theory"), or those about figures and `tables`.
    """
    check_choice(paper, "paper", tuple(PAPERS))
    page = load_results("claims").fillna("")
    page = page[page["paper"] == paper]
    if check_choice(kind, "kind", KINDS) == "all":
        return page
    of_tables = page["tables"].ne("") | page["verdict"].eq("not possible here")
    return page[of_tables == (kind == "tables")]


def grade(*ids: str) -> pd.DataFrame:
    """Claims checked now, by their ids (all of them by default): about ten seconds for all.

    Raises
    ------
    ValueError
        If there is no such claim.
    """
    rows = {paper: grading.load_claims(paper) for paper in PAPERS}
    known = {claim.id for claims in rows.values() for claim in claims}
    for name in ids:
        check_choice(name, "id", tuple(sorted(known)))
    parts = [
        grading.grade([c for c in claims if not ids or c.id in ids], load_results, paper)
        for paper, claims in rows.items()
    ]
    return pd.concat(parts, ignore_index=True)


def moved_verdicts() -> list[str]:
    """ "id: committed, now" for each claim whose verdict is another one now."""
    then, now = (frame.set_index("id")["verdict"] for frame in (load_results("claims"), grade()))
    return [f"{name}: {then[name]}, {now[name]}" for name in now.index if then[name] != now[name]]


def counts_of(rows: pd.DataFrame) -> str:
    """ "3 reproduced, 1 refuted", in the order of the verdicts."""
    counts = rows["verdict"].value_counts()
    return ", ".join(f"{counts[word]} {word}" for word in grading.VERDICTS if word in counts)


def to_page(graded: pd.DataFrame) -> str:
    """The readable page, with an anchor for each id."""
    words = "\n".join(f"- **{word}**: {meaning}." for word, meaning in grading.VERDICTS.items())
    parts = [
        "# All claims\n\nEach row is one claim of a paper, of its released code (code) or of ours,"
        " with the number that we find.\nDocstrings and notebooks cite the ids. Letters are the"
        " papers' own:"
        " the [table of symbols](../../docs/symbols.md)\nsays what we call them, the"
        " [glossary](../../docs/glossary.md) explains words. The rows are in\n"
        "`studies/*/claims.toml`; this page is made from them by `python -m"
        " studies --claims`, and a test compares the two. Verdicts:\n\n" + words,
        'A claim that one thing is better than another in many cells (its row counts "better",'
        ' "worse", "tie") is\n*reproduced* if every cell is decided for it, *in shape* if'
        " more than half are and at most 5 % against it, fails if\nmore than 5 % are against"
        " it, and is else *undecided*; a cell is decided if its 95 % interval leaves out 0,\n"
        "and a tie is no evidence. Any other claim with several numbers is *reproduced* if all"
        " of them hold, *in shape*\nif more than half do, and else fails. Other rules"
        " stand in brackets after the claim where the sentence does not say them, and as\nan"
        " expression in `claims.toml`. They are ours, and were written after a part of the numbers"
        " had been seen: judge by the\nnumbers. Intervals are not corrected for the number of"
        " cells. A row"
        " ends with the function that computes its\nnumbers and the tables that it reads.",
    ]
    for paper, name in PAPERS.items():
        part = graded[graded["paper"] == paper]
        ours = part["by"] == "ours"
        told = {"of the paper and its code": part[~ours], "of ours": part[ours]}
        counted = "; ".join(
            f"{len(rows)} {whose}, {counts_of(rows)}" for whose, rows in told.items() if len(rows)
        )
        notes = f"../../studies/{paper}/notes.md"
        parts.append(f"## {name}\n\nClaims: {counted}. [Notes on the tables]({notes}).")
        checks = {claim.id: claim.check for claim in grading.load_claims(paper)}
        parts.append(grading.to_markdown(part, checks=checks))
    return "\n\n".join(parts) + "\n"


def write_claims(folder: Path | None = None) -> list[Path]:
    """Check all claims, and write the table and the page; returns the files written."""
    folder = RESULTS if folder is None else Path(folder)
    graded = grade()
    texts = {"claims.csv": graded.to_csv(index=False, lineterminator="\n")}
    texts["claims.md"] = to_page(graded)
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8", newline="\n")
    return [folder / name for name in texts]
