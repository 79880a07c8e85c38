"""The code in the README runs as printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_and_prints_what_it_says(capsys):
    pytest.importorskip("opendp")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks, "the README shows how to use the helpers"
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    model = names["model"]
    assert model.cluster_centers_.shape == (3, 2)
    assert model.ledger_.epsilon(model.result_.delta) == pytest.approx(1.0, rel=1e-6)
    assert "relative_sums" in capsys.readouterr().out
    local = names["local"]
    assert local.cluster_centers_.shape == (3, 2)
    assert local.ledger_.epsilon(0.0) == pytest.approx(4.0)
