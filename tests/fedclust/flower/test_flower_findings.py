"""What the page of findings says of Flower, on the release that is installed."""

import math
from pathlib import Path

import pytest

from tools import findings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "findings.md"


@pytest.mark.federation
def test_masks_of_flower_have_a_seed_of_32_bits():
    pytest.importorskip("flwr", reason="needs Flower: make federation-test")
    found = findings.flower_masks()
    assert found["version"] in PAGE.read_text(encoding="utf-8")
    assert found["keys_differ"] and found["one_mask"]
    assert found["of_four_residues"] == [0, 1, 2]


@pytest.mark.federation
def test_local_noise_of_flower_is_too_small_above_one():
    pytest.importorskip("flwr", reason="needs Flower: make federation-test")
    found = findings.flower_local_dp()
    formula = math.sqrt(2 * math.log(1.25 / found["claimed"])) / found["epsilon"]
    assert found["std"] == pytest.approx(formula, rel=0.015)  # 100,000 draws: 6 standard errors
    assert found["kept"] > 100 * found["claimed"]
    assert f"noise of {formula:.3f} " in PAGE.read_text(encoding="utf-8")


def test_the_page_has_the_numbers_of_the_formula():
    """Without Flower: delta of its noise, off the formula."""
    epsilon, delta = 20.0, 1e-5
    std = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    kept = findings.gdp_delta(1 / std, epsilon)
    assert f"δ is really {kept:.1e}".replace("e-0", "e-") in PAGE.read_text(encoding="utf-8")
