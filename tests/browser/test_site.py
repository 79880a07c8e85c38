"""The book in a real browser without a network: every page, light and dark, desktop and phone.

`make browser-test` builds the book first (`make site`). Pages are opened as files. Screenshots are
left in build/site-shots.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pytest
from browser_cases import faults, running_browser  # noqa: F401  (a fixture)
from matplotlib.colors import rgb_to_hsv, to_rgb
from PIL import Image

from studies.bench import readable, style
from tools.site.settings import Place

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
SHOTS = ROOT / "build" / "site-shots"
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts
)
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
DESKTOP, PHONE = {"width": 1300, "height": 900}, {"width": 390, "height": 844}
WIDE, SMALL = {"width": 1440, "height": 900}, {"width": 320, "height": 600}
LOWEST_CONTRAST = 4.5
LOCAL = ("file:", "data:", "blob:", "about:")
SEARCHES = {
    "eigengap": "chapters/02_feddp_kmeans.html",
    "rebalancing": "chapters/04_rr_cluster.html",
    "Bitstogram": "chapters/03_locally_private_kmeans.html",
    "FastLloyd": "chapters/01_fastlloyd.html",
    "FastLloydKMeans": "api/FastLloydKMeans.html",
    "install": "using.html",
    "quickstart": "using.html",
}
SHOWN = ("index", "chapters/01_fastlloyd", "claims", "results/fastlloyd", "api/fastlloyd")

if not PAGES:
    pytest.skip("the book is not built: run `make site`", allow_module_level=True)

# --- what the files say ---------------------------------------------------------------------------


class Page(HTMLParser):
    """Ids, links, sources, images and formulas of one page."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.formulas = 0
        self.bare_images = 0
        self.feed((SITE / name).read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[key] for key in ("id", "name") if key in found}
        self.links += [found[key] for key in ("href", "src") if key in found]
        self.formulas += "math notranslate" in found.get("class", "")
        self.bare_images += tag == "img" and not found.get("alt", "").strip()


@pytest.fixture(scope="module")
def parsed() -> dict[str, Page]:
    return {name: Page(name) for name in PAGES}


def test_every_link_and_source_is_there(parsed: dict[str, Page]) -> None:
    broken, seen = [], 0
    for name, page in parsed.items():
        for link in page.links:
            if re.match(r"https?:|mailto:|data:|javascript:", link):
                continue
            path, _, fragment = link.partition("#")
            path = unquote(path.split("?")[0])
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            target = target if path else name
            seen += 1
            if not (SITE / target).is_file():
                broken.append(f"{name}: {link}")
            elif fragment and target in parsed and unquote(fragment) not in parsed[target].ids:
                broken.append(f"{name}: {link} (no such place)")
    assert seen > 1000
    assert not sorted(set(broken))
    assert sum(page.formulas for page in parsed.values()) > 300
    assert not {name for name, page in parsed.items() if page.bare_images}, "without words"
    there = Place("a/b")
    assert (SITE / there.preview.removeprefix(there.site)).is_file()


def test_tables_and_code_are_no_running_text() -> None:
    """A Markdown table of an output, and an indented block of a docstring, keep their lines."""
    texts = {name: (SITE / name).read_text(encoding="utf-8") for name in PAGES}
    assert not [name for name, text in texts.items() if "<p>|" in text]
    assert texts["chapters/05_side_by_side.html"].count("<table") > 6
    api = [text for name, text in texts.items() if name.startswith("api/")]
    assert not [text for text in api if "<blockquote" in text or "\\_" in text]
    words = re.compile(r"title=\"[\w.]+\.[a-z_]+\"><em>|ForwardRef|built-in function|>args</span>")
    assert not [words.findall(text) for text in api if words.search(text)], "types that are words"
    assert "--config fit.toml" in texts["api/command.html"]


