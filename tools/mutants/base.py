"""One mutant, and how it is applied to a tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class PatchError(ValueError):
    """The text that a mutant replaces is no longer in the tree, or not as often as it says."""


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs `count` times in the file `path`, by `new`."""

    path: str
    old: str
    new: str
    count: int = 1

    def applied_to(self, text: str) -> str:
        """The changed text.

        Raises
        ------
        PatchError
            If `old` does not occur exactly `count` times, or nothing changes.
        """
        found = text.count(self.old)
        if found != self.count:
            raise PatchError(
                f"{self.path}: expected {self.count} time(s), found {found}: {self.old!r}"
            )
        changed = text.replace(self.old, self.new)
        if changed == text:
            raise PatchError(f"{self.path}: the patch changes nothing: {self.old!r}")
        return changed


@dataclass(frozen=True)
class Mutant:
    """A wrong version of the package.

    Attributes
    ----------
    name : str
        Words joined by hyphens; the part before the first hyphen tells what it belongs to.
    breaks : str
        The property that no longer holds, in words.
    edits : tuple of Edit
        Applied together, in this order.
    tests : tuple of str
        Node ids (or files) of the tests that must notice, the killer first.
    quick : bool
        Whether it is one of the few that `make test-all` runs.
    seconds : float
        Limit of time for its tests.
    """

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    quick: bool = False
    seconds: float = 120.0

    def apply(self, root: Path) -> dict[Path, bytes]:
        """Change the files below `root`; what they held before comes back.

        Raises
        ------
        PatchError
            If one of the edits does not fit; then no file was changed.
        """
        before: dict[Path, bytes] = {}
        after: dict[Path, str] = {}
        for edit in self.edits:
            path = root / edit.path
            if path not in after:
                if not path.is_file():
                    raise PatchError(f"{edit.path}: no such file")
                before[path] = path.read_bytes()
                after[path] = before[path].decode("utf-8")
            after[path] = edit.applied_to(after[path])
        for path, text in after.items():
            if path.suffix == ".py":
                try:
                    compile(text, str(path), "exec")
                except SyntaxError as error:
                    raise PatchError(f"{path.name}: not Python any more ({error})") from None
        for path, text in after.items():
            path.write_text(text, encoding="utf-8")
        return before


def mutant(
    name: str,
    breaks: str,
    path: str,
    old: str,
    new: str,
    *tests: str,
    count: int = 1,
    also: tuple[Edit, ...] = (),
    quick: bool = False,
    seconds: float = 120.0,
) -> Mutant:
    """A mutant with one edit of a file of the package (and perhaps `also` others).

    `path` is relative to the package, tests are relative to the folder of tests.
    """
    folder = "" if path.startswith("studies/") else "fedclust_helpers/"
    edits = (Edit(folder + path, old, new, count), *also)
    return Mutant(name, breaks, edits, tuple(f"tests/{t}" for t in tests), quick, seconds)
