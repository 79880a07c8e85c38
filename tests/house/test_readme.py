"""The code in the README runs as printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_python_example_runs_and_prints_what_it_says(capsys, tmp_path, monkeypatch):
    pytest.importorskip("opendp")
    monkeypatch.chdir(tmp_path)  # it saves a model
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks, "the README shows how to use the helpers"
    first = next(block for block in blocks if "FastLloydKMeans(" in block)
    names: dict = {}
    exec(compile(first, "README.md", "exec"), names)
    for block in blocks:  # each as copied: alone, or right after the first where the text says so
        if block != first:
            space = dict(names) if "clients" in block else {}
            exec(compile(block, "README.md", "exec"), space)
            names |= {name: space[name] for name in ("result", "local") if name in space}
    model = names["model"]
    assert model.cluster_centers_.shape == (3, 2)
    assert model.ledger_.epsilon(model.result_.delta) == pytest.approx(1.0, rel=1e-6)
    printed = capsys.readouterr().out
    assert "this is a preview" in printed and (tmp_path / "model.json").is_file()
    assert "relative sums and counts" in printed
    assert "clients see" in printed and "server sees" in printed, "who may see what"
    assert "send it no result" not in printed, "what is printed may be published"
    assert names["result"].private and names["result"].centers.shape == (3, 2)
    local = names["local"]
    assert local.cluster_centers_.shape == (3, 2)
    assert local.ledger_.epsilon(0.0) == pytest.approx(4.0)


def test_the_readme_says_who_may_see_published_results():
    text = README.read_text(encoding="utf-8")
    first = text.index("print(model.cluster_centers_)")
    said = text.index("**Who may see the result?**")
    assert first < said < first + 1700
    for word in ("publish=True", "publish=False", "exact sums", "n_records"):
        assert word in text


def test_every_command_in_the_readme_exists():
    text = README.read_text(encoding="utf-8")
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.M))
    assert {"lab", "test", "help", "mutants"} <= commands
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert commands <= targets
