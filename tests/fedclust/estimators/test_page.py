"""The statement as a page: whole sentences, numbers that are so, no scripts, nothing unescaped."""

import math
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from fedclust.estimators import LocalKMeans, PrivateKMeans, from_copies
from fedclust_helpers.accounting import PrivacyLedger

ODD = "<script>alert(1)</script>"
ROWS = np.random.default_rng(0).normal([30, 60], 5, (2000, 2))


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words = [], set(), ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href"}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def fitted(epsilon=1.0, **given):
    table = pd.DataFrame(ROWS, columns=["age", ODD]).assign(who=np.arange(len(ROWS)) % 3)
    bounds = {"age": (0, 100), ODD: (0, 100)}
    model = PrivateKMeans(2, epsilon, 1e-6, bounds=bounds, mode="teaching", seed=1, **given)
    return model, {"X": table, "clients": "who"}


@pytest.mark.filterwarnings("ignore")
def test_a_page_says_what_holds_and_runs_nothing(tmp_path):
    model, given = fitted()
    before = Tags(model.preview(**given).page())
    assert "nothing has been released" in before.words
    statement = model.fit(**given).statement()
    statement.save(tmp_path / "statement.html")
    page = Tags((tmp_path / "statement.html").read_text("utf-8"))
    assert page.seen <= {*"html head meta title style body h1 h2 p b table tr th td".split()}
    assert ODD in page.words  # as text
    for heading, text in statement.rows():
        assert heading in page.words and text in page.words
    assert "The server sees: uniformly" in page.words and "The clients see: the" in page.words
    right = (math.e + 1e-6) / (1 + math.e)
    assert "at most 2.72 to one" in page.words and f"at most {100 * right:.3g} % of" in page.words
    assert "nothing is protected against anyone who knows the seed" in page.words
    with pytest.raises(FileExistsError):
        statement.save(tmp_path / "statement.html")
    with pytest.raises(ValueError, match=r"must end in \.html"):
        statement.save(tmp_path / "statement.pdf")


@pytest.mark.filterwarnings("ignore")
def test_odds_are_those_of_all_that_was_released():
    ledger = PrivacyLedger()
    for _ in range(2):
        model, given = fitted(ledger=ledger)
        words = Tags(model.fit(**given).statement().page()).words
    total = ledger.epsilon(1e-6)
    assert total > 1.3 and f"epsilon = {total:.3g} at" in words
    assert f"at most {math.exp(total):.3g} to one" in words
    model, given = fitted(epsilon=900.0)
    assert "close to certainty" in Tags(model.preview(**given).page()).words


@pytest.mark.filterwarnings("ignore")
@pytest.mark.filterwarnings("ignore")
def test_a_page_of_batches_says_what_one_row_and_what_a_person_in_all_pays():
    months = [model.fit(**rows) for model, rows in (fitted(1.0), fitted(0.5))]
    words = Tags(from_copies(months, 2).statement().page()).words
    assert "The costliest batch that a row may be in has epsilon = 1 at delta = 1e-06" in words
    together = [release for month in months for release in month.ledger_.releases]
    total = PrivacyLedger(releases=together).epsilon(1e-6)
    assert f"in all of the 2 batches it is epsilon = {total:.3g} at delta = 1e-06." in words
    assert "nothing has been released" not in words


def test_what_is_asked_first_is_asked_where_rows_are_protected():
    model, given = fitted()
    preview = model.preview(**given)
    assert preview.rows()[0][0] == "first of all" and "is a person one row?" in str(preview)
    assert "Where a person may have several rows" in Tags(preview.page()).words
    local = LocalKMeans(2, 1.0, lower=0, upper=100, mode="teaching", seed=1).preview(ROWS)
    words = Tags(local.page()).words
    assert "first of all" not in dict(local.rows()) or local.facts["unit"] == "point"
    assert "of any two that it might have" in words
