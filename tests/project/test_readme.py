"""The code in the README and on the page "use it" runs as printed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
README, USE = ROOT / "README.md", ROOT / "docs" / "using.md"


def run(path: Path) -> dict[str, Any]:
    """All Python blocks of a page, one after the other, in one space of names."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, path.name, "exec"), names)
    return names


def test_the_code_of_the_readme_prints_what_stands_below_it(capsys: Any) -> None:
    """Noise and keys are fresh: centres within three units, in any order; the rest as it is."""
    run(README)
    printed = capsys.readouterr().out.splitlines()
    below = re.findall(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (shown,) = (block.splitlines() for block in below)
    found, said = (
        np.array(sorted([float(x) for x in re.findall(r"[\d.]+", line)] for line in lines[:3]))
        for lines in (printed, shown)
    )
    assert found.shape == (3, 2) and np.abs(found - said).max() <= 3
    rest = iter(line.rstrip() for line in printed[3:])
    assert all(line in rest for line in shown[3:]), "lines of the statement, in its order"


def test_the_code_of_the_page_runs_and_prints_what_it_says(
    capsys: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # it saves a model
    names = run(USE)
    model, local = names["model"], names["local"]
    assert model.cluster_centers_.shape == (3, 2)
    assert model.ledger_.epsilon(model.result_.delta) == pytest.approx(1.0, rel=1e-6)
    printed = capsys.readouterr().out
    assert "this is a preview" in printed and (tmp_path / "model.json").is_file()
    assert "over-clustered" in printed and "cut steps" in printed
    assert "send it no result" not in printed, "what is printed may be published"
    assert names["result"].private and names["result"].centers.shape == (3, 2)
    assert local.cluster_centers_.shape == (3, 2)
    assert local.ledger_.epsilon(0.0) == pytest.approx(4.0)


def test_the_code_about_tables_runs_and_leaves_a_budget(
    capsys: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    model = run(ROOT / "docs" / "your_table.md")["model"]
    printed = capsys.readouterr().out
    assert "% of the budget is left" in printed and "in_widths" in printed
    assert np.ptp(model.cluster_centers_, axis=0) == pytest.approx([40, 2], rel=0.2)
    assert (tmp_path / "statement.html").is_file() and (tmp_path / "visits.journal").is_file()


def test_the_first_page_of_the_book_begins_like_the_readme() -> None:
    first, book = (p.read_text(encoding="utf-8") for p in (README, ROOT / "docs" / "index.md"))
    assert first.split("\n\n")[1].startswith("**Private k-means on data that stays where it is.**")
    assert book.split("\n\n")[:2] == first.split("\n\n")[:2]


def test_the_readme_can_be_finished_and_followed() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") <= 100
    claims = pd.read_csv(ROOT / "data" / "results" / "claims.csv")
    assert f" {len(claims)} claims checked" in text
    order = ["four papers", "claims checked", "```bash", "```python", "## Who sees what", "<img"]
    places = [text.lower().index(word.lower()) for word in order]
    assert places == sorted(places)
    places = [text.index(f"**{word}.**") for word in ("Learn", "Use", "Check")]
    assert places == sorted(places) and places[-1] < text.index("make lab")
    assert len(re.findall(r"<https://arxiv\.org/abs/\d{4}\.\d{5}>", text)) == 4
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.M))
    assert {"lab", "test", "help"} <= commands <= set(re.findall(r"^([a-z-]+):", makefile, re.M))
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"notebooks/{path.name}" in text, f"{path.name} is not in the map of notebooks"
    asked = USE.read_text(encoding="utf-8").partition("**Who may see the result?**")[2]
    assert all(word in asked for word in ("publish=True", "publish=False", "exact sums"))


def test_one_line_installs_today_and_it_is_the_same_everywhere() -> None:
    """From the checkout, until `repository` says where the project lives: no index has it."""
    pages = [
        README,
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("notebooks/*.py"),
    ]
    lines = [
        (p.name, line)
        for p in pages
        for line in re.findall(r"pip install[^`\n]*", p.read_text("utf-8"))
    ]
    own = [found for found in lines if "fedclust" in found[1] or "." in found[1]]
    assert len(own) >= 3
    for name, line in own:
        assert re.match(r"pip install (\.|'\.\[[a-z,]+\]')(\s|$)", line), (name, line)
