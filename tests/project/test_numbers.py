"""Every number in the text of README, "install and use" and "trust models" is computed here.

What is no result (names, sections, settings of the code beside) is listed as such, word by word.
"""

import math
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedclust
from fedclust.describing.bounds import BOUNDS, REFUSED, WARNED
from fedclust.describing.summary import BOUNDS_SHARE
from fedclust_helpers import fastlloyd, ldp_kmeans
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.federation import simulate

ROOT = Path(__file__).parents[2]
PAGES = {name: ROOT / name for name in ("README.md", "docs/using.md", "docs/trust.md")}


@cache
def text_of(page: str) -> str:
    """What is read as text: without code, addresses, pictures' files and names of chapters."""
    text = PAGES[page].read_text(encoding="utf-8")
    for away in (
        r"```.*?```", r"`[^`\n]*`", r"<https?://[^>]*>", r"<img[^>]*width=\"\d+\"", r"\]\([^)]*\)",
    ):  # fmt: skip
        text = re.sub(away, " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def alone(n: int) -> float:
    """Epsilon of one report of n users, who are (1, 1e-6)-private together: off the plan."""
    users = np.zeros((n, 2))
    federation = simulate(users, "shuffled", seed=1)
    plan = ldp_kmeans.plan_sketch(federation, n_clusters=2, epsilon=1.0, delta=1e-6)
    return plan.releases[0].mechanisms[0].pure_epsilon


def against_the_other() -> float:
    """Of two clients without a colluder that is counted on."""
    made = simulate([np.zeros((9, 2))] * 2, "serverless", seed=1, max_colluding=0)
    plan = fastlloyd.plan(made, n_clusters=2, epsilon=1.0, delta=1e-6)
    assert plan.epsilon_against_more == pytest.approx(
        gdp_epsilon(math.sqrt(2) * gdp_mu(1.0, 1e-6), 1e-6), rel=1e-4
    )
    return plan.epsilon_against_more


def enough(trust: str, method: str) -> float:
    """Records from which on the median cost is 5 % above the best: the line of the figure."""
    table = pd.read_csv(ROOT / "data" / "results" / "side_by_side.csv")
    table = table.query("data == 'mixture' and d == 2 and k == 5 and epsilon == 1")
    assert set(table["seeds"]) == {20}
    own = table.query(f"trust == '{trust}' and method == '{method}'").sort_values("n")
    over = np.maximum.accumulate((own["median"] - 1).to_numpy()[::-1])
    over = np.log(np.maximum(over, 1e-9))  # a median may be the best itself
    return math.exp(np.interp(math.log(0.05), over, np.log(own["n"])[::-1]))


default = fastlloyd.parameters.default_delta

SENTENCES: list[tuple[str, str, list[Callable[[], float]]]] = [
    ("README.md", r"(\d+) claims checked", [
        lambda: len(pd.read_csv(ROOT / "data" / "results" / "claims.csv"))]),
    ("README.md", r"Version ([\d.]+),", [
        lambda: float(".".join(fedclust.__version__.split(".")[:2]))]),
    ("README.md", r"You need Python (3\.\d+) or newer", [
        lambda: float(re.sub("[^0-9.]", "", tomllib.loads(
            (ROOT / "pyproject.toml").read_text())["project"]["requires-python"]))]),
    ("README.md", r"below (5) % from about (1,000) records on; shuffled, too; local from about"
     r" (22,000) with the sketch, and from about (300,000) with Algorithm 1", [
         lambda: 5, lambda: enough("masked", "overclustered"),
         lambda: enough("local", "sketch"), lambda: enough("local", "alg1")]),
    ("docs/using.md", r"for these (2,400) rows ([\d.e-]+), .*? a chance of (2,400) times that,"
     r" (\d+) %", [
         lambda: 3 * 800, lambda: default(2400), lambda: 3 * 800,
         lambda: 100 * 2400 * default(2400)]),
    ("docs/using.md", r"Above ([\d.]+) % the plan warns .*?; above (\d+) % it is refused", [
        lambda: 100 * WARNED, lambda: 100 * REFUSED]),
    ("docs/using.md", r"with probability (\d) % at most, over all columns", [
        lambda: 100 * BOUNDS._taken["alarm"].default]),
    ("docs/trust.md", r"ε = ([\d.]+) among (1,000) users and ([\d.]+) among a million, where all"
     r" together have ε = (1) \(two columns, δ = (10⁻⁶)", [
         lambda: alone(1000), lambda: 1000, lambda: alone(10**6), lambda: 1, lambda: 1e-6]),
    ("docs/trust.md", r"at most (?:of them )?\((1) by default", [
        lambda: simulate([np.zeros((9, 2))] * 3, "serverless", seed=1).facts.max_colluding or 0]),
    ("docs/trust.md", r"with ε = ([\d.]+) where (1) is promised at δ = (10⁻⁶)", [
        against_the_other, lambda: 1, lambda: 1e-6]),
]  # fmt: skip
NAMES = {
    "README.md": [
        "00 Start here", "01 FastLloyd", "02 FedDP-KMeans", "03 Locally", "04 RR-Cluster",
        "05 Side by side", "06 Your own data", "at epsilon 1,", "under 90 seconds",
        "(ε = 1, δ = 10⁻⁶, one replaced", "medians of 20 data sets",
    ],
    "docs/using.md": [
        "1/(N ln N)", "[06", "[05", "section 5", "notebook 00", "sha256", "columns 0, 1, ...",
        '(1 and "1")', "such as -999", "label -1", "each column is 2 wide", "up to 100 points",
        "about 30 for each", "30 rows *in each", "5e-20 to 1.7e38",
    ],
    "docs/trust.md": ["Chapter 00", "Chapter 05"],
}  # fmt: skip


def value(text: str) -> float:
    return 1e-6 if text == "10⁻⁶" else float(text.replace(",", ""))


@pytest.mark.parametrize(
    ("page", "sentence", "computed"),
    SENTENCES,
    ids=[f"{page} {i}" for i, (page, *_) in enumerate(SENTENCES)],
)
def test_a_number_of_a_sentence_is_the_one_that_is_computed(page, sentence, computed):
    """To the digits that are printed; "about" means to five per cent."""
    found = re.search(sentence, text_of(page))
    assert found is not None, "the sentence is another one: its numbers must be computed here"
    assert len(found.groups()) == len(computed)
    for text, compute in zip(found.groups(), computed, strict=True):
        digits = len(text.partition("e")[0].partition(".")[2])
        room = 0.5 * 10.0 ** (-digits + (int(text.partition("e")[2]) if "e" in text else 0))
        if "," in text and f"about {text}" in found[0]:
            room = 0.06 * value(text)
        assert abs(value(text) - compute()) <= room * (1 + 1e-9), (text, compute())


@pytest.mark.parametrize("page", PAGES)
def test_no_number_is_left_that_nobody_computes(page):
    text = text_of(page)
    for where, sentence, _ in SENTENCES:
        if where == page:
            text = re.sub(sentence, " ", text)
    for name in NAMES[page]:
        assert name in text, f"{name!r} is not on the page any more"
        text = text.replace(name, " ")
    assert not re.findall(r"\S*\d\S*", text)


def test_words_for_numbers_are_right_too():
    """A fifth of mu^2 for bounds; half the variance for two clients."""
    using = text_of("docs/using.md")
    assert using.count("a fifth of μ²") == 2 and BOUNDS_SHARE == 1 / 5
    own = simulate([np.zeros((9, 2))] * 2, "masked", seed=1).facts
    assert "half the variance for two" in using and own.more_noise**2 == pytest.approx(2)
