"""Statements of (heading, text) pairs: how they print, and how Jupyter shows them."""

from __future__ import annotations

import html
from collections.abc import Sequence

Rows = Sequence[tuple[str, str]]


def as_text(rows: Rows) -> str:
    """One line for each pair, texts in a column."""
    width = max(len(heading) for heading, _ in rows)
    return "\n".join(f"{heading:<{width}}  {text}" for heading, text in rows)


def as_html(rows: Rows) -> str:
    """A table of the pairs."""
    cells = "".join(
        f"<tr><th style='text-align:left;white-space:nowrap'>{html.escape(heading)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for heading, text in rows
    )
    return f"<table>{cells}</table>"