def test_figures_bring_their_own_background() -> None:
    """Axes and labels are drawn on white: without transparency they stay readable in the dark."""
    figures = sorted((SITE / "figures").glob("*.png"))
    assert len(figures) > 30
    for path in figures:
        image = Image.open(path)
        assert "transparency" not in image.info, path.name
        if image.mode in ("RGBA", "LA"):
            assert image.getchannel("A").getextrema() == (255, 255), path.name


def test_colours_of_figures_stay_in_the_dark(tab: Opened) -> None:
    """White is the page's black, black is nearly white; colours keep their hue and are seen."""
    page = visit(tab, "index.html")
    page.evaluate(THEME, "dark")
    inks = {"paper": "#ffffff", "ink": "#000000"} | {
        name: getattr(style, name.upper())
        for name in ("blue", "orange", "red", "plum", "purple", "dark", "muted")
    }
    cell = "<i style='display:inline-block;width:20px;height:20px;background:{}'></i>"
    page.evaluate(
        "html => { document.querySelector('.bd-article').innerHTML ="
        " `<p id=inks style='filter:url(#in-the-dark);width:200px;height:20px;line-height:0'>"
        "${html}</p>`; }",
        "".join(cell.format(ink) for ink in inks.values()),
    )
    shot = Image.open(BytesIO(page.locator("#inks").screenshot())).convert("RGB")
    seen = {name: shot.getpixel((20 * i + 10, 10)) for i, name in enumerate(inks)}
    below = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert np.allclose(seen["paper"], [int(part) for part in re.findall(r"\d+", below)], atol=8)
    assert min(seen["ink"]) > 240
    for name, ink in inks.items():
        if name != "paper":
            light, dark = (readable.lightness([v / 255 for v in seen[n]]) for n in (name, "paper"))
            assert light - dark > 35, name
        if name in ("blue", "orange", "red", "plum", "purple"):
            was, now = rgb_to_hsv(to_rgb(ink))[0], rgb_to_hsv(np.divide(seen[name], 255))[0]
            assert abs(was - now) < 0.03, name


@pytest.mark.parametrize("stem", CHAPTERS)
def test_a_chapter_has_what_a_printed_one_has(stem: str) -> None:
    text = (SITE / "chapters" / f"{stem}.html").read_text(encoding="utf-8")
    for word in ("Cite this chapter", "Version 0.", "copybutton.js", "hide-input"):
        assert word in text, word
    committed = (ROOT / "notebooks" / f"{stem}.py").read_bytes()
    assert (SITE / "files" / "notebooks" / f"{stem}.py").read_bytes() == committed


# --- what a browser shows -------------------------------------------------------------------------

