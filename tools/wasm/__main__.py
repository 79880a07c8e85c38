"""The quick tests of the helpers, and numbers, on 32 bits (`make wasm-test`).

    python -m tools.wasm [TESTS]

Pyodide's files are those of tools/pyodide.py. Tools of the tests are those of this environment,
where they are plain Python. Without node, or without the files and a network, a sentence says so
and nothing is tested. Tests that need what is not there (other processes, the library
`cryptography`) are left out by what their files import.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools import pyodide

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUN = HERE / "run.mjs"
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "sqlite3", "ipython")
PURE = (
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "sortedcontainers",
    "mpmath",
)  # fmt: skip
LACKING = "cryptography|cloudpickle|jupytext|opendp|numba|multiprocessing|subprocess"
PARTS = ("ground", "client_statistics", "federation", "program", "fastlloyd", "feddp_kmeans",
         "ldp_kmeans", "rr_cluster")  # fmt: skip
CLOSE = 1e-9  # relative


def plain(files: Path, folder: Path) -> Path:
    """What tests import and need not be compiled, in one folder."""
    for name in PURE:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise pyodide.MissingError(f"{name} is not installed here: make test installs it")
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            left = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(origin.parent, folder / name, ignore=left)
        else:
            shutil.copy2(origin, folder)
    for row in pyodide.listed():
        if row["from"] != "pyodide":
            with zipfile.ZipFile(files / row["file"]) as archive:
                archive.extractall(folder)
    return folder


def needs(path: Path) -> bool:
    """Whether a test file imports what is not there."""
    imports = rf"^\s*(?:from|import) (?:{LACKING})\b"
    return re.search(imports, path.read_text("utf-8"), re.M) is not None


def fitting(paths: Sequence[str]) -> list[str]:
    """The test files below these paths that can be imported there."""
    found = [p for path in paths for p in sorted((ROOT / path).rglob("test_*.py") or [])]
    found += [ROOT / path for path in paths if path.endswith(".py")]
    left = [p for p in found if needs(p)]
    if left:
        print(f"left out: {', '.join(p.name for p in left)}", flush=True)
    return [p.relative_to(ROOT).as_posix() for p in found if p not in left]


def differences(there: dict[str, list[float]], here: dict[str, list[float]]) -> list[str]:
    """Names of what is not the same on both."""
    return [
        name for name, values in here.items()
        if len(values) != len(there[name])
        or not all(map(lambda a, b: math.isclose(a, b, rel_tol=CLOSE), values, there[name]))
    ]  # fmt: skip


def told(line: Sequence[str]) -> dict[str, Any]:
    """What this command prints, as JSON."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, check=True, cwd=ROOT, stdout=subprocess.PIPE, env=environment)
    return dict(json.loads(done.stdout))


def main(paths: Sequence[str]) -> int:
    """Numbers, then tests; the exit code."""
    node = shutil.which("node")
    if node is None:
        raise pyodide.MissingError("there is no node")
    folder = pyodide.folder()
    with tempfile.TemporaryDirectory() as place:
        mounts = {"/src": str(ROOT), "/pure": str(plain(folder, Path(place)))}
        run = [node, str(RUN), str(folder), json.dumps(PACKAGES), json.dumps(mounts)]
        answers = "tools/wasm/answers.py"
        there, here = (told([*line, answers]) for line in (run, [sys.executable]))
        differ = differences(there["found"], here["found"])
        said = f"not the same: {', '.join(differ)}" if differ else "all the same"
        bits = f"indices of {there['bits']} and {here['bits']} bits"
        print(f"{len(here['found'])} answers, {bits}: {said}", flush=True)
        tests = ["-q", "--capture=sys", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin",
                 "-m", "not slow and not thorough", "--durations=5", "--tb=short",
                 "--continue-on-collection-errors"]  # fmt: skip
        done = subprocess.run([*run, "tools/wasm/tests.py", *tests, *fitting(paths)], cwd=ROOT)
    return done.returncode or bool(differ)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:] or [f"tests/helpers/{part}" for part in PARTS]))
    except pyodide.MissingError as missing:
        print(f"wasm-test skipped: {missing}")
