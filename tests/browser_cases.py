"""The browser of the browser tests: Chromium or Chrome of the operating system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.site import drive


@pytest.fixture(name="browser", scope="module")
def running_browser() -> Iterator[Any]:
    """A running browser; skips where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: run `make browser-test`"
    )
    if drive.find_browser() is None:
        pytest.skip("no Chromium or Chrome on this machine")
    with playwright.sync_playwright() as driver:
        instance = drive.launched(driver.chromium)
        yield instance
        instance.close()
