"""MathJax and its font, installed once by npm, which checks the hashes of `package-lock.json`.

They are kept in the user's cache folder (`pooch.os_cache("fedclust")/site`), or in the folder named
by `FEDCLUST_SITE_CACHE`. With them there, nothing is fetched and no network is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pooch

HERE = Path(__file__).parent
LOCK = "package-lock.json"
FONT = "mathjax-newcm-font"
UNUSED = re.compile(  # scripts and faces that no formula here is written in; a page would say so
    r"dynamic/(cyr|heb|ara|deva|cher|brai|phon|greek-ss|sans-serif-|monospace-|latin-b|PUA)"
    r"|mjx-ncm-(cy|he|ar|dv|ch|br|ph|gkss|ss.*x|lib|sslib|ssli|pu)\w*\.woff2"
)


def installed() -> Path:
    """The folder `node_modules`, made by npm if it is not there or of another lock.

    Raises
    ------
    SystemExit
        If it is missing and npm is too, or npm fails: no network, or bytes of another hash.
    """
    named = os.environ.get("FEDCLUST_SITE_CACHE")
    folder = Path(named) if named else Path(pooch.os_cache("fedclust")) / "site"
    modules, there = folder / "node_modules", folder / LOCK
    whole = (modules / f".{LOCK}").exists()  # npm writes it last
    if whole and there.read_bytes() == (HERE / LOCK).read_bytes():
        return modules
    if (npm := shutil.which("npm")) is None:
        raise SystemExit(f"the book needs MathJax once, in {folder}: install npm")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", LOCK):
        shutil.copyfile(HERE / name, folder / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"npm could not install MathJax in {folder}: {done.stderr.strip()}")
    return modules


def unpack(target: Path) -> None:
    """Lay what a page needs into the folder `target`."""
    modules = installed()

    def unused(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if UNUSED.search(f"{Path(folder).name}/{name}")]

    shutil.copytree(modules / "@mathjax" / FONT / "chtml", target / FONT / "chtml", ignore=unused)
    for name in ("tex-chtml.js", "LICENSE"):
        shutil.copyfile(modules / "mathjax" / name, target / name)
