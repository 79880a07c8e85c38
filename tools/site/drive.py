"""Chapters run in a real browser: for tests, and to say how long they take.

python -m tools.site.drive SITE        writes seconds.toml, from the built book
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from tools.site.running import SECONDS
from tools.site.settings import ROOT

SLOW = 10  # seconds from which on a cell says so
HEAD = """\
# Seconds in Chromium on two cores: whole chapters, and their cells above ten, by id.
# Made by python -m tools.site.drive
"""
RAN = "[...document.querySelectorAll('[data-ran]')].map(e => [e.dataset.ran, e.outputs, e.seconds])"


def find_browser() -> str | None:
    """Path of Chromium or Chrome, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


def launched(chromium: Any) -> Any:
    """A running browser of playwright."""
    arguments = ["--disable-dev-shm-usage", "--disable-gpu"]
    if getattr(os, "geteuid", lambda: 1)() == 0:  # Chromium has no sandbox for root
        arguments.append("--no-sandbox")
    return chromium.launch(executable_path=find_browser(), args=arguments)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Static files, without a word."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map,
                      ".wasm": "application/wasm"}  # fmt: skip

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of this folder."""
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def finished(page: Any, seconds: float) -> str:
    """Wait until a run has ended; what the page says then."""
    stop = ".run-bar button:text-is('Stop')"
    page.wait_for_selector(stop, state="hidden", timeout=1000 * seconds)
    return str(page.inner_text(".run-bar [role=status]"))


def run(page: Any, address: str, seconds: float = 600) -> tuple[str, list[Any], float]:
    """Open a chapter and run it: what it says, its cells as `RAN` reads them, seconds in all."""
    page.goto(address)
    page.click(".run-offer button")
    begin = time.perf_counter()
    said = finished(page, seconds)
    return said, page.evaluate(RAN), time.perf_counter() - begin


def main(site: str) -> int:
    """Run every chapter and write how long each took."""
    from playwright.sync_api import sync_playwright

    lines = [HEAD]
    with served(Path(site)) as base, sync_playwright() as p:
        browser = launched(p.chromium)
        for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
            ids = [c.id for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
            page = browser.new_page()
            said, cells, seconds = run(page, f"{base}/chapters/{path.stem}.html")
            page.close()
            print(path.stem, said, f"{seconds:.0f} s", flush=True)
            if not said.startswith("done"):
                return 1
            timed = zip(ids, cells, strict=True)
            slow = [f'"{name}" = {each:.0f}' for name, (_, _, each) in timed if each > SLOW]
            lines += [f"[{path.stem}]", f"seconds = {seconds:.0f}"]
            lines += [f"slow = {{{', '.join(slow)}}}", ""]
    SECONDS.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