# Pairs of text colour and background below the contrast, as WCAG 2 computes it, with an example.
CONTRAST = r"""(lowest) => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const known = new Map();
    const parse = text => {
        if (!known.has(text)) {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = text;
            canvas.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
            known.set(text, [r, g, b, a / 255]);
        }
        return known.get(text);
    };
    const over = (top, below) => {
        const mix = i => top[i] * top[3] + below[i] * (1 - top[3]);
        return [mix(0), mix(1), mix(2), 1];
    };
    const backgrounds = new Map();
    const background = element => {
        if (!element) return [255, 255, 255, 1];
        if (!backgrounds.has(element)) {
            const own = parse(getComputedStyle(element).backgroundColor);
            const result = own[3] === 1 ? own : over(own, background(element.parentElement));
            backgrounds.set(element, result);
        }
        return backgrounds.get(element);
    };
    const luminance = colour => {
        const [r, g, b] = colour.map(v => v / 255).map(
            v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const low = {};
    let texts = 0;
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        const text = walk.currentNode.textContent.trim();
        if (!text || !element.checkVisibility({visibilityProperty: true, opacityProperty: true}))
            continue;
        if (element.closest('script, style, noscript, mjx-assistive-mml')) continue;
        texts += 1;
        const below = background(element);
        const colour = over(parse(getComputedStyle(element).color), below);
        const [x, y] = [luminance(colour), luminance(below)].sort((a, b) => b - a);
        const ratio = (x + 0.05) / (y + 0.05);
        if (ratio < lowest) {
            const shown = c => c.slice(0, 3).map(Math.round);
            const key = shown(colour) + ' on ' + shown(below);
            low[key] ??= `${ratio.toFixed(2)} ${element.tagName}.${element.className}: `
                + text.slice(0, 40);
        }
    }
    return {texts, low};
}"""
STATE = """async () => {
    if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
    await document.fonts.ready;
    const images = [...document.images];
    images.forEach(image => { image.loading = 'eager'; });
    await Promise.all(images.map(image => image.decode().catch(() => null)));
    return {
        formulas: document.querySelectorAll('.math mjx-container').length,
        wrong: document.querySelectorAll('mjx-merror, [data-mjx-error]').length,
        broken: images.filter(image => !image.naturalWidth).map(image => image.src),
    };
}"""
# Boxes that scroll sideways, and those where that is not said, or still said at the end of them.
SCROLLING = r"""async () => {
    const frames = () => new Promise(done => requestAnimationFrame(() =>
        requestAnimationFrame(() => setTimeout(done))));
    const name = box => `${box.tagName}.${box.className}: ${box.textContent.trim().slice(0, 30)}`;
    const faded = box => getComputedStyle(box).maskImage !== 'none';
    const said = () => [...document.querySelectorAll('.more-sign')].filter(sign =>
        sign.checkVisibility({visibilityProperty: true}));
    document.querySelectorAll('.bd-article *').forEach(box => { box.scrollLeft = 0; });
    await frames();
    const boxes = [...document.querySelectorAll('.bd-article *')].filter(box =>
        box.checkVisibility() && box.scrollWidth > box.clientWidth + 2 && box.clientWidth > 0
        && ['auto', 'scroll'].includes(getComputedStyle(box).overflowX));
    const keyed = box => box.tabIndex === 0 && box.role && box.ariaLabel;
    const untold = boxes.filter(box => !(faded(box) && keyed(box))).map(name);
    const extra = said().length - Math.min(1, boxes.length);
    boxes.forEach(box => { box.scrollLeft = box.scrollWidth; });
    await frames();
    return {boxes: boxes.map(name), extra, untold,
            still: boxes.filter(box => faded(box) || said().length).map(name)};
}"""
CUT = """() => {
    const right = document.querySelector('.bd-article').getBoundingClientRect().right;
    const seen = [...document.querySelectorAll('.bd-article :is(table, pre, img, mjx-container)')];
    return seen.filter(e => e.checkVisibility()
        && (e.getBoundingClientRect().right > right + 2 || (e.scrollWidth > e.clientWidth + 2
            && e.clientWidth > 0 && e.matches('pre, .MathJax[display]'))))
        .map(e => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 30)}`);
}"""
# Pictures that no scrolling brings into sight.
HIDDEN_LEFT = r"""() => [...document.querySelectorAll('.bd-article img')].filter(image => {
    let left = image.getBoundingClientRect().left, hidden = false;
    for (let box = image.parentElement; box; box = box.parentElement)
        if (getComputedStyle(box).overflowX !== 'visible') {
            left += box.scrollLeft;
            hidden ||= left < box.getBoundingClientRect().left - 1;
        }
    return hidden && image.checkVisibility() && getComputedStyle(image).position !== 'absolute';
}).map(image => image.src)"""
# Sentences in a column that is too narrow to be read.
NARROW = r"""() => [...document.querySelectorAll('.bd-article td')]
    .filter(e => e.checkVisibility() && e.textContent.trim().length > 60 && e.clientWidth < 90)
    .map(e => e.textContent)"""
NAMELESS = r"""() => [...document.querySelectorAll('.bd-article :is(summary, th, button)')]
    .filter(e => e.checkVisibility() && !e.textContent.trim() && !e.ariaLabel && !e.title
        && !e.querySelector('svg, img, i'))
    .map(e => e.outerHTML.slice(0, 80))"""
THEME = "name => { document.documentElement.dataset.theme = name; }"
STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"


