"""How the book's pages are made from what is committed; what they show is seen by a browser."""

from __future__ import annotations

import base64
import html
import importlib
import inspect
import json
import math
import re
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from conftest import refuses

from studies.bench import plots
from tools.site import api, chapters, claims, living, mathjax, pages, tables, wire
from tools.site.links import SCHEME, Book, blocks, markdown, targets
from tools.site.settings import Place, place

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


@pytest.fixture
def book(tmp_path: Path) -> Book:
    where = {"notebooks/00_a.ipynb": "chapters/00_a", "docs/symbols.md": "symbols"}
    where |= {"data/results/claims.md": "claims", "data/results/rivals.csv": "results/x#rivals"}
    return Book(ROOT, tmp_path, tmp_path / "extra", where)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[F12](../data/results/claims.md#F12)", "[F12](site:../claims.html#F12)"),
        ("[all](../data/results/claims.md)", "[all](site:../claims.html)"),
        ("[t](../data/results/rivals.csv)", "[t](site:../results/x.html#rivals)"),
        ("([two\nlines](\n../docs/symbols.md)).", "([two\nlines](site:../symbols.html))."),
        ("[licence](../LICENSE)", "[licence](site:../files/LICENSE)"),
        ("[far](https://example.org/x)", "[far](https://example.org/x)"),
        ("[here](#below)", "[here](#below)"),
        ("```\n[x](../docs/symbols.md)\n```\n", "```\n[x](../docs/symbols.md)\n```\n"),
        ("$[0, 1]$ (see [b [c]](../docs/symbols.md#x))", None),
    ],
)
def test_links_follow_their_files(text: str, expected: str | None, book: Book) -> None:
    found = book.rewrite(text, "notebooks/00_a.ipynb", "chapters/00_a")
    assert found == (expected or "$[0, 1]$ (see [b [c]](site:../symbols.html#x))")
    if "LICENSE" in text:
        assert (book.extra / "files" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_link_to_nothing_is_an_error(book: Book) -> None:
    with pytest.raises(FileNotFoundError, match="docs/nothing.md"):
        book.rewrite("[x](../docs/nothing.md)", "notebooks/00_a.ipynb", "chapters/00_a")


def test_targets_are_those_of_the_prose() -> None:
    text = 'a [x](one.md#y) `[z](two.md)`\n```\n[c](three.md)\n```\n<img src="four.png">'
    assert targets(text) == ["one.md#y", "four.png"]
    assert "".join(part for part, _ in blocks(text)) == text


# --- the place on the web -------------------------------------------------------------------------


def test_addresses_follow_from_one_setting() -> None:
    nowhere, there = Place(""), Place("Some/repo")
    notebook = "notebooks/00_start_here.ipynb"
    assert not nowhere.site and not nowhere.binder(notebook) and not nowhere.colab(notebook)
    assert there.site == "https://some.github.io/repo/" and not nowhere.preview
    assert there.preview == there.site + "_images/price_of_trust.png"
    assert there.binder(notebook).endswith("/gh/Some/repo/main?urlpath=lab/tree/" + notebook)
    assert there.colab(notebook).endswith("/github/Some/repo/blob/main/" + notebook)
    assert there.site in there.front and there.install("a").endswith('com/Some/repo"')


def test_all_doors_say_what_the_setting_says() -> None:
    doors = {"README.md": "", "docs/index.md": "", "docs/using.md": "data,plots"}
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in doors}
    assert texts["README.md"].split("\n")[1] == place().front
    assert all(place().install(extras) in texts[name] for name, extras in doors.items())
    assert ("git clone ADDRESS" in texts["README.md"]) == (not place().repository)


def test_no_address_is_shown_that_does_not_exist() -> None:
    """Binder, Colab and published pages need a repository: none is linked while none is named."""
    hosts = re.compile(r"mybinder\.org|colab\.research|github\.io|github\.com/([\w-]+/fedclust\b)")
    written = ["README.md", "CONTRIBUTING.md", "CITATION.cff", "CHANGELOG.md", "pyproject.toml"]
    paths = [ROOT / name for name in written] + sorted((ROOT / "docs").glob("*.md"))
    paths += sorted((ROOT / "notebooks").glob("*.py"))
    found = {path.name for path in paths if hosts.search(path.read_text(encoding="utf-8"))}
    assert place().repository or not found


