"""All claims on one page that filters; they link to the chapters that cite them."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import nbformat

from studies.bench.grading import KINDS
from tools.site.links import SCHEME, Book, markdown
from tools.site.tables import write

CLAIMS = "data/results/claims.md"
PAGE = "claims"
GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon eta theta lambda mu nu rho sigma tau phi omega".split(),
        "αβγδεηθλμνρστφω",
        strict=True,
    )
) | {"Delta": "Δ", "Theta": "Θ", "Omega": "Ω", "Sigma": "Σ", "sqrt": "√"}
SIGNS = {"&lt;=": "≤", "&gt;=": "≥", "+-": "±", " -&gt; ": " → "}


def sections(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first heading of level two, and the text under each of them."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return parts[0], dict(zip(parts[1::2], parts[2::2], strict=True))


def cited_in(notebooks: Iterable[Path]) -> dict[str, list[str]]:
    """Id of each claim -> the chapters that cite it."""
    found: dict[str, list[str]] = {}
    for path in notebooks:
        code = nbformat.read(path, as_version=4).cells
        tables = re.findall(r"\bend_table\(([^)]*)\)", "\n".join(c.source for c in code))
        ids = re.findall(r'"([\w.]+)"', " ".join(tables))
        for claim in dict.fromkeys(
            [*re.findall(r"claims\.md#([A-Z][\w.]*)", markdown(path)), *ids]
        ):
            found.setdefault(claim, []).append(path.stem)
    return found


def power(match: re.Match[str]) -> str:
    """A number like 2.5e-05 as 2.5 · 10⁻⁵."""
    number, exponent = match[1], str(int(match[2])).replace("-", "−")
    if float(number) == 0 or exponent == "0":
        return number
    return (f"{number}·" if float(number) != 1 else "") + f"10<sup>{exponent}</sup>"


def set_formulas(text: str) -> str:
    """Formulas typed as text, such as n^(1/2) <= sigma_C, as they are printed; HTML."""
    text = html.escape(text, quote=False)
    for sign, printed in SIGNS.items():
        text = text.replace(sign, printed)
    names = rf"(?<![A-Za-z])({'|'.join(GREEK)})(?![A-Za-z])"
    text = re.sub(names, lambda match: GREEK[match[1]], text)
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?\d+)\b", power, text)
    text = re.sub(r"(?<![A-Za-z])([A-Za-zα-ωΔ])_(\w{1,4})\b", r"\1<sub>\2</sub>", text)
    raised = r"\^\(([^()]*)\)|\^(-?\w[\w.]*\w|-?\w)"
    text = re.sub(raised, lambda m: f"<sup>{(m[1] or m[2]).replace('-', '−')}</sup>", text)
    text = re.sub(r"(?<=\d) x (?=\d)", " × ", text)
    text = re.sub(r"(?<![\w)])-(?=\d)", "−", text)
    letters = r"(?<![\w.&'’])([b-hj-zB-HJ-Z])(?![\w'’;])"  # not the words "a" and "I"
    return re.sub(letters, r"<i>\1</i>", text)


def inline(text: str, formulas: bool = True) -> str:
    """One cell of the Markdown table as HTML: code, links and formulas."""
    parts = re.split(r"(`[^`]+`|\[[^\]]+\]\([^()\s]+\))", text.replace("\\|", "|"))
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = set_formulas(part) if formulas else html.escape(part, quote=False)
        elif part.startswith("`"):
            parts[i] = f"<code>{html.escape(part.strip('`'))}</code>"
        else:
            words, target = part[1:-1].split("](")
            parts[i] = f'<a href="{target.removeprefix(SCHEME)}">{html.escape(words)}</a>'
    return "".join(parts).strip()


def card(cells: list[str], cited: Mapping[str, Iterable[str]]) -> str:
    """One claim: id, place, verdict, and the two sentences."""
    found = re.match(r'<a id="([^"]+)">', cells[0])
    verdict = re.match(r"\*\*(.+?)\*\*\s*(.*)", cells[4])
    assert found is not None and verdict is not None, cells
    kind = re.match(r"\((ours|code)\) ", cells[2])
    said = cells[2][kind.end() :] if kind else cells[2]
    name, word, of = found[1], verdict[1], kind[1] if kind else "paper"
    links = "".join(
        f' <a href="chapters/{stem}.html">chapter {stem[:2]}</a>' for stem in cited.get(name, ())
    )
    told = {"paper": "the paper", "code": "its code", "ours": "ours"}[of]
    slip = re.match(r"\(([a-z]+)\b", verdict[2])
    slipped = slip[1] if slip and slip[1] in KINDS else "none"
    return (
        f'<article class="claim" id="{name}" data-verdict="{word}" data-kind="{told}"'
        f' data-slip="{slipped}">'
        f'<p class="claim-head"><a href="#{name}">{name}</a>'
        f'<b class="verdict">{word}</b> <span>{inline(cells[1], False)} ({told}){links}</span></p>'
        f"<p>{inline(said)}</p><p class=claim-found>{inline(cells[3])} "
        f"{inline(verdict[2], False)}</p></article>"
    )


def totals(counts: Mapping[str, Counter[str]]) -> list[str]:
    """How many claims of each list have each verdict."""
    verdicts = sorted({v for row in counts.values() for v in row})
    lines = [f"| | {' | '.join(verdicts)} | all |", "|---|" + "--:|" * (len(verdicts) + 1)]
    for name, row in counts.items():
        lines.append(f"| {name} | {' | '.join(str(row[v]) for v in verdicts)} | {row.total()} |")
    return lines


def claims(book: Book, notebooks: Iterable[Path]) -> None:
    """Write the page."""
    cited = cited_in(notebooks)
    head, parts = sections((book.root / CLAIMS).read_text(encoding="utf-8"))
    intro, _, meaning = re.sub(r"^# .*\n", "", head).strip().partition("The rows are in")
    counts: dict[str, Counter[str]] = {}
    body = []
    for heading, text in parts.items():
        text = book.rewrite(text, CLAIMS, PAGE)
        rows = (re.split(r"(?<!\\)\|", s)[1:-1] for s in text.splitlines() if '<a id="' in s)
        cards = [card([cell.strip() for cell in row], cited) for row in rows]
        said = re.findall(r'data-verdict="([^"]+)" data-kind="([^"]+)"', "".join(cards))
        for name, ours in ((heading, False), (f"{heading}: ours", True)):
            if found := Counter(verdict for verdict, kind in said if (kind == "ours") == ours):
                counts[name] = found
        body += [f"## {heading}", "", "```{raw} html"]
        body += [f'<div class="claims" data-paper="{heading}">', *cards, "</div>", "```", ""]
    csv = SCHEME + book.copy("data/results/claims.csv")
    lines = ["# Claims", "", book.rewrite(intro, CLAIMS, PAGE) + f"[CSV]({csv}).", ""]
    lines += ["```{raw} html", '<div id="claim-filter"></div>', "```", "", *body]
    lines += ["## Totals, and what the verdicts mean", "", *totals(counts), ""]
    lines += [f"The rows are in{book.rewrite(meaning, CLAIMS, PAGE)}"]
    write(book, PAGE, "\n".join(lines))