class Opened(NamedTuple):
    """A tab without a network, and what went wrong in it."""

    page: Any
    problems: list[str]


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Opened]:
    context = browser.new_context(viewport=DESKTOP, color_scheme="light", offline=True)
    context.set_default_timeout(120_000)  # a busy machine
    page = context.new_page()
    problems: list[str] = []
    page.on("request", lambda r: None if r.url.startswith(LOCAL) else problems.append(r.url))
    left = "net::ERR_ABORTED"  # by going on to the next page
    page.on("requestfailed", lambda r: r.failure == left or problems.append(f"failed: {r.url}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on(
        "console",
        lambda m: (
            problems.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None
        ),
    )
    yield Opened(page, problems)
    context.close()


def visit(tab: Opened, name: str) -> Any:
    """Open a page of the book."""
    tab.problems.clear()
    tab.page.set_viewport_size(DESKTOP)
    tab.page.goto((SITE / re.split("[?#]", name)[0]).as_uri() + "".join(re.findall("[?#].*", name)))
    tab.page.add_style_tag(content=STILL)
    return tab.page


def test_pale_text_is_found(tab: Opened) -> None:
    page = visit(tab, "index.html")
    pale = '<body style="background:#fff"><p style="color:#999">pale</p><p>dark</p></body>'
    page.set_content(pale)
    found = page.evaluate(CONTRAST, LOWEST_CONTRAST)
    assert found["texts"] == 2
    assert list(found["low"]) == ["153,153,153 on 255,255,255"]


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, tab: Opened, parsed: dict[str, Page]) -> None:
    page = visit(tab, name)
    state = page.evaluate(STATE)
    assert state["formulas"] == parsed[name].formulas, "every formula is set"
    assert not state["wrong"], "a formula that MathJax does not understand"
    assert not state["broken"]
    for theme in ("light", "dark"):
        page.evaluate(THEME, theme)
        found = page.evaluate(CONTRAST, LOWEST_CONTRAST)
        assert found["texts"] > 10
        assert not found["low"], theme
        filters = page.evaluate(
            "() => [...document.querySelectorAll('.bd-content img')]"
            ".filter(i => !i.closest('.photograph')).map(i => getComputedStyle(i).filter)"
        )
        turned = "none" if theme == "light" else 'url("#in-the-dark")'
        assert set(filters) <= {turned}, "figures follow the theme"
    assert_scrolling_is_told(page)
    if name.startswith("chapters/"):
        page.set_viewport_size(WIDE)
        assert not page.evaluate(SCROLLING)["boxes"], "a chapter fits on a wide page"
    for size in (SMALL, PHONE):
        page.set_viewport_size(size)
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= size["width"], "scrolls sideways on a phone"
    assert_scrolling_is_told(page)
    assert not page.evaluate(HIDDEN_LEFT), "begins left of what it scrolls in"
    assert not page.evaluate(NARROW)
    assert not page.evaluate(NAMELESS), "a control without a name, an empty heading"
    assert not tab.problems


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", [*SHOWN, "chapters/00_start_here", "search"])
def test_everybody_can_use_it(name: str, size: dict[str, int], tab: Opened) -> None:
    page = visit(tab, f"{name}.html" + ("?q=noise" if name == "search" else ""))
    page.set_viewport_size(size)
    page.evaluate(STATE)
    assert not faults(page)


def assert_scrolling_is_told(page: Any) -> int:
    """What is wider than the page says so until its end is reached."""
    found = page.evaluate(SCROLLING)
    assert not found["untold"] and found["extra"] == 0, "scrolls sideways and does not say so"
    assert not found["still"], "says that there is more where there is none"
    return len(found["boxes"])