@pytest.mark.parametrize("repository", ["", "some/repo"])
def test_a_chapter_names_its_address_once_there_is_one(repository: str) -> None:
    where = Place(repository)
    text = chapters.facts("01_x", "9.9", where) + chapters.citation("01_x", "Why?", "9.9", where)
    assert "version 9.9" in text and '"Why?"' in text and "files/notebooks/01_x.ipynb" in text
    assert ("https://some.github.io/repo/chapters/01_x.html" in text) == bool(repository)
    assert ("mybinder.org" in text) == bool(repository)


# --- chapters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_keeps_outputs_and_alternative_texts(path: Path, tmp_path: Path) -> None:
    listed = {f"notebooks/{p.name}": f"chapters/{p.stem}" for p in NOTEBOOKS}
    book = Book(ROOT, tmp_path, tmp_path / "extra", listed)
    chapters.stage(book, path, "9.9", Place(""), {"megabytes": 1})
    old = nbformat.read(path, as_version=4)
    new = nbformat.read(tmp_path / "chapters" / path.name, as_version=4)
    kept = {cell.id: cell for cell in new.cells}
    heading, name = new.cells[0].source.split("\n")[0], chapters.short_title(path.stem)
    assert heading.startswith(f"# {name}: ") and heading.count(name[3:]) == 1
    told = json.loads(re.findall(r'id="run-here">(.*?)</script>', new.cells[0].source)[0])
    n_code = sum(cell.cell_type == "code" for cell in old.cells)
    assert told["seconds"] > 0 and all(int(i) < n_code for i in told["slow"])
    figures = 0
    for cell in old.cells:
        if cell.cell_type != "code" or "widget" in cell.metadata.get("tags", ()):
            continue
        for was, now in zip(cell.outputs, kept[cell.id].outputs, strict=True):
            if "image/png" not in was.get("data", {}):
                assert now == was
                continue
            figures += 1
            (name,) = set(re.findall(r'src="../(figures/\w+\.png)"', now.data["text/html"]))
            stored = base64.b64decode(was.data["image/png"])
            assert (book.extra / name).read_bytes() == stored
            said = html.unescape(re.findall(r'alt="([^"]*)"', now.data["text/html"])[0])
            assert said == was.metadata["image/png"]["alt"] and len(said.split()) >= 8
    assert figures >= 3
    download = nbformat.read(book.extra / "files" / "notebooks" / path.name, as_version=4)
    assert [c.source for c in download.cells] == [c.source for c in old.cells]
    assert not any(c.get("outputs") for c in download.cells)
    widgets = [c.source for c in old.cells if "widget" in c.metadata.get("tags", ())]
    notes = [re.findall(r'class="widget-note" data-code="(.*?)"', c.source) for c in new.cells]
    assert [html.unescape(code) for found in notes for code in found] == widgets != []
    prose = "\n".join(c.source for c in new.cells if c.cell_type == "markdown")
    assert not [t for t in targets(prose) if not re.match(r"[a-z]+:|#", t)], "relative links left"


def test_panels_of_a_figure_become_parts_that_stack(book: Book) -> None:
    fig, (left, right) = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
    left.set_title("left")
    right.set_xlabel("right")
    fig.suptitle("both")
    (title, *panels), one = plots.parts(fig), plots.parts(plt.subplots()[0])
    plt.close("all")
    assert one == [] and len(panels) == 2
    assert title[1] + title[3] <= min(p[1] for p in panels) + 0.03, "the title comes first"
    assert 0 < panels[0][0] < panels[0][0] + panels[0][2] <= panels[1][0] + 0.02 < 0.9
    stored = base64.b64encode(b"\0" * 16 + struct.pack(">II", 1200, 600)).decode()
    told = {"alt": "a & b", "width": 600, "height": 300, "parts": [[0.5, 0, 0.5, 1]]}
    text = chapters.picture(book, stored, told, "chapters/x")
    assert 'alt="a &amp; b" width="600" height="300"' in text
    assert "width:min(100%,300px);aspect-ratio:1.0000" in text and "100.00% 0.00%/200.00% " in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_headings_do_not_skip_a_level(path: Path) -> None:
    prose = "".join(part for part, is_prose in blocks(markdown(path)) if is_prose)
    levels = [1, *(len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE))]
    assert all(below <= above + 1 for above, below in pairwise(levels))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_reference_can_be_listed(path: Path) -> None:
    text = markdown(path)
    part = text[re.search(r"^#+ References.*$", text, re.M).end() :]  # type: ignore[union-attr]
    found = pages.references(text)
    assert len(found) == len(re.findall(r"^\* ", part.split("\n#")[0], re.M)) > 0
    for reference in found:
        assert len(reference.title) > 10 and pages.family(reference.authors).isalpha()


