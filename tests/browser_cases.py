"""The browser of the browser tests: Chromium or Chrome of the operating system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


def find_browser() -> str | None:
    """Path of Chromium or Chrome, if there is one."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    return None


@pytest.fixture(name="browser", scope="module")
def running_browser() -> Iterator[Any]:
    """A running browser; skips where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: run `make browser-test`"
    )
    executable = find_browser()
    if executable is None:
        pytest.skip("no Chromium or Chrome on this machine")
    arguments = ["--disable-dev-shm-usage", "--disable-gpu"]
    if getattr(os, "geteuid", lambda: 1)() == 0:  # Chromium has no sandbox for root
        arguments.append("--no-sandbox")
    with playwright.sync_playwright() as driver:
        instance = driver.chromium.launch(executable_path=executable, args=arguments)
        yield instance
        instance.close()
