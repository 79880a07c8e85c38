"""One claim, one row: what a paper says, how it is checked, and the verdict on it.

The rows are data, ``studies/PAPER/claims.toml``. A row's `check` names a function that computes
numbers, live or from committed tables; its `rule`, an expression of these numbers, turns them into
one of the words of `VERDICTS`; its `shows` prints them. Everything else is made from the rows: the
notebooks' tables of claims, ``data/results/claims.csv`` and ``claims.md``, the verdicts on the
pages of results, and the tests.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedclust_helpers._lazy import pd

VERDICTS = {
    "reproduced": "our numbers agree with the claim wherever it speaks",
    "in shape": "they agree in most places, or with another constant, or only loosely",
    "refuted": "arithmetic, the paper's own design or, for a claim of ours, our runs say otherwise",
    "not seen in our design": "our runs say otherwise, but differ from the paper's as named",
    "undecided": "ties, or a text with two readings that differ",
    "not possible here": "data, an algorithm or a scale that we do not have",
}
COLUMNS = (
    "paper id by where statement words relation setup found verdict kind design note tables".split()
)
KINDS = ("misprint", "reading", "substance", "constant")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a paper, of its released code, or of ours.

    Parameters
    ----------
    id, where, statement : str
        Name that docstrings cite; section, theorem or table of the paper; the claim in our words.
    check : callable
        Numbers by name. It gets the committed `tables`, or nothing if there are none. None: the
        claim cannot be checked here, and `shows` says why.
    given : mapping
        Keyword arguments of the check.
    shows : str
        A format string of these numbers.
    rule : str
        An expression of these numbers: True (reproduced), False (refuted, or not seen in our
        design), or a verdict. "a > 1 or (a > 0 and 'in shape')" has three.
    tables : sequence of str
        Names of the committed tables that the check reads.
    setup : str
        Units, data and scale of our numbers: "cost over Lloyd's; S1, 5,000 rows; 100 runs".
    design : str
        In what our design differs from the paper's; empty for arithmetic, for the same design, and
        for a claim of ours.
    note : str
        What is true instead, or which reading the package takes.
    words : str
        The paper's words, quoted; formulas are typed as text, and " ... " leaves something out.
    relation : str
        Which data sets are neighbours where the claim is about privacy: "add/remove",
        "replace-one", or "any". Empty for other claims.
    kind : str
        Of a refuted claim of a paper or its code, one of `KINDS`: a slip of the pen, a text taken
        literally, something that matters, or a constant.
    by : str
        Who says so: "paper", "code" (the paper's released code), or "ours".
    """

    id: str
    where: str
    statement: str
    shows: str
    rule: str
    check: Callable[..., dict[str, Any]] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[str] = ()
    design: str = ""
    note: str = ""
    words: str = ""
    relation: str = ""
    setup: str = ""
    kind: str = ""
    by: str = "paper"


def load_claims(paper: str) -> list[Claim]:
    """The rows of ``claims.toml`` of a paper; "reading.gain" is a function beside that file."""
    path = Path(__file__).resolve().parents[1] / paper / "claims.toml"
    claims = []
    for row in tomllib.loads(path.read_text("utf-8"))["claim"]:
        if "check" in row:
            module, _, name = row["check"].rpartition(".")
            row["check"] = getattr(import_module(f"studies.{paper}.{module}"), name)
        claims.append(Claim(**row))
    return claims


