"""What is known about the project's place on the web: one setting, and what follows from it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Place:
    """Addresses that exist once `repository` ("owner/name" on GitHub) is set; else all are empty.

    The setting is `tool.fedclust.repository` in pyproject.toml.
    """

    repository: str

    @property
    def site(self) -> str:
        """Where GitHub publishes the book, with a slash at the end."""
        owner, _, name = self.repository.partition("/")
        return f"https://{owner.lower()}.github.io/{name}/" if name else ""

    @property
    def preview(self) -> str:
        """The picture that other sites show beside a link; they take whole addresses only."""
        return f"{self.site}_images/price_of_trust.png" if self.site else ""

    @property
    def front(self) -> str:
        """The second line of README: what a visitor of a code host looks for."""
        if not self.repository:
            return ""
        at, start = f"https://github.com/{self.repository}", "notebooks/00_start_here.ipynb"
        tests = f"{at}/actions/workflows/tests.yml"
        return (
            f"[![tests]({tests}/badge.svg)]({tests}) · [the book]({self.site}) · [open in the"
            f" browser]({self.binder(start)}) · [ask a question]({at}/issues/new/choose)"
        )

    def install(self, extras: str = "") -> str:
        """The line that installs the package: in the checkout while it has no address."""
        name = f"[{extras}]" if extras else ""
        if self.repository:
            return f'pip install "fedclust{name} @ git+https://github.com/{self.repository}"'
        return f"pip install '.{name}'" if extras else "pip install ."

    def binder(self, notebook: str) -> str:
        """Run a notebook (a path in the repository) on Binder."""
        if not self.repository:
            return ""
        return f"https://mybinder.org/v2/gh/{self.repository}/main?urlpath=lab/tree/{notebook}"

    def colab(self, notebook: str) -> str:
        """Run a notebook (a path in the repository) on Colab."""
        if not self.repository:
            return ""
        base = "https://colab.research.google.com/github"
        return f"{base}/{self.repository}/blob/main/{notebook}"


def place() -> Place:
    """The place that pyproject.toml names.

    Raises
    ------
    ValueError
        If the setting is neither empty nor "owner/name".
    """
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    repository = tomllib.loads(text).get("tool", {}).get("fedclust", {}).get("repository", "")
    if repository and [bool(part) for part in repository.split("/")] != [True, True]:
        raise ValueError(f'tool.fedclust.repository must be "" or "owner/name", got {repository!r}')
    return Place(repository)
