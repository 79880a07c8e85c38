"""Chapters that run in a real browser, without another host: what they print is what is stored."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser_cases import faults, running_browser  # noqa: F401  (a fixture)

from tools.site import drive, running, shell

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SIZES = {"desktop": {"width": 1300, "height": 900}, "phone": {"width": 390, "height": 844}}

if not (SITE / running.FOLDER).is_dir():
    pytest.skip("the book was built without Pyodide's files", allow_module_level=True)

_spec = importlib.util.spec_from_file_location("compare", ROOT / "notebooks" / "conftest.py")
assert _spec is not None and _spec.loader is not None
compare = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compare)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with drive.served(SITE) as address:
        yield address


@pytest.fixture
def tab(browser: Any, base: str, request: Any) -> Iterator[Any]:
    context = browser.new_context(viewport=SIZES[getattr(request, "param", "desktop")])
    context.set_default_timeout(60_000)
    asked: list[str] = []
    context.route(lambda url: not url.startswith(base), lambda route: route.abort())
    page = context.new_page()
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert not problems
    assert not [url for url in asked if not url.startswith((base, "data:", "file:"))]


def stored(lesson: str) -> list[tuple[set[str], list[dict[str, Any]]]]:
    """Tags and outputs of the code cells, as the shell would show them."""
    cells = []
    for cell in nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            shell.shown.clear()
            for output in cell.outputs:
                if output.output_type == "stream":
                    shell.show("stream", text=output.text)
                else:
                    shell.publish(output.data, output.metadata)
            cells.append((set(cell.metadata.get("tags", ())), list(shell.shown)))
    shell.shown.clear()
    return cells


def looks(outputs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Kind and words of each output; of a figure, its size."""
    size = re.compile(r'width="(\d+)" height="(\d+)"')
    return [
        (one["kind"], str(size.findall(one["text"])) if one["kind"] == "figure" else one["text"])
        for one in outputs
    ]


def same(lesson: str, found: list[Any], refused: int) -> None:
    """Every cell shows what is stored, but for widgets, digits, and what needs secure keys."""
    cells = stored(lesson)
    assert len(found) == len(cells)
    left = 0
    for (tags, before), (state, after, _) in zip(cells, found, strict=True):
        if state == "failed":
            assert "secure-keys" in tags and "cryptography" in after[-1]["text"]
            left += 1
        elif not tags & {"widget", "nbval-ignore-output"}:
            assert [kind for kind, _ in looks(before)] == [kind for kind, _ in looks(after)]
            for (kind, old), (_, new) in zip(looks(before), looks(after), strict=True):
                assert kind == "figure" or compare.same_text(old, new, digits=False), (old, new)
    assert left == refused


@pytest.mark.parametrize("tab", SIZES, indirect=True)
def test_the_first_chapter_runs_as_it_is_printed(tab: Any, base: str) -> None:
    said, found, seconds = drive.run(tab, f"{base}/chapters/{LESSONS[0]}.html")
    print(f"{LESSONS[0]}: {seconds:.0f} s")
    assert said.startswith("done")
    same(LESSONS[0], found, 0)
    wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide
    assert not faults(tab)
    # a setting: the cells below say something else; a slip: its message; Restore: as printed
    before = tab.inner_text("article")
    settings = tab.locator(".cell pre").first
    code = settings.inner_text()
    settings.fill(code.replace("SEED, EPSILON, DELTA = 7, 1.0", "SEED, EPSILON, DELTA = 8, 0.5"))
    tab.locator(".run-tools button").nth(1).click()
    assert drive.finished(tab, 300).startswith("done")
    changed = [one for one in tab.evaluate(drive.RAN) if one[0] == "ok"]
    assert len(changed) == len(found)
    assert sum(a[1] != b[1] for a, b in zip(changed, found, strict=True)) > 5
    settings.fill("DATA = ")
    settings.press("Shift+Enter")
    assert "cell 1 stopped" in drive.finished(tab, 60)
    assert "SyntaxError" in tab.inner_text(".cell .output.error")
    tab.click("text=Restore")
    assert settings.inner_text() == code  # as it was
    assert tab.locator(".ran-here").count() == 0
    tab.locator(".run-bar").evaluate("bar => bar.hidden = true")
    assert before.count("ran here") > 10 and "ran here" not in tab.inner_text("article")


def test_sliders_draw_and_stop_ends_a_run(tab: Any, base: str) -> None:
    assert drive.run(tab, f"{base}/chapters/{LESSONS[0]}.html")[0].startswith("done")
    picture = tab.locator(".widget-note img")
    old = picture.get_attribute("src")
    slider = tab.get_by_label("epsilon", exact=True).and_(tab.locator(".run-controls input"))
    slider.press("Home")
    tab.wait_for_function("old => document.querySelector('.widget-note img')?.src !== old", arg=old)
    assert tab.locator(".widget-note output").first.inner_text() == "0.10"
    drive.finished(tab, 60)
    tab.locator(".run-tools button:text-is('Run')").locator("visible=true").nth(2).click()
    assert "cells below have not run" in drive.finished(tab, 60)  # by mouse, without a focus
    endless = tab.locator(".cell pre").first
    endless.fill("while True: pass")
    endless.press("Shift+Enter")
    tab.click("text=Stop")
    assert drive.finished(tab, 60).startswith("stopped")
    assert slider.is_disabled()  # its Python is gone
    endless.fill("def f():")
    endless.press("Control+End")
    endless.press("Enter")  # with the indent of a body, as in an editor
    tab.keyboard.type("x = 84\nreturn x // 2")  # where "/" is no search of the book
    endless.press("Enter")
    endless.press("Shift+Tab")  # leaves the cell
    assert tab.evaluate("document.activeElement.tagName") != "PRE"
    endless.fill(endless.inner_text().rstrip() + "\nprint(f())")
    endless.press("Shift+Enter")
    assert "cells below have not run" in drive.finished(tab, 120)
    assert endless.get_attribute("tabindex") == "0"  # a keyboard gets into it
    assert "42" in tab.inner_text(".cell .cell_output")


def test_nothing_is_fetched_before_a_click_and_pages_as_files_are_only_read(
    tab: Any, base: str
) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{base}/chapters/{LESSONS[1]}.html")
    tab.locator(".bd-article h2").nth(3).scroll_into_view_if_needed()
    tab.wait_for_timeout(1000)
    assert not [url for url in asked if "running" in url or "worker" in url]
    text = (SITE / "chapters" / f"{LESSONS[1]}.html").read_text(encoding="utf-8")
    told = json.loads(re.findall(r'id="run-here">(.*?)</script>', text)[0])
    assert 40 < told["megabytes"] < 90 and told["seconds"] > 5
    tab.context.unroute_all()
    tab.goto((SITE / "chapters" / f"{LESSONS[1]}.html").as_uri())
    assert tab.locator(".run-offer").count() == 0


@pytest.mark.thorough
@pytest.mark.parametrize("lesson", LESSONS[1:])
def test_every_chapter_runs_as_it_is_printed(lesson: str, tab: Any, base: str) -> None:
    said, found, seconds = drive.run(tab, f"{base}/chapters/{lesson}.html", 1200)
    print(f"{lesson}: {seconds:.0f} s")
    assert said.startswith("done")
    tags = [tags for tags, _ in stored(lesson)]
    same(lesson, found, sum("secure-keys" in one for one in tags))