def test_a_reference_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="a reference is"):
        pages.references("## References\n\n* Somebody wrote something.\n")


# --- tables, claims, reference, mathematics -------------------------------------------------------


def test_every_table_is_explained_and_grouped() -> None:
    found = tables.all_tables(ROOT / "data" / "results")
    papers = tables.papers(ROOT)
    listed = {name: said for paper in papers for name, said in paper.tables.items()}
    assert {t.name for t in found} == {*listed, "claims", "variations"}
    assert len(set(listed.values())) == len(listed)
    assert all(len(said.split()) > 3 for said in listed.values())
    assert {paper.heading for paper in papers} == set(tables.FIGURES)
    assert all(tables.FIGURES[paper.heading].table in paper.tables for paper in papers)


def test_a_commit_says_what_it_is_of() -> None:
    digits = "0123456789abcdef" * 2 + "01234567"
    assert tables.commit({"commit": digits + "+"}) == "0123456789+"
    assert tables.commit({"commit": "not recorded", "committed_in": digits}) == "(0123456789)"
    assert tables.commit({}) == "not recorded"


def test_all_rows_of_a_table_reach_the_page() -> None:
    frame = pd.DataFrame({"name": ["b", "c"], "x": ["0.12345678", ""]})
    text = tables.script("toy", frame, "by hand")
    stored = json.loads(text.removeprefix('fedclust.table("toy", ').removesuffix(");\n"))
    rest = {"columns": ["name", "x"], "numeric": [False, True], "made": "by hand"}
    assert stored == rest | {"rows": "b\t0.1235\nc\t"}


def test_a_figure_holds_each_row_of_its_table_once() -> None:
    """No point is a mean over rows that the columns do not tell apart."""
    for figure in tables.FIGURES.values():
        frame = pd.read_csv(ROOT / "data" / "results" / f"{figure.table}.csv")
        drawn = tables.drawn(figure, frame)
        for line in (line for panel in drawn["panels"] for line in panel["lines"]):
            x = [point[0] for point in line["points"]]
            assert len(set(x)) == len(x), (figure.table, line["name"])
            assert all(y == y for _, y in line["points"])


def test_rows_made_apart_are_told() -> None:
    rivals = json.loads((ROOT / "data/results/rivals.json").read_text(encoding="utf-8"))
    assert "made apart" not in tables.provenance(rivals)
    made = {"command": "one", "commit": "abc", "cpu_seconds": 1}
    apart = {"pe_means": made | {"versions": {"fedclust_helpers": "1"}}}
    assert "pe_means made apart by" in tables.provenance(rivals | {"made_apart": apart})


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("n^(1/2) <= sigma", "<i>n</i><sup>1/2</sup> ≤ σ"),
        ("2^-q at 3e-05, 1e+03", "2<sup>−<i>q</i></sup> at 3·10<sup>−5</sup>, 10<sup>3</sup>"),
        ("sqrt(2 ln(1.25/delta)) and beta_k", "√(2 ln(1.25/δ)) and β<sub><i>k</i></sub>"),
        ("a word of server_lloyds, I say", "a word of server_lloyds, I say"),
    ],
)
def test_formulas_of_claims_are_set(typed: str, printed: str) -> None:
    assert claims.set_formulas(typed) == printed


