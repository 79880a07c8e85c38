"""The browser of the browser tests, Chromium or Chrome of the operating system, and axe-core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.site import drive, mathjax

# Those of the theme's frame are its makers'.
FAULTS = """async () => {
    const found = await axe.run({include: [['#main-content'], ['.run-bar']]});
    return found.violations.map(
        fault => [fault.id, fault.nodes.map(node => node.html.slice(0, 120))]);
}"""


def faults(page: Any) -> list[Any]:
    """What axe-core finds in our own parts of a page."""
    page.add_script_tag(path=mathjax.installed() / "axe-core" / "axe.min.js")
    return list(page.evaluate(FAULTS))


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
