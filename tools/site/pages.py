"""Pages from text that is there already: documents, glossary, and the bibliography."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tools.site import living
from tools.site.chapters import short_title
from tools.site.links import SCHEME, Book, markdown
from tools.site.tables import write


def slug(text: str) -> str:
    """A name for a page."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def anchor(title: str) -> str:
    """The id that Sphinx gives to a heading."""
    plain = unicodedata.normalize("NFKD", re.sub(r"\$[^$]*\$", "", title))
    words = re.sub(r"[^a-z0-9]+", "-", plain.encode("ascii", "ignore").decode().lower())
    return re.sub(r"^[-0-9]+|-+$", "", words)


def glossary(book: Book, notebooks: Iterable[Path]) -> None:
    """The glossary; "chapter 00, sections 3 and 5" becomes links to these sections.

    Raises
    ------
    ValueError
        If it names a section that its chapter does not have.
    """
    path = "docs/glossary.md"
    headings: dict[tuple[str, str], str] = {}
    for notebook in notebooks:
        here, at = notebook.stem[:2], f"{SCHEME}chapters/{notebook.stem}.html"
        headings[here, ""] = at
        for title in re.findall(r"^## (\d+\. .+)$", markdown(notebook), re.MULTILINE):
            headings[here, title.split(".")[0]] = f"{at}#{anchor(title)}"

    def linked(match: re.Match[str]) -> str:
        chapter, numbers = match[1], re.findall(r"\d+", match[2] or "") or [""]
        if missing := [n for n in numbers if (chapter, n) not in headings]:
            raise ValueError(f"the glossary names chapter {chapter}, section {missing[0]}: no such")
        words = [f"chapter {chapter}" + (f", section {n}" if n else "") for n in numbers[:1]]
        words += [f"section {n}" for n in numbers[1:]]
        links = (f"[{w}]({headings[chapter, n]})" for w, n in zip(words, numbers, strict=True))
        return " and ".join(links)

    text = (book.root / path).read_text(encoding="utf-8")
    text = book.rewrite(text, path, book.pages[path])
    text = re.sub(r"chapter\s+(\d\d)(,\s+sections?\s+\d+(?:\s+and\s+\d+)?)?", linked, text)
    write(book, book.pages[path], text)


def copy(book: Book, path: str) -> None:
    """A Markdown file of the repository as a page."""
    text = (book.root / path).read_text(encoding="utf-8")
    write(book, book.pages[path], book.rewrite(text, path, book.pages[path]))


class Reference(NamedTuple):
    """One entry of a list of references."""

    authors: str
    title: str
    venue: str


def references(text: str) -> list[Reference]:
    """The entries in the part of a notebook's text that stands under References.

    An entry is ``* AUTHORS. *TITLE.* VENUE with a year. (Remarks.)``; remarks are left out.

    Raises
    ------
    ValueError
        If an entry has another form.
    """
    part = re.search(r"^#+ References[^\n]*\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    if part is None:
        return []
    found = []
    for item in re.split(r"^[*-] ", part[1], flags=re.MULTILINE)[1:]:
        flat = " ".join(item.split("\n\n")[0].split())
        match = re.match(r"(?P<authors>.+?)\.? \*(?P<title>[^*]+?)\.?\*\.?(?P<rest>.*)", flat)
        if match is None:
            raise ValueError(f"a reference is 'AUTHORS. *TITLE.* VENUE YEAR.', got {flat[:80]!r}")
        venue = re.match(r" ([^(]*?\b(?:19|20)\d\d)\b", match["rest"])
        found.append(Reference(match["authors"], match["title"], venue[1] if venue else ""))
    return found


def family(authors: str) -> str:
    """What an entry is sorted by: the last name of its first author."""
    return re.split(r",| et al", authors)[0].split()[-1].lower()


def bibliography(book: Book, notebooks: Iterable[Path]) -> None:
    """All references of all chapters, once each, with the chapters that cite them."""
    entries: dict[str, Reference] = {}
    cited: dict[str, list[str]] = {}
    for path in notebooks:
        for reference in references(markdown(path)):
            key = slug(reference.title)
            if key not in entries or len(reference.venue) > len(entries[key].venue):
                entries[key] = reference
            if path.stem not in cited.setdefault(key, []):
                cited[key].append(path.stem)
    lines = ["# Bibliography", "", "All references of the chapters, and where they are cited.", ""]
    for key in sorted(entries, key=lambda key: (family(entries[key].authors), key)):
        entry = entries[key]
        links = ", ".join(
            f"[{stem[:2]}]({SCHEME}chapters/{stem}.html#references)" for stem in cited[key]
        )
        venue = f" {entry.venue}." if entry.venue else ""
        lines.append(f"- {entry.authors}. *{entry.title}.*{venue} Cited in {links}.")
    reference = f"[API reference]({SCHEME}api/index.html)"
    lines += ["", f"Sources of single formulas stand in the docstrings: {reference}."]
    write(book, "bibliography", "\n".join(lines))


def contents(book: Book, notebooks: Iterable[Path], licences: bool) -> None:
    """The first page: the hand-written text, and the table of contents that fills the sidebar."""
    text = (book.root / "docs" / "index.md").read_text(encoding="utf-8")
    text = living.placed(book.rewrite(text, "docs/index.md", "index"))
    parts = {
        "Chapters": [f"{short_title(p.stem)} <chapters/{p.stem}>" for p in notebooks],
        "Evidence": [
            "Claims <claims>",
            "Findings <findings>",
            "Statements <statements>",
            "Results <results/index>",
        ]
        + ["How it was made <made>"],
        "Using it": [
            "Install and use <using>",
            "Your table <your_table>",
            "Trust models <trust>",
            "Data sets <data>",
            "API reference <api/index>",
            "A real federation <deployment>",
        ],
        "Reference": ["Symbols <symbols>", "Glossary <glossary>", "Bibliography <bibliography>"]
        + ["Contributing <contributing>"]
        + ["Licences <licences>"] * licences,
    }
    lines = [text.rstrip()]
    for caption, pages in parts.items():
        options = [":hidden:", ":maxdepth: 1", f":caption: {caption}"]
        lines += ["", "```{toctree}", *options, "", *pages, "```"]
    write(book, "index", "\n".join(lines))