def test_the_page_of_claims_holds_each_claim_once(book: Book) -> None:
    book.pages |= tables.places(ROOT) | {"docs/glossary.md": "glossary"}
    claims.claims(book, NOTEBOOKS)
    text = (book.source / "claims.md").read_text(encoding="utf-8")
    listed = pd.read_csv(ROOT / "data/results/claims.csv", keep_default_na=False)
    cards = re.findall(
        r'<article class="claim" id="([^"]+)" data-verdict="([^"]+)" data-kind="([^"]+)"', text
    )
    told = {"paper": "the paper", "code": "its code", "ours": "ours"}
    assert cards == [(r.id, r.verdict, told[r.by]) for r in listed.itertuples()]
    others = listed.query("paper == 'fastlloyd' and by != 'ours'")
    row = next(line for line in text.splitlines() if line.startswith("| FastLloyd |"))
    assert f"| {(others.verdict == 'refuted').sum()} |" in row and row.endswith(f"{len(others)} |")


# --- living figures -------------------------------------------------------------------------------


def test_the_wire_adds_up() -> None:
    """What masks, shares and noise hide is what the library summed; nothing exact is published."""
    for model in wire.wire()["models"]:
        rows = [(p, *row) for s in model["steps"] for p, own in s["learn"].items() for row in own]
        assert not [row for row in rows if row[0] == "p" and row[3] != "noised"]
        exact = {row[0] for row in rows if row[3] == "exact"} - set(wire.CLIENTS)
        assert exact == {"trusted": {"s"}, "ideal": {"m"}}.get(model["id"], set())


def test_nobody_beats_the_ceiling() -> None:
    for level in living.alice()["levels"]:
        epsilon, best = level["epsilon"], level["best"]
        assert level["ceiling"] == pytest.approx(1 / (1 + math.exp(-epsilon)), abs=1e-6)
        assert 0.5 < best < level["ceiling"] and level["scale"] == pytest.approx(1 / epsilon)
        x = np.arange(-60, 60, 0.001)  # the better half of two Laplace densities, integrated
        worlds = [epsilon / 2 * np.exp(-epsilon * np.abs(x - c)) for c in (0, 1)]
        assert best == pytest.approx(np.maximum(*worlds).sum() * 0.001 / 2, abs=3e-3)


def test_each_look_at_the_centres_costs() -> None:
    for case in living.lloyd(draws=3)["cases"]:
        assert case["costs"][0] == pytest.approx(case["epsilon"], abs=2e-3)
        assert case["costs"] == sorted(set(case["costs"]))
        assert case["costs"][1] < 2 * case["epsilon"], "noises of Gauss add up in squares"
        assert sum(case["sizes"]) == 240


def test_each_figure_is_asked_for_once_by_its_chapter() -> None:
    asked = [
        (name, path.stem[:2])
        for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py"))
        for name in re.findall(r"<!-- living: (\w+) -->", path.read_text(encoding="utf-8"))
    ]
    assert asked == list(living.PLACES.items())
    text = living.placed("# A\n\n<!-- living: alice -->\n\n## B")
    assert text.startswith("# A\n\n```{raw} html\n<figure") and text.endswith("```\n\n## B")
    assert 'data-living="alice"' in text


def test_a_claim_links_to_the_chapters_that_cite_it() -> None:
    cited = claims.cited_in(NOTEBOOKS)
    assert cited["L11"] == ["01_fastlloyd"] and "05_side_by_side" in cited["S.rivals.split"]
    text = (ROOT / claims.CLAIMS).read_text(encoding="utf-8")
    assert set(cited) <= set(re.findall(r'<a id="([^"]+)">', text))


def test_the_glossary_names_sections_that_are_there(book: Book) -> None:
    book.pages["docs/glossary.md"] = "glossary"
    pages.glossary(book, NOTEBOOKS)
    text = (book.source / "glossary.md").read_text(encoding="utf-8")
    links = re.findall(r"\[(chapter \d\d[^]]*)\]\(([^)]*)\)", text)
    assert len(links) > 40 and not re.findall(r"(?<!\[)chapter \d\d", text)
    at = "site:chapters/00_start_here.html#what-does-asking-again-cost"
    assert ("chapter 00, section 8", at) in links
    with pytest.raises(ValueError, match=r"names chapter 00, section \d: no such"):
        pages.glossary(book, NOTEBOOKS[1:])


