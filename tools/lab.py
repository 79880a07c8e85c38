"""`make lab`: JupyterLab on copies of the notebooks in lab/. Arguments are passed on to it.

Git does not look at lab/, so Run All and autosave leave the checkout clean, and nothing is lost by
closing: a copy whose cells were changed stays as it is. One that was only run is renewed when the
notebook itself is another.
"""

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def sources(path: Path) -> list[str]:
    """What the cells say, without outputs."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells]


def copy_notebooks(root: Path = ROOT) -> list[str]:
    """Bring lab/ up to date; the names of changed copies whose notebook has changed as well."""
    lab, kept = root / "lab", []
    made = lab / ".made"  # as they were copied
    made.mkdir(parents=True, exist_ok=True)
    for notebook in sorted((root / "notebooks").glob("*.ipynb")):
        copy, before = lab / notebook.name, made / notebook.name
        if copy.exists() and (not before.exists() or sources(copy) != sources(before)):
            if not before.exists() or sources(before) != sources(notebook):
                kept.append(notebook.name)
        elif not copy.exists() or before.read_bytes() != notebook.read_bytes():
            shutil.copyfile(notebook, copy)
            shutil.copyfile(notebook, before)
    return kept


def be_quiet(prefix: Path = Path(sys.prefix)) -> None:
    """No pop-up that offers news: the project asks no other host. A choice of the user's stays."""
    overrides = prefix / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    if not overrides.exists():
        overrides.parent.mkdir(parents=True, exist_ok=True)
        news = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
        overrides.write_text(json.dumps(news), encoding="utf-8")


if __name__ == "__main__":
    for name in copy_notebooks():
        print(f"lab/{name} is yours and stays; notebooks/{name} is newer: rename yours to get it")
    # as root (in a container, say) the server starts only when told that this is meant
    root = ["--allow-root"] if os.geteuid() == 0 else []
    be_quiet()
    # the whole checkout, so that links out of a notebook lead somewhere
    first = [
        f"--ServerApp.root_dir={ROOT}",
        "--LabApp.default_url=/lab/tree/lab/00_start_here.ipynb",
    ]
    command = [sys.executable, "-m", "jupyterlab", *root, *first, *sys.argv[1:]]
    os.chdir(ROOT)
    os.execv(sys.executable, command)
