"""What the numbers of a table depend on: its cells, our code, and the libraries below it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from fedclust_helpers import __version__
from studies.bench.cell import Cell

OURS = ("fedclust", "fedclust_helpers", "studies")  # the code that the numbers depend on


def versions() -> dict[str, str]:
    """What the numbers depend on beside the design."""
    libraries = ("numpy", "scipy", "scikit-learn", "pandas")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
        "fedclust_helpers": __version__,
    }


@cache
def code_version() -> str:
    """A digest of our code, and of the libraries that the numbers depend on."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(repr(versions()).encode())
    ours = [p for name in OURS for p in (root / name).rglob("*.*") if "checkpoint" not in p.name]
    for path in sorted(p for p in ours if p.suffix in (".py", ".csv")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def design_fingerprint(cells: Sequence[Cell]) -> str:
    """A digest of the names and repetitions of all cells, in order."""
    return hashlib.sha256("\n".join(cell.key for cell in cells).encode()).hexdigest()[:16]
