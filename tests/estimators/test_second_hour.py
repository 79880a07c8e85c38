"""The second hour of a user: good parts combined, in threads, after failures, with odd tables."""

import threading

import numpy as np
import pandas as pd
import pytest

from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.estimators import FastLloydKMeans

BOX = {"lower": 0, "upper": 100}
TEACHING = {"mode": "teaching", "seed": 1}


@pytest.fixture
def table():
    """60 rows of three clients."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(50, 10, (60, 2)), columns=["age", "dose"])
    made["clinic"] = np.arange(60) % 3
    return made


@pytest.fixture(autouse=True)
def few_rows(recwarn):
    """Every fit here warns of too few rows: what they are about is not accuracy."""


def lloyd(**changes):
    """A door that fits in milliseconds."""
    given = {"n_clusters": 2, "epsilon": 1.0, "trust": "ideal"} | BOX | TEACHING | changes
    return FastLloydKMeans(**given)


# --- one ledger, many threads ---------------------------------------------------------------------


def test_runs_in_threads_on_one_ledger_are_told_apart(table):
    """Each waits in its first round until all have begun, so that their releases interleave."""
    ledger, together = PrivacyLedger(), threading.Barrier(3, timeout=60)

    def wait(done, total):
        if done == 1:
            together.wait()

    models = [lloyd(ledger=ledger, options={"progress": wait}) for _ in range(3)]
    threads = [
        threading.Thread(target=m.fit, args=(table,), kwargs={"clients": "clinic"}) for m in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n = len(models[0].plan_.releases)
    assert len(ledger.releases) == 3 * n > n
    for model in models:
        charged = model.statement().facts["charged"]
        assert charged["releases"] == n and charged["ledger_releases"] == 3 * n
        assert charged["epsilon"] == pytest.approx(1.0, rel=1e-9)
