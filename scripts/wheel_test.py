"""Does the wheel suffice? Install it in a fresh environment, and run the notebooks far from here.

    python scripts/wheel_test.py            (`make wheel-test`)

Builds the wheel, makes a new environment from requirements.lock, installs the wheel there, copies
the notebooks into an empty folder and executes them with nbval. Nothing of the checkout can be
imported or read, so package data and result tables must have travelled in the wheel. Real data is
found in FEDCLUST_DATA_DIR if that is set.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "fedclust_helpers/studies/results/"


def call(*command: str | Path, folder: Path, **variables: str) -> None:
    """Run a command in `folder`; raises CalledProcessError if it fails."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([str(c) for c in command], cwd=folder, check=True, env=environment | variables)


def build_wheel(folder: Path, python: str = sys.executable) -> Path:
    """The wheel of a copy of the tracked files, so that no build folder is left behind."""
    source = folder / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps"]
    call(*pip, "--no-build-isolation", "-w", folder, ".", folder=source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def missing_tables(wheel: Path) -> list[str]:
    """Files of data/results that did not travel in the wheel."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    tables = sorted(p.name for p in (ROOT / "data" / "results").iterdir() if p.is_file())
    return [name for name in tables if RESULTS + name not in inside]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", default="2", help="notebooks that run at the same time")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wheel-test-") as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        if missing := missing_tables(wheel):
            print(f"not in the wheel: {', '.join(missing)}", file=sys.stderr)
            return 1
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; installing it", flush=True)
        venv.create(folder / "env", with_pip=True)
        python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        call(*pip, "-r", ROOT / "requirements.lock", folder=folder)
        call(*pip, "--no-deps", wheel, folder=folder)
        lessons = folder / "elsewhere"
        lessons.mkdir()
        for path in [*(ROOT / "notebooks").glob("*.ipynb"), ROOT / "notebooks" / "conftest.py"]:
            shutil.copy2(path, lessons)
        command = [python, "-m", "pytest", "-q", "-n", options.jobs, "--dist", "loadfile"]
        limits = ["--nbval-cell-timeout=300", "--nbval-kernel-startup-timeout=120"]
        call(*command, "--nbval", "--nbval-current-env", *limits, lessons, folder=lessons)
    return 0


if __name__ == "__main__":
    sys.exit(main())
