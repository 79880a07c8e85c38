"""Write requirements.lock, requirements-site.lock and environment.yml from pyproject.toml.

    python tools/lock.py                  all of them
    python tools/lock.py --environment    environment.yml only
    python tools/lock.py --python PATH    resolve with this interpreter

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
SITE_LOCK = ROOT / "requirements-site.lock"
ENVIRONMENT = ROOT / "environment.yml"
OLDEST = (3, 11)
EXTRA, SITE_EXTRA = "dev", "site"
APART = "jsonschema"  # cffconvert needs an older one than the notebooks

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


def lock_text(python: str, extra: str = EXTRA, within: str = "") -> str:
    """Return a lock: the closure of the package, an extra and its build requirements.

    Parameters
    ----------
    python : str
        Interpreter to resolve with.
    extra : str
        Which of the package's extras.
    within : str
        Another lock, whose versions are kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [str(Path(folder) / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        report = Path(folder) / "report.json"
        pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        wanted = [f"{ROOT}[{extra}]", *pyproject["build-system"]["requires"]]
        kept = Path(folder) / "kept.txt"
        kept.write_text(re.sub(rf"(?m)^{APART}.*\n", "", within), encoding="utf-8")
        subprocess.run(
            [*pip, "install", "-q", "--dry-run", "--report", str(report), "-c", str(kept), *wanted],
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
    return LOCK_HEADER.format(python=version, extra=extra) + "".join(lines)


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
        python = options.python or find_oldest_python()
        text = lock_text(python)
        for path, lock in ((LOCK, text), (SITE_LOCK, lock_text(python, SITE_EXTRA, text))):
            path.write_text(lock, encoding="utf-8", newline="\n")
            print(f"wrote {path.name} ({lock.count('==')} packages)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
