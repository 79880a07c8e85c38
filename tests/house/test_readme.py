"""The code in the README and on the page "use it" runs as printed."""

import re
from pathlib import Path
from typing import Any

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


def test_the_five_lines_of_the_readme_end_in_the_statement(capsys: Any) -> None:
    model = run(README)["model"]
    assert model.cluster_centers_.shape == (3, 2)
    printed = capsys.readouterr().out
    assert printed.strip() == str(model.statement()).strip()
    assert "clients see" in printed and "server sees" in printed, "who may see what"


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


def test_the_first_page_of_the_book_begins_like_the_readme() -> None:
    first, book = (p.read_text(encoding="utf-8") for p in (README, ROOT / "docs" / "index.md"))
    assert first.split("\n\n")[1].startswith("**Private k-means on data that stays where it is.**")
    assert book.split("\n\n")[:2] == first.split("\n\n")[:2]


def test_the_readme_can_be_finished_and_followed() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") <= 150
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
