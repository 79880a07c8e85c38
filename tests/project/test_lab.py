"""`make lab` leaves the checkout clean and keeps what people change."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = "00_start_here.ipynb"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of its own with the notebooks and what `make lab` needs."""
    folder = tmp_path / "checkout"
    for part in ("notebooks", "docs"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "tools").mkdir()
    for name in (".gitignore", "jupytext.toml", "tools/lab.py"):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def say(path: Path, text: str) -> None:
    """Put this into the first cell of a notebook."""
    notebook = json.loads(path.read_text("utf-8"))
    notebook["cells"][0]["source"] = [text]
    path.write_text(json.dumps(notebook), "utf-8")


def test_copies_that_were_changed_are_kept_and_others_renewed(checkout: Path) -> None:
    copy_notebooks = run_path(str(checkout / "tools" / "lab.py"))["copy_notebooks"]
    notebook, copy = checkout / "notebooks" / NAME, checkout / "lab" / NAME
    assert copy_notebooks() == [] and copy.read_bytes() == notebook.read_bytes()
    run = json.loads(copy.read_text("utf-8"))
    run["cells"][0]["execution_count"] = 7  # Run All and nothing else
    copy.write_text(json.dumps(run), "utf-8")
    say(notebook, "newer")
    assert copy_notebooks() == [] and copy.read_bytes() == notebook.read_bytes()
    say(copy, "mine")
    mine = copy.read_bytes()
    assert copy_notebooks() == [] and copy.read_bytes() == mine
    say(notebook, "newer still")
    assert copy_notebooks() == [NAME] and copy.read_bytes() == mine


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_server_that_saves_leaves_the_checkout_clean(checkout: Path, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(checkout)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = [f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=t"]
    command = [sys.executable, str(checkout / "tools" / "lab.py"), "--no-browser", *flags]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {k: v for k, v in os.environ.items() if k != "MPLBACKEND"} | {
        "PYTHONPATH": path, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def ask(method: str, where: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/{where}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "token t", "Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    followed: list[str] = []
    try:
        end = time.monotonic() + 600
        while True:
            try:
                ask("GET", "status")
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, (
                    tmp_path / "log"
                ).read_text()
                time.sleep(0.2)
        notebook = ask("GET", f"contents/lab/{NAME}")["content"]
        for link in re.findall(r"\]\(\.\./([^)#]+)", json.dumps(notebook)):
            if link.startswith("docs/"):
                ask("GET", f"contents/{link}?content=0")
                followed.append(link)
        notebook["cells"][0]["source"] = "mine"
        content = {"type": "notebook", "format": "json", "content": notebook}
        ask("PUT", f"contents/lab/{NAME}", content)
        ask("POST", f"contents/lab/{NAME}/checkpoints")
    finally:
        server.terminate()
        server.wait()
    assert followed, "a link out of a notebook leads to its file"
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    assert changed.stdout == ""
    assert "mine" in (checkout / "lab" / NAME).read_text("utf-8")
