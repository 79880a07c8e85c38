"""The papers' words: every claim of a paper quotes it, and the quotations stand in its text.

The texts are not part of the repository. They are looked for in the folder ``papers`` beside the
folder that FEDCLUST_DATA_DIR names: ``fastlloyd.*``, ``feddp-kmeans.*`` and so on.
"""

import os
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from studies import page
from studies.bench import grading
from studies.paper_data.files import ENVIRONMENT_VARIABLE

CLAIMS = {
    claim.id: (paper, claim)
    for paper in page.PAPERS for claim in grading.load_claims(paper) if claim.by == "paper"
}  # fmt: skip
PRIVACY = re.compile(r"(?i)\)-(?:l?dp|(?:locally )?differentially|private)\b|[gr]dp\b|sensitivity")
GREEK = r"""(?x) (?<![a-z]) (?:alpha|beta|gamma|delta|(?:var)?epsilon|eta|theta|lambda|mu|nu|pi|rho
    |sigma|tau) (?![a-z])"""
LATEX = (
    "frac|left|right|big|bigl|bigr|biggl|biggr|displaystyle|limits|mathsf|mathcal|mathbb|mathrm"
    "|mathbf|text|operatorname|smash|widehat|hat|tilde|bar|bm|leq?|geq?|approx|cdot|times|sim|to"
    "|ldots|dots|cdots|propto|leftarrow|lVert|uparrow|quad|forall"
)
PRINTED = ("fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster")
RETYPED = set(
    "G2 G4 G5 G6 K1 K2 K3 K6 K7 K9 K11 K14 K15 K16 K.fig1.optimal K.g2.census1 K.lemma23"
    " L2 L3 L4 L6 L7 L8 L11 L17 L20 L.fig1.pads L.fig5.alpha"
    " R1 R2 R6 R7 R12 R.fig1.above R.fig2 R.table9.easy".split()
)
"""Rows whose formulas are compared word by word, as a text has them twice or in another order."""


def test_every_claim_of_a_paper_quotes_it() -> None:
    assert not [name for name, (_, claim) in CLAIMS.items() if not claim.words]
    for name, (_, claim) in CLAIMS.items():
        assert claim.relation in {"", "add/remove", "replace-one", "any"}, name
        if PRIVACY.search(claim.words):
            assert claim.relation, f"{name} is about privacy: which data sets are neighbours?"


def plain(text: str) -> str:
    """Without Greek letters that stand beside their name, and without typesetting of formulas."""
    text = re.sub(r"italic-\w|[\u0370-\u03ff]", "", unicodedata.normalize("NFKC", text))
    return re.sub(rf"\\(?:{LATEX})(?![A-Za-z])", " ", text).replace("\\ell", "l").lower()


def verbatim(piece: str) -> str:
    """Its letters and digits in order, a repeated letter once (some texts have "kk-means")."""
    return re.sub(r"([a-z])\1+", r"\1", re.sub(r"[^a-z0-9]", "", plain(piece)))


def retyped(piece: str) -> str:
    """Its words, numbers and letters in order, but Greek ones, with up to 60 signs in between."""
    text = re.sub(GREEK, "", re.sub(r"(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", " ", plain(piece)))
    return r"[^\0]{0,60}?".join(re.findall(r"[a-z]+|\d+", text))


@cache
def text_of(paper: str) -> str:
    """The text of a paper, or a skip where it is not on this machine."""
    folder = Path(os.environ.get(ENVIRONMENT_VARIABLE, "nowhere")).parent / "papers"
    found = sorted(folder.glob(f"{paper.replace('_', '-')}.*"))
    if not found:
        pytest.skip(f"no text of {paper} on this machine (papers beside {ENVIRONMENT_VARIABLE})")
    return plain(found[0].read_text("utf-8"))


def stands_in(words: str, text: str, pattern: Callable[[str], str]) -> bool:
    """Whether all pieces of a quotation, cut at " ... ", stand in a text, one after the other."""
    at = 0
    for piece in words.split(" ... "):
        found = re.compile(pattern(piece)).search(text, at)
        if not found:
            return False
        at = found.end()
    return True


@pytest.mark.parametrize("paper", PRINTED)
def test_the_words_stand_in_the_paper(paper: str) -> None:
    rows = {n: c for n, (p, c) in CLAIMS.items() if p == paper}
    text = text_of(paper)
    dense = verbatim(text)
    by_letters = {n for n, c in rows.items() if not stands_in(c.words, dense, verbatim)}
    assert by_letters == RETYPED & set(rows), "quoted wrongly, or listed without need"
    assert not [n for n in by_letters if not stands_in(rows[n].words, text, retyped)]
    assert not stands_in("the moon is made of k = 5 cheeses", text, retyped)
