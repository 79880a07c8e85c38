"""The list of the papers' numbered statements: each has claims that exist, or a reason for none."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
ID = re.compile(r"\b[A-Z](?:\d+|\.\w[\w.]*\w)(?:\.\*)?(?![\w])")


def test_each_statement_has_claims_or_a_reason() -> None:
    text = (ROOT / "docs" / "statements.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!statement|---)(.*?) \| (.*?) \|$", text, re.M)
    ids = set(pd.read_csv(ROOT / "data" / "results" / "claims.csv")["id"])
    assert len(rows) > 80
    for said, told in rows:
        named = ID.findall(told)
        assert told.startswith("None: ") or named, f"{said}: no claim, and no reason"
        lost = [one for one in named if not any(fnmatchcase(name, one) for name in ids)]
        assert not lost, f"{said}: no such claims: {lost}"