def test_what_scrolls_says_so(tab: Opened) -> None:
    """Figures, tables, formulas, code; also where no sign was made."""
    kinds = {"chapters/05_side_by_side": "figure", "made": "table"}
    kinds["chapters/00_start_here"] = "formula"
    for name, kind in kinds.items():
        page = visit(tab, f"{name}.html")
        page.set_viewport_size(PHONE)
        page.evaluate(STATE)
        n = assert_scrolling_is_told(page)
        folded = page.locator(".hide-input summary, .tag_hide-input summary").all()
        for summary in folded:
            summary.click()
        assert assert_scrolling_is_told(page) >= n + bool(folded) > 0
        labels = page.locator("[aria-label$='scrolls sideways']").evaluate_all(
            "all => all.map(box => box.ariaLabel)"
        )
        assert any(re.fullmatch(rf"{kind} \d+, scrolls sideways", label) for label in labels)
        assert len(set(labels)) == len(labels), "regions have names of their own"
    # by keyboard
    page = visit(tab, "made.html")
    page.set_viewport_size(PHONE)
    box = page.locator(".has-more").first
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize(("word", "expected"), SEARCHES.items())
def test_search_finds(word: str, expected: str, tab: Opened) -> None:
    page = visit(tab, f"search.html?q={word}")
    page.locator("#search-results li a").first.wait_for(timeout=10_000)
    page.locator("#search-results p.search-summary").filter(
        has_text=re.compile(r"\d|one page")
    ).wait_for()
    links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    assert f"/{expected}" in links[0], links  # a chapter before the reference, but for a full name
    if "#" not in links[0].replace("#:~:", ""):  # whole pages open where the word stands
        assert links[0].endswith(f"#:~:text={word}")
        page.locator("#search-results li a").first.click()
        page.wait_for_url(f"**/{expected}*")
        if word in ("eigengap", "Bitstogram"):  # the others stand in the first lines, too
            page.wait_for_function("scrollY > 300")
    assert not tab.problems


def test_a_verdict_stands_first_on_a_phone(tab: Opened) -> None:
    page = visit(tab, "chapters/01_fastlloyd.html")
    table = page.locator("table.verdicts").last
    row = table.locator("tbody tr").first
    assert row.locator("td").last.bounding_box()["x"] > row.locator("td").first.bounding_box()["x"]
    page.set_viewport_size(PHONE)
    first, last = (row.locator("td").nth(i).bounding_box() for i in (0, -1))
    assert last["y"] < first["y"] and first["width"] > 250


def test_a_result_table_is_picked_sorts_and_filters(tab: Opened) -> None:
    page = visit(tab, "results/locally_private_k_means.html#ldp_trust")
    rows = page.locator(".results-table tbody tr")
    column = "() => [...document.querySelectorAll('.results-table tbody td:nth-child(8)')]"
    column += ".map(cell => Number(cell.textContent))"
    rows.first.wait_for()
    assert rows.count() == 50
    page.get_by_role("button", name="show more rows").click()
    total = rows.count()
    assert total == 63
    page.get_by_role("button", name="cost_per_point").click()
    rising = page.evaluate(column)
    assert rising == sorted(rising) and len(set(rising)) > 10
    page.get_by_role("button", name="cost_per_point").click()
    assert page.evaluate(column) == rising[::-1]
    page.get_by_placeholder("filter rows").fill("local alg1")
    assert 0 < rows.count() < total
    assert all("alg1" in text for text in rows.all_inner_texts())
    page.get_by_label("table", exact=True).select_option("ldp_oracles")
    page.get_by_role("button", name="oracle").first.wait_for()
    assert "ldp_oracles.csv" in page.locator(".results-said").inner_text()
    assert not tab.problems


def test_claims_filter_and_links_find_them(tab: Opened) -> None:
    page = visit(tab, "claims.html")
    shown = page.locator(".claim:visible")
    total = shown.count()
    page.get_by_label("all verdicts").select_option("refuted")
    page.get_by_label("all papers").select_option("RR-Cluster")
    words = page.get_by_label("all verdicts").locator("option:checked").inner_text()
    assert words == f"refuted ({shown.count()})" and 0 < shown.count() < total
    assert page.locator("section:visible > h2").count() == 2, "one list, and what verdicts mean"
    page.evaluate("() => { location.hash = '#F12'; }")
    page.locator("#F12").wait_for()
    assert shown.count() == total
    slips = page.get_by_label("any kind of slip")
    slips.select_option(index=1)
    assert f"({shown.count()})" in slips.locator("option:checked").inner_text()
    names = page.locator(".claim-legend").inner_text()
    assert "refuted" in names
    page.locator(".claim-bar button").first.click()
    assert 0 < shown.count() < total
    # a view has an address
    page = visit(tab, "claims.html?paper=RR-Cluster&verdict=refuted")
    n = page.locator(".claim:visible").count()
    assert 0 < n == int(page.locator(".claim-count").inner_text().split()[0])
    assert page.get_by_label("all verdicts").input_value() == "refuted"