@cache
def _live(check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return check()


def numbers_of(claim: Claim, load: Callable[[str], pd.DataFrame]) -> dict[str, Any]:
    """What the check of a claim computes. Live checks that several claims share run once."""
    if claim.check is None:
        return {}
    if claim.tables or claim.given:
        return claim.check(*map(load, claim.tables), **claim.given)
    return _live(claim.check)


def verdict_of(claim: Claim, numbers: Mapping[str, Any]) -> str:
    """The word of `VERDICTS` that the rule of a claim gives for these numbers.

    Raises
    ------
    ValueError
        If the rule gives a word that is no verdict, or "refuted" although our design differs, or if
        a claim of ours has a design.
    """
    held = eval(claim.rule, RULES | dict(numbers))  # our own rows, no input of others
    fails = "not seen in our design" if claim.design else "refuted"
    verdict = held if isinstance(held, str) else "reproduced" if held else fails
    differs = claim.design and (verdict == "refuted" or claim.by == "ours")
    if verdict not in VERDICTS or differs:
        raise ValueError(f"claim {claim.id}: {verdict!r} is no verdict for this design")
    return verdict


def evaluate(claim: Claim, load: Callable[[str], pd.DataFrame], paper: str = "") -> dict[str, str]:
    """One row of `COLUMNS`. ValueError if a refuted claim of others has no kind, or another one."""
    numbers = numbers_of(claim, load)
    verdict = verdict_of(claim, numbers)
    if claim.by != "ours" and (verdict == "refuted") != (claim.kind in KINDS):
        raise ValueError(f"claim {claim.id}: {verdict!r} does not go with the kind {claim.kind!r}")
    cells = (
        paper, claim.id, claim.by, claim.where, claim.statement, claim.words, claim.relation,
        claim.setup, claim.shows.format(**numbers), verdict, claim.kind, claim.design,
        claim.note, " ".join(claim.tables),
    )  # fmt: skip
    return dict(zip(COLUMNS, cells, strict=True))


def grade(
    claims: Iterable[Claim], load: Callable[[str], pd.DataFrame], paper: str = ""
) -> pd.DataFrame:
    """A table with `COLUMNS`, one row for each claim."""
    return pd.DataFrame([evaluate(claim, cache(load), paper) for claim in claims], columns=COLUMNS)


def source_of(check: Callable[..., Any]) -> tuple[str, str]:
    """The file of a check inside of the package's repository, and its name there."""
    module = check.__module__
    return f"{module.replace('.', '/')}.py", f"{module.rpartition('.')[2]}.{check.__name__}"


def to_markdown(
    graded: pd.DataFrame, *, checks: Mapping[str, Callable[..., Any] | None] | None = None
) -> str:
    """A markdown table of graded claims; ids are anchors.

    With `checks` by id, a row names and links its check and the tables that it reads.
    """
    lines = ["| id | where | claim | what we find | verdict |", "|---|---|---|---|---|"]
    for row in graded[COLUMNS].to_numpy(dtype=str).tolist():
        (
            _,
            id,
            by,
            where,
            said,
            words,
            relation,
            setup,
            found,
            verdict,
            kind,
            design,
            note,
            tables,
        ) = row
        name = f'<a id="{id}"></a>{id}'
        said = said if by == "paper" else f"({by}) {said}"
        said += f": “{words}”" if words else ""
        said += f" (neighbours: {relation})" if relation else ""
        note = re.sub(r"\b([Ss]ee) ([A-Z][\w.]*\w)", r"\1 [\2](#\2)", note)
        found = " ".join(f"{part}." for part in (found, setup) if part)
        found = " ".join(filter(None, (found, note)))
        if checks and verdict != "not possible here" and (check := checks[id]):
            path, function = source_of(check)
            read = ", ".join(f"[{table}]({table}.csv)" for table in tables.split())
            found += f" Check: [{function}](../../{path}){f' on {read}' if read else ''}."
        told = ", ".join(filter(None, (kind, design)))
        verdict = f"**{verdict}**" + (f" ({told})" if told else "")
        cells = (cell.replace("|", r"\|") for cell in (name, where, said, found, verdict))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# --- rules ----------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """In how many cells a claim is decided for, decided against, and neither."""

    better: int
    worse: int
    tie: int

    def __str__(self) -> str:
        total = sum(self)
        return f"better in {self.better}, worse in {self.worse}, tie in {self.tie} of {total} cells"

    def __add__(self, other: Any) -> Cells:
        return Cells(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def verdict(self) -> bool | str:
        """Of "better in all cells": no cell that ties is for it, and 5 % against it refute it."""
        if self.worse > 0.05 * sum(self):
            return False
        if self.better == sum(self):
            return True
        return "in shape" if self.better > sum(self) / 2 else "undecided"


def decided(difference: Any, half_width: Any) -> Cells:
    """Cells by the interval of a gain: decided where it leaves out 0. nan is left out."""
    gain, half = np.broadcast_arrays(np.asarray(difference, float), np.nan_to_num(half_width))
    gain, half = gain[~np.isnan(gain)], half[~np.isnan(gain)]
    better, worse = int((gain > half).sum()), int((gain < -half).sum())
    return Cells(better, worse, len(gain) - better - worse)


def lower(
    frame: pd.DataFrame, first: str, second: str, *, keys: Sequence[str], value: str, by: str
) -> Cells:
    """Where `first` has the lower mean: cells are `keys`, methods are in the column `by`.

    Decided where two means differ by more than the root of the sum of their squared `ci95`.
    """
    a, b = (frame[frame[by] == name].set_index(list(keys)) for name in (first, second))
    a, b = a.align(b, join="inner", axis=0)
    half = np.hypot(a["ci95"].fillna(0.0), b["ci95"].fillna(0.0))
    return decided(b[value] - a[value], half)


def mostly(holds: Any) -> bool | str:
    """A claim about many numbers: all, more than half ("in shape"), or not."""
    share = np.mean([bool(held) for held in holds])
    return bool(share == 1) or (bool(share > 0.5) and "in shape")


def bounded(pairs: Iterable[tuple[float, float]]) -> bool | str:
    """Of probabilities and bounds on them: none exceeded; "in shape" if no bound is below 1."""
    pairs = list(pairs)
    return all(p <= b for p, b in pairs) and (any(b < 1 for _, b in pairs) or "in shape")


def several(values: Any, form: str = ".3g") -> str:
    """Numbers with commas; 1e+06 as 1e6."""
    return ", ".join(f"{v:{form}}".replace("e+0", "e") for v in values)


def at(series: pd.Series, form: str = ".3g") -> str:
    """Numbers with their index: 0.34 at 0.25, 0.03 at 0.5."""
    return ", ".join(f"{v:{form}} at {i:g}" for i, v in series.items())


RULES = {"math": math, "np": np, "mostly": mostly, "bounded": bounded}
"""What rules may use beside their numbers and what is built in."""
