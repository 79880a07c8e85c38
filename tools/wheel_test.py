"""Is the wheel enough for a stranger? Install it in a fresh environment, and test it far from here.

    python tools/wheel_test.py            (`make wheel-test`)

Builds the wheel and installs it into a new environment with nothing but what it requires: a fit
must run there, and what is lacking must be said before it is planned. Then into another one, from
requirements.lock, where the quick tests of the library run in an empty folder. Nothing of the
checkout can be imported or read there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT = ("studies", "project", "browser", "offline")  # tests of what is no part of the wheel
BOUND = r"^(?:from|import) (?:studies|tools)\b|parents\[[23]\]|docs"  # to the rest of the checkout


BARE = """
from importlib.util import find_spec
import numpy as np
from fedclust import PrivateKMeans

assert not any(map(find_spec, ("pandas", "matplotlib", "opendp")))
rows = [np.random.default_rng(i).normal(i, 1, (300, 2)) for i in (0, 9)]
how = {"bounds": (-9, 19), "delta": 1e-6}
PrivateKMeans(2, 1.0, mode="teaching", seed=1, **how).fit(rows).statement()
model = PrivateKMeans(2, 1.0, **how).fit(rows)  # secure mode
lacks = {}
for what, extra in (("rehearse", "data"), ("plot", "plots")):
    try:
        getattr(model, what)(*[rows] * (what != "plot"))
    except ImportError as error:
        lacks[extra] = f"[{extra}]" in str(error)
assert lacks == {"data": True, "plots": True}, lacks
"""
"""What must run without an extra, and what must say which extra it lacks."""


def call(*command: str | Path, folder: Path, **variables: str) -> None:
    """Run a command in `folder`; raises CalledProcessError if it fails."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([str(c) for c in command], cwd=folder, check=True, env=environment | variables)


def needs(path: Path, pattern: str) -> bool:
    """Whether some line of a file is like this."""
    return re.search(pattern, path.read_text("utf-8"), re.M) is not None


def build_wheel(folder: Path, python: str = sys.executable) -> Path:
    """The wheel of a copy of the tracked files, so that no build folder is left behind."""
    source = folder / "source"
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        listed.check_returncode()
        files = filter(None, listed.stdout.split("\0"))
    else:  # an archive: what it holds
        files = (str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if not _is_built(p))
    for name in files:
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps"]
    call(*pip, "--no-build-isolation", "-w", folder, ".", folder=source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _is_built(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[0] in ("build", "dist") or any(part.startswith(".venv") for part in parts)


def environment(folder: Path) -> tuple[Path, list[str | Path]]:
    """The interpreter of a new environment, and its command to install something."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    return python, [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", default="2", help="test processes")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wheel-test-") as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        inside = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
        if strangers := {n for n in inside if not n.startswith("fedclust")}:
            print(f"in the wheel, too: {', '.join(sorted(strangers))}", file=sys.stderr)
            return 1
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; installing it", flush=True)
        python, pip = environment(folder / "bare")
        call(*pip, "-c", ROOT / "requirements.lock", wheel, folder=folder)
        size = sum(f.stat().st_size for f in (folder / "bare").rglob("*") if f.is_file())
        print(f"with all that it requires, and pip: {size / 1e6:.0f} MB", flush=True)
        call(python, "-c", BARE, folder=folder)
        python, pip = environment(folder / "env")
        call(*pip, "-r", ROOT / "requirements.lock", folder=folder)
        call(*pip, "--no-deps", wheel, folder=folder)
        away = folder / "elsewhere"
        shutil.copytree(ROOT / "tests", away / "tests", ignore=shutil.ignore_patterns(*LEFT))
        bound = [path for path in (away / "tests").rglob("*.py") if needs(path, BOUND)]
        helpers = [path.stem for path in bound if not path.stem.startswith("test_")]
        users = rf"^(?:from|import) (?:{'|'.join(helpers) or 'nothing'})\b"
        for path in {*bound, *(p for p in (away / "tests").rglob("*.py") if needs(p, users))}:
            path.unlink()
        shutil.copy2(ROOT / "pyproject.toml", away)
        command = [python, "-m", "pytest", "-q", "-n", options.jobs, "tests"]
        call(*command, "-m", "not slow and not thorough", folder=away)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:  # it said why
        sys.exit(f"failed with code {error.returncode}: {' '.join(map(str, error.cmd))}")
