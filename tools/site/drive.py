"""Chapters run in a real browser: for tests, and to say how long they take.

python -m tools.site.drive SITE        writes seconds.toml (Chromium, from the built book)
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.site.running import SECONDS

SLOW = 10  # seconds from which on a cell says so
HEAD = """\
# Seconds in Chromium on two cores: whole chapters, and their cells above ten, by number.
# Made by python -m tools.site.drive
"""
RAN = "[...document.querySelectorAll('[data-ran]')].map(e => [e.dataset.ran, e.outputs, e.seconds])"


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
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for path in sorted((Path(site) / "chapters").glob("*.html")):
            page = browser.new_page()
            said, cells, seconds = run(page, f"{base}/chapters/{path.name}")
            page.close()
            print(path.stem, said, f"{seconds:.0f} s", flush=True)
            if not said.startswith("done"):
                return 1
            slow = [f'"{i}" = {each:.0f}' for i, (_, _, each) in enumerate(cells) if each > SLOW]
            lines += [f"[{path.stem}]", f"seconds = {seconds:.0f}"]
            lines += [f"slow = {{{', '.join(slow)}}}", ""]
    SECONDS.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
