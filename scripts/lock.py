"""Write requirements.lock (tested versions) and environment.yml from pyproject.toml.

    python scripts/lock.py                  both files
    python scripts/lock.py --environment    environment.yml only
    python scripts/lock.py --python PATH    resolve with this interpreter

The lock is a plain list of `name==version`: no addresses, so it installs from whatever index pip
is set up with. It is resolved with the oldest supported Python, because the newest releases that
still support that one also install on the later ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
ENVIRONMENT = ROOT / "environment.yml"
OLDEST = (3, 11)
EXTRA = "dev"

LOCK_HEADER = """\
# Versions that the tests of this project ran with. Made by `make lock`; do not edit.
# Resolved with Python {python} for the package, its extra "{extra}" and its build tool.
"""


def environment_text() -> str:
    """Return environment.yml as generated from pyproject.toml by pyproject2conda.

    Raises
    ------
    ModuleNotFoundError
        If pyproject2conda is not installed.
    """
    if importlib.util.find_spec("pyproject2conda") is None:
        raise ModuleNotFoundError("pyproject2conda is needed: install the extra 'dev'")
    command = [sys.executable, "-m", "pyproject2conda", "yaml", "--pyproject", "pyproject.toml"]
    command += ["-n", "fedclust", "-c", "conda-forge", "-c", "nodefaults"]
    command += ["-e", "notebooks", "-e", "test", "--python-include", "infer", "--req", "-e ."]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    header = "# Generated from pyproject.toml by `make lock`; do not edit.\n"
    return header + text.strip() + "\n"


def lock_text(python: str) -> str:
    """Return the lock: the closure of the package, its extras and its build requirements.

    Parameters
    ----------
    python : str
        Interpreter to resolve with.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [str(Path(folder) / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        report = Path(folder) / "report.json"
        pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        wanted = [f"{ROOT}[{EXTRA}]", *pyproject["build-system"]["requires"]]
        subprocess.run(
            [*pip, "install", "--quiet", "--dry-run", "--report", str(report), *wanted],
            check=True,
        )
        resolved = json.loads(report.read_text(encoding="utf-8"))
    own = pyproject["project"]["name"]
    pins = {}
    for item in resolved["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        if name != own:
            pins[name] = item["metadata"]["version"]
    # Already in the fresh environment on old Pythons, hence not "to be installed" there.
    pins.pop("pip", None)
    version = resolved["environment"]["python_version"]
    lines = [f"{name}=={pins[name]}\n" for name in sorted(pins)]
    return LOCK_HEADER.format(python=version, extra=EXTRA) + "".join(lines)


def find_oldest_python() -> str:
    """Return an interpreter of the oldest supported version, or this one with a warning."""
    if sys.version_info[:2] == OLDEST:
        return sys.executable
    name = f"python{OLDEST[0]}.{OLDEST[1]}"
    found = shutil.which(name)
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    print(f"warning: {name} not found; the lock may not install on it", file=sys.stderr)
    return sys.executable


def main(arguments: list[str] | None = None) -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", help="interpreter to resolve with")
    parser.add_argument("--environment", action="store_true", help="environment.yml only")
    options = parser.parse_args(arguments)
    ENVIRONMENT.write_text(environment_text(), encoding="utf-8", newline="\n")
    print(f"wrote {ENVIRONMENT.name}")
    if not options.environment:
        text = lock_text(options.python or find_oldest_python())
        LOCK.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {LOCK.name} ({text.count('==')} packages)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