@pytest.mark.parametrize("width", [390, 800, 1300])
def test_the_menus_open_go_and_close(width: int, tab: Opened) -> None:
    page = visit(tab, "chapters/01_fastlloyd.html")
    page.set_viewport_size({"width": width, "height": 844})
    menus = "#pst-primary-sidebar, #pst-primary-sidebar-modal"
    link = page.locator(menus).get_by_role("link", name="02 FedDP-KMeans")
    button = page.locator(".primary-toggle:visible")
    if width == 1300:  # beside the text: the button folds it
        assert link.is_visible()
        button.click()
        link.wait_for(state="hidden")
        button.click()
        link.wait_for()
    else:
        assert not link.is_visible()
        button.focus()
        page.keyboard.press("Enter")
        link.wait_for()
        page.keyboard.press("Escape")
        link.wait_for(state="hidden")
        page.locator(".secondary-toggle:visible").click()
        page.locator("dialog[open]").get_by_role("link", name="Try it").click()
        page.wait_for_function(
            "location.hash === '#try-it' && !document.querySelector('dialog[open]')"
        )
        button.click()
    link.click()
    page.wait_for_url("**/02_feddp_kmeans.html")
    assert not tab.problems


def test_printing_leaves_the_frame_away(tab: Opened) -> None:
    page = visit(tab, f"chapters/{CHAPTERS[0]}.html")
    page.emulate_media(media="print")
    for frame in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".prev-next-footer"):
        assert not page.locator(frame).first.is_visible(), frame
    assert page.locator("article h1").is_visible()
    assert page.locator("article img").first.is_visible()
    assert not page.locator(".cell details.hide").first.is_visible(), "code that is folded"
    page.emulate_media(media="screen")
    page.evaluate(THEME, "dark")
    for event, theme in (("beforeprint", "light"), ("afterprint", "dark")):
        page.evaluate("name => dispatchEvent(new Event(name))", event)
        assert page.evaluate("document.documentElement.dataset.theme") == theme, "paper is white"
        answer = page.locator("details:not(.hide)", has_text="learns nothing but random").last
        assert (answer.get_attribute("open") is None) == (event == "afterprint")


WIDEST = ["results/rr_cluster#rr_paired", "results/rr_cluster#rr_torch"]  # of all tables


@pytest.mark.parametrize(
    "name", [f"chapters/{stem}" for stem in CHAPTERS] + ["made", "symbols", *WIDEST]
)
def test_paper_cuts_nothing(name: str, tab: Opened) -> None:
    """Nothing is wider than the page (A4, margins of 15 mm; results lie on their side)."""
    path, _, table = name.partition("#")
    page = visit(tab, f"{path}.html" + (f"#{table}" if table else ""))
    width = 1009 if name.startswith("results/") else 680
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(STATE)
    page.emulate_media(media="print")
    assert not page.evaluate(CUT)
    page.emulate_media(media="screen")


@pytest.mark.parametrize("name", SHOWN)
def test_screenshots(name: str, tab: Opened) -> None:
    """For the eye: what no count shows."""
    page = visit(tab, f"{name}.html")
    page.evaluate(STATE)
    for theme in ("light", "dark"):
        page.evaluate(THEME, theme)
        for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
            page.set_viewport_size(size)
            path = SHOTS / f"{name.replace('/', '_')}-{device}-{theme}.png"
            assert len(page.screenshot(path=path)) > 5_000
