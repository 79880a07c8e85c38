"""The living figures in a real browser: what the screen says equals what the library computed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import running_browser  # noqa: F401  (a fixture)

from tools.site import living, wire

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
MINUS = "\N{MINUS SIGN}"
WIDTHS = (320, 390, 704, 1300)  # 704: where the overlap of boxes showed
BOXES = """() => [...document.querySelectorAll(
    '.lv svg .lv-node, .lv svg [class^=lv-pill]')].map(e => {
    const r = (e.querySelector('rect') ?? e).getBoundingClientRect();
    return [r.left, r.top, r.right, r.bottom]; })"""

if not SITE.is_dir():
    pytest.skip("the book is not built: run `make site`", allow_module_level=True)


@pytest.fixture
def tab(browser: Any, request: Any) -> Iterator[Any]:
    settings = {"reduced_motion": "reduce", "offline": True} | getattr(request, "param", {})
    context = browser.new_context(**settings)
    context.set_default_timeout(120_000)  # a busy machine
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert not problems


def show(page: Any, kind: str, path: str) -> dict[str, Any]:
    """Open a page; the values that its figure of this kind holds."""
    page.goto((SITE / path).as_uri())
    text = page.locator(f".lv[data-living={kind}] > script").text_content()
    return dict(json.loads(text))


def rewind(page: Any) -> None:
    """To the first step."""
    while page.get_by_role("button", name="◀ Back").is_enabled():
        page.get_by_role("button", name="◀ Back").click()


def number(words: str) -> int:
    return int(words.replace(MINUS, "-"))


def rows(page: Any, party: str) -> list[tuple[str, ...]]:
    """What the card of a party says."""
    found = page.locator(f"[data-card={party}] tr").all()
    return [tuple(row.locator("td").all_inner_texts()) for row in found]


def fits(page: Any) -> None:
    """No message lies on a party or another message, nothing leaves the page, fingers find it."""
    boxes = page.evaluate(BOXES)
    for a, b in combinations(boxes, 2):
        apart = min(a[2], b[2]) - max(a[0], b[0]) <= 1 or min(a[3], b[3]) - max(a[1], b[1]) <= 1
        assert apart, (a, b)
    width = page.evaluate("document.documentElement.clientWidth")
    assert all(box[0] >= 0 and box[2] <= width for box in boxes)
    high = page.locator(".lv :is(button, .lv-tab, .lv-node, select)").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert min(high) >= 43.9


@pytest.mark.parametrize("width", WIDTHS)
def test_the_wire_shows_what_was_sent(width: int, tab: Any) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    data = show(tab, "wire", "index.html")
    first = data["models"][0]["steps"]
    assert first[-1]["say"] in tab.locator(".lv-say").inner_text(), "opens at its end"
    for model in data["models"]:
        tab.get_by_role("radio", name=model["name"]).check()
        rewind(tab)
        for i, step in enumerate(model["steps"]):
            if i:
                tab.get_by_role("button", name="Step ▶").click()
            assert step["say"] in tab.locator(".lv-say").inner_text()
            pills = tab.locator(".lv svg [class^=lv-pill] + text").all_text_contents()
            assert pills == [message[2] for message in step["send"]]
            fits(tab)
        for party in ("s", "c2", "p"):
            learnt = [tuple(r[:2]) for s in model["steps"] for r in s["learn"].get(party, ())]
            if tab.locator(f"[data-card={party}]").count():
                assert rows(tab, party) == learnt
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_masks_and_shares_on_the_screen_add_up(tab: Any) -> None:
    show(tab, "wire", "chapters/00_start_here.html")

    def end(model: str) -> dict[str, str]:
        tab.get_by_role("radio", name=model).check()
        rewind(tab)
        while tab.get_by_role("button", name="Step ▶").is_enabled():
            tab.get_by_role("button", name="Step ▶").click()
        return dict(rows(tab, "c2"))  # type: ignore[arg-type]

    seen = end("Masked")
    server = rows(tab, "s")
    total = sum(number(v) for k, v in server if "sent" in k)
    assert total % wire.RING == number(dict(server)["masked total"])
    masks = sum(number(seen[f"mask {j}"]) for j in (1, 2, 3))
    assert total % wire.RING == number(seen["masked total"])
    assert (total - masks) % wire.RING == number(seen[f"total {MINUS} masks"])
    tab.locator("[data-party=s]").click()  # through the server's eyes
    assert "has ?" in tab.locator("[data-party=c1]").text_content()
    tab.keyboard.press("Enter")
    assert "has 12" in tab.locator("[data-party=c1]").text_content()
    seen = end("Serverless")
    assert sum(number(seen[f"share for {j}"]) for j in (1, 2, 3)) % wire.RING == 7
    told = sum(number(seen[k]) for k in ("held + noise", "1 told", "3 told"))
    assert told % wire.RING == number(seen["the three added up"])


@pytest.mark.parametrize(
    ("tab", "moves"), [({"reduced_motion": "no-preference"}, 3), ({}, 0)], indirect=["tab"]
)
def test_it_moves_unless_asked_not_to(tab: Any, moves: int) -> None:
    show(tab, "wire", "index.html")
    rewind(tab)
    tab.get_by_role("button", name="Step ▶").click()
    assert (
        tab.evaluate("document.querySelector('.lv').getAnimations({subtree: true}).length") == moves
    )


THUMB = {"has_touch": True, "viewport": {"width": 390, "height": 844}}


@pytest.mark.parametrize("tab", [THUMB], indirect=True)
def test_thumbs(tab: Any) -> None:
    show(tab, "wire", "index.html")
    rewind(tab)
    tab.get_by_role("button", name="Step ▶").tap()
    tab.locator("[data-party=p]").tap()
    assert tab.locator(".lv-pill-sealed").count() == 3


@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_without_javascript_a_picture_stands_there(tab: Any) -> None:
    for name, chapter in living.PLACES.items():
        (path,) = SITE.glob(f"chapters/{chapter}_*.html")
        tab.goto(path.as_uri())
        question = tab.locator(".lv", has_text=living.WORDS[name][0])
        assert question.locator(".lv-still svg").first.is_visible(), name


def test_the_score_of_the_best_attacker_is_the_rule_s(tab: Any) -> None:
    data = show(tab, "alice", "chapters/00_start_here.html")
    box = tab.locator(".lv[data-living=alice]")
    for i, level in enumerate(data["levels"]):
        box.locator("#lv-epsilon").focus()
        tab.keyboard.press("Home")
        for _ in range(i):
            tab.keyboard.press("ArrowRight")
        words = box.locator(".lv-score").inner_text()
        for share in (level["best"], level["ceiling"]):
            assert f"{100 * share:.{1 + (share > 0.99)}f} %" in words and "100.0" not in words
        answers, truth = level["answers"][0], level["in"][0]
        for answer in answers:
            assert box.locator(".lv-number").inner_text() == f"{answer:.2f}"
            box.get_by_role(
                "button", name="Alice is in" if answer > 200.5 else "She is not"
            ).click()
        right = sum((a > 200.5) == bool(t) for a, t in zip(answers, truth, strict=True))
        said = box.locator(".lv-score tr td:last-child").all_inner_texts()
        assert said[:2] == [f"{right} of 10"] * 2
        at = f"living.density(199.3, 200, {level['epsilon']})"
        e = level["epsilon"]
        assert tab.evaluate(at) == pytest.approx(e / 2 * 2.718281828459045 ** (-0.7 * e), rel=1e-12)


def test_each_look_costs_what_the_ledger_said(tab: Any) -> None:
    data = show(tab, "lloyd", "chapters/01_fastlloyd.html")
    box = tab.locator(".lv[data-living=lloyd]")
    box.get_by_role("radio", name="k = 6").check()
    box.locator("input[type=range]").focus()
    tab.keyboard.press("End")
    case = next(c for c in data["cases"] if (c["k"], c["epsilon"]) == (6, 8.0))
    for draw, cost in enumerate(case["costs"]):
        if draw:
            box.get_by_role("button", name="Draw again").click()
        assert f"spent ε = {cost:.2f}" in box.inner_text().replace("\n", " ")
        assert box.locator(".lv-cloud").count() == 6 * draw
        assert box.locator(".lv-cross").count() == np.count_nonzero(case["sizes"])
        assert ("refused" in box.locator(".lv-say").inner_text()) == (cost > data["budget"])
    assert not box.get_by_role("button", name="Draw again").is_enabled()


@pytest.mark.parametrize("tab", [THUMB], indirect=True)
def test_the_price_is_that_of_the_table(tab: Any) -> None:
    data = show(tab, "lines", "chapters/05_side_by_side.html")
    box = tab.locator(".lv[data-living=lines]")
    for panel, name in enumerate(p["name"] for p in data["panels"]):
        box.get_by_label("panel").select_option(name)
        box.locator("input[type=range]").focus()
        for key, at in (("Home", 0), ("End", -1)):
            tab.keyboard.press(key)
            shown = [float(v) for v in box.locator(".lv-legend b").all_inner_texts()]
            stored = [line["points"][at][1] for line in data["panels"][panel]["lines"]]
            assert shown == pytest.approx(stored, rel=6e-3)
            methods = [line["methods"][at] for line in data["panels"][panel]["lines"]]
            said = box.locator(".lv-say").inner_text()
            assert re.findall(r"\(([^)]+)\)", said) == methods
    fits(tab)
