"""The mutants that people thought of: `mutants.txt`, and how one is applied to a tree.

    NAME: the property that no longer holds
    in FILE
    - old text, found once in FILE (more lines: more of these)
    + new text (none: the old one is taken away)
    by TEST that must notice, perhaps several of these lines

with an empty line between two mutants. More "in" lines begin further edits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = Path(__file__).with_name("mutants.txt")


class PatchError(ValueError):
    """The text that a mutant replaces is not in the tree, or not once."""


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs once in the file `path`, by `new`."""

    path: str
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        """The changed text; PatchError if the edit does not fit, or leaves no Python."""
        if (found := text.count(self.old)) != 1:
            raise PatchError(f"{self.path}: expected once, found {found} times: {self.old!r}")
        changed = text.replace(self.old, self.new)
        if changed == text:
            raise PatchError(f"{self.path}: the edit changes nothing: {self.old!r}")
        try:
            compile(changed, self.path, "exec")
        except SyntaxError as error:
            raise PatchError(f"{self.path}: not Python any more ({error})") from None
        return changed


@dataclass(frozen=True)
class Mutant:
    """A wrong version: its name, the property that it breaks, edits, and what pytest is to run."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    def texts(self, root: Path = ROOT) -> dict[str, str]:
        """The changed files of the tree `root`, by path; PatchError if an edit does not fit."""
        made: dict[str, str] = {}
        for edit in self.edits:
            text = made.get(edit.path) or (root / edit.path).read_text(encoding="utf-8")
            made[edit.path] = edit.applied_to(text)
        return made


def parsed(block: str) -> Mutant:
    """One mutant of the file."""
    title, *lines = block.splitlines()
    name, _, breaks = title.partition(": ")
    edits: list[tuple[str, list[str], list[str]]] = []
    tests = []
    for line in lines:
        mark, _, rest = line.partition(" ")
        if mark == "in":
            edits.append((rest, [], []))
        elif mark == "by":
            tests.append(rest)
        elif mark in ("-", "+"):
            edits[-1][1 if mark == "-" else 2].append(rest)
        else:
            raise PatchError(f"{name}: a line begins with in, -, + or by; got {line!r}")
    made = (Edit(path, "\n".join(old), "\n".join(new)) for path, old, new in edits)
    return Mutant(name, breaks, tuple(made), tuple(tests))


def mutants() -> list[Mutant]:
    """All mutants of the file."""
    blocks = MUTANTS.read_text(encoding="utf-8").strip().split("\n\n")
    return [parsed(block) for block in blocks]
