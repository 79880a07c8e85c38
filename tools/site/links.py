"""Where each file of the repository stands in the book, and links that lead there.

A link `[text](../data/results/claims.md#F12)` is right on disk and on a code host. In the book
that file is another page, so its target becomes `site:` and the relative address of that page;
`docs/conf.py` takes the prefix away when all pages are known. Files that are no page are copied
to `files/`.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat

SCHEME = "site:"
_TARGET = re.compile(
    r"(?P<before>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\()\s*(?P<target>[^()\s]+)(?=[)\s])"
)
_FENCE = re.compile(r"^\s*(```|~~~)")


def blocks(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a Markdown text, and whether each is prose (not a block of code)."""
    inside = False
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line) is None:
            lines.append(line)
        elif inside:
            yield "".join([*lines, line]), False
            lines, inside = [], False
        else:
            yield "".join(lines), True
            lines, inside = [line], True
    yield "".join(lines), not inside


@cache
def markdown(path: Path) -> str:
    """The text of all Markdown cells of a notebook."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def targets(text: str) -> list[str]:
    """The targets of all links and images in the prose of a Markdown text, code left out."""
    found = []
    for part, prose in blocks(text):
        if prose:
            plain = re.sub(r"`[^`]*`", "", part)
            found += [match["target"] for match in _TARGET.finditer(plain)]
            found += re.findall(r'(?:href|src)="([^"]+)"', plain)
    return found


@dataclass
class Book:
    """The pages of the book.

    Attributes
    ----------
    root, source, extra : Path
        The repository; the folder of the pages' sources; the folder of what is copied as it is.
    pages : dict of str to str
        Path of a file in the repository -> page (without suffix), with `#` and a place on it.
    """

    root: Path
    source: Path
    extra: Path
    pages: dict[str, str]

    def copy(self, path: str) -> str:
        """Copy a file or folder of the repository into the book; return its address there."""
        target = self.extra / "files" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(self.root / path, target)
        return f"files/{path}"

    def address(self, path: str, fragment: str) -> str:
        """The address in the book, from its root, of a file of the repository."""
        if path in self.pages:
            name, _, place = self.pages[path].partition("#")
            fragment = fragment or place
            return f"{name}.html" + (f"#{fragment}" if fragment else "")
        if not (self.root / path).is_file():
            raise FileNotFoundError(f"a link leads to {path}, which is not there")
        return self.copy(path)

    def target(self, link: str, at: str, page: str) -> str:
        """The target of a link in file `at`, as seen from `page`."""
        if re.match(r"[a-z]+:", link) or link.startswith("//"):
            return link
        path, _, fragment = link.partition("#")
        if not path:
            return link
        path = posixpath.normpath(posixpath.join(posixpath.dirname(at), path))
        return SCHEME + self.relative(self.address(path, fragment), page)

    @staticmethod
    def relative(address: str, page: str) -> str:
        """An address from the root of the book, as seen from `page`."""
        return posixpath.relpath(address, posixpath.dirname(page) or ".")

    def rewrite(self, text: str, at: str, page: str) -> str:
        """A Markdown text of file `at` with its relative links as `page` needs them."""

        def replace(match: re.Match[str]) -> str:
            if match["before"].startswith("!"):
                name = posixpath.normpath(posixpath.join(posixpath.dirname(at), match["target"]))
                self.source.joinpath("images").mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, self.source / "images")
                return f"{match['before']}/images/{posixpath.basename(name)}"
            return match["before"] + self.target(match["target"], at, page)

        return "".join(
            _TARGET.sub(replace, part) if prose else part for part, prose in blocks(text)
        )