def holds(text: str, name: str) -> bool:
    """Whether all words of a name begin words of the text, by their first six letters."""
    words = [word[:6] for word in re.findall(r"[^\W\d_]{2,}", name)]
    return all(re.search(rf"\b(Fast)?{word}", text, re.IGNORECASE) for word in words)


def test_a_section_that_the_glossary_names_holds_the_word() -> None:
    there: dict[tuple[str, str], str] = {}
    for path in NOTEBOOKS:
        parts = re.split(r"^## (?:(\d+)\. )?", markdown(path), flags=re.MULTILINE)
        for number, body in zip(["", *parts[1::2]], parts[::2], strict=True):
            there.setdefault((path.stem[:2], number or ""), body)
    glossary, missing, n_entries = (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), [], 0
    for names, text in re.findall(r"^((?:\w.*\n)+)((?:  .*\n)+)", glossary, re.MULTILINE):
        if not (at := re.findall(r"chapter\s+(\d\d)(,\s+sections?\s[\d\sand]+)?", text)):
            continue
        n_entries += 1
        for chapter, sections in at:
            for number in re.findall(r"\d+", sections) or [""]:
                if not any(holds(there[chapter, number], name) for name in names.splitlines()):
                    missing.append(f"{names.split()[0]}: chapter {chapter}, section {number}")
    assert n_entries > 40 and not missing


def test_the_reference_lists_what_is_public() -> None:
    listed = {name: api.members(name) for name in api.module_names()}
    assert api.estimators("fedclust.estimators") and not api.estimators("fedclust_helpers.kmeans")
    assert "plan" in listed["fedclust_helpers.fastlloyd"]
    assert "FastLloydKMeans" in listed["fedclust.estimators"]
    assert "plan" not in listed["fedclust_helpers.fastlloyd.algorithm"], "shown by the package"
    assert not [name for name in listed if ".studies" in name or "._" in name]
    for estimator in ("FastLloydKMeans", "RRCluster"):
        lines = api.entry("fedclust.estimators", estimator)
        hidden = {n for line in lines if "exclude" in line for n in re.findall(r"\w+", line)}
        assert "   :inherited-members:" in lines and "get_params" in hidden
        assert not hidden & {"fit", "predict", "preview", "statement", "rehearse", "save", "score"}


def test_mathjax_is_what_the_lock_names(tmp_path: Path, monkeypatch: Any) -> None:
    """npm checks the hashes; without it a sentence says what is lacking, also for another lock."""
    lock = json.loads((mathjax.HERE / mathjax.LOCK).read_text(encoding="utf-8"))
    packages = [facts for name, facts in lock["packages"].items() if name]
    assert len(packages) == 3 and all(p["integrity"].startswith("sha512-") for p in packages)
    monkeypatch.setenv("FEDCLUST_SITE_CACHE", str(tmp_path))
    monkeypatch.setattr(mathjax.shutil, "which", lambda name: None)
    refuses(SystemExit, "the book needs MathJax once", mathjax.unpack, tmp_path / "out")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / f".{mathjax.LOCK}").touch()
    (tmp_path / mathjax.LOCK).write_text("{}")
    refuses(SystemExit, "install npm", mathjax.unpack, tmp_path / "out")


def test_pages_of_the_book_only_are_marked() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    own = [t for t in targets(text) if t.startswith(SCHEME)]
    assert {"site:api/index.html", "site:results/index.html"} <= set(own)


@pytest.mark.parametrize("name", [n for n in api.module_names() if n.count(".") == 1])
def test_a_page_of_the_reference_has_examples(name: str) -> None:
    """Its module has one, and each class, there or of its own; errors and warnings are raised."""
    module = importlib.import_module(name)
    shown = "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*", module.__doc__ or "", re.M))
    if members := [getattr(module, member) for member in api.members(name)]:
        assert shown or name == "fedclust.command"
    for value in members:
        if inspect.isclass(value) and not issubclass(value, Exception):
            named = re.search(rf"\b{value.__name__}\b", shown)
            assert named or ">>> " in (value.__doc__ or ""), value.__name__
