"""All pages: links that lead somewhere, and one spelling, the British one.

Slips of the pen are found by codespell (`make lint`).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jupytext
import pytest

from tools.site.links import blocks, targets

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(p for p in (ROOT / "data").rglob("*.md") if "checkpoint" not in p.name),  # Jupyter's
    *sorted(p for p in (ROOT / "studies").rglob("*.md") if "checkpoint" not in p.name),
    *sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py")),
]
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
AMERICAN = re.compile(
    r"\b(?:colors?|colored|coloring|neighbors?|neighboring|behaviors?|favors?|favou?rite(?<!ourite)"
    r"|centers?|centered|gray|labeled|labeling|modeled|modeling|canceled|canceling|traveled"
    r"|analyz(?:e|ed|es|ing)|catalog|defense|artifacts?"
    r"|(?:random|normal|optim|minim|maxim|initial|general|summar|organ|real|recogn|vector|regular"
    r"|local|character|standard|discret|emphas|util|categor|parameter|visual|memor|amort|final"
    r"|factor|quant|serial|penal|custom|formal)iz(?:e|ed|es|ing|ation|ations|er|ers))\b",
    re.IGNORECASE,
)


@cache
def text_of(path: Path) -> str:
    """The Markdown of a page (of a notebook: that of its cells)."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = jupytext.read(path, fmt="py:percent").cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def prose(text: str) -> str:
    """A text without code, formulas, addresses, and titles of other people's works."""
    text = "".join(part for part, is_prose in blocks(text) if is_prose)
    for pattern in (r"``.*?``|`[^`]*`", r"\]\([^)]*\)", r"\$[^$]*\$", r"https?://\S+", r"<[^>]+>"):
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    return re.sub(r"(?<!\*)\*[A-Z][^*]{15,}\*(?!\*)|\"[A-Z][^\"]{20,}\"", " ", text)


def heading_ids(text: str) -> set[str]:
    """Names of the places in a Markdown page, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@every_page
def test_relative_links_lead_to_a_place_and_prose_is_british(path: Path) -> None:
    text, broken = text_of(path), []
    for target in targets(text):
        name, _, fragment = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (path.parent / name).resolve() if name else path
        anchors = heading_ids(text_of(file)) if file.suffix == ".md" and file.exists() else set()
        if not file.exists() or (fragment and file.suffix == ".md" and fragment not in anchors):
            broken.append(target)
    assert not broken
    ours = prose(re.sub(r"“[^”\n]*”", "", text))  # papers are quoted as they are written
    ours = re.sub(r"'[^'\n]{20,}'", "", ours)
    assert not AMERICAN.findall(ours)
    plain = "".join(part for part, is_prose in blocks(text) if is_prose)
    swallowed = re.findall(r"^ {0,3}%.*$", plain, re.M)
    assert not swallowed, "a line that begins with % is a comment: move a word up"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The color of the centers is randomized.", ["color", "centers", "randomized"]),
        ("The colour of the centres is randomised; its size, too.", []),
        ("`center` and $color$, [x](center.md), ```color``` and *Analyze Gauss: a title*", []),
        ("```\ncenter\n```\nA neighbor, a favourite, and a favorite", ["neighbor", "favorite"]),
    ],
)
def test_words_and_places_are_found(text: str, found: list[str]) -> None:
    assert AMERICAN.findall(prose(text)) == found
    assert heading_ids('# One, two: 3\n<a id="F1"></a>') == {"one-two-3", "F1"}
    assert sum(len(targets(text_of(path))) for path in PAGES) > 200
