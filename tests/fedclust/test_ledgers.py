"""A ledger in a file: written before it is released, one process at a time, the same next year."""

import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest

from fedclust import KeptLedger, PrivateKMeans
from fedclust.flower.journal import JournalError, read_releases, written
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger, Sampling
from fedclust_helpers.mechanisms import Gaussian

BUDGET = Budget(3.0, 1e-5)
ROWS = [np.random.default_rng(i).normal([30, 60], 5, (300, 2)) for i in range(3)]


def fit(ledger, epsilon=1.0, seed=1):
    model = PrivateKMeans(2, epsilon, 1e-6, bounds=(0, 100), mode="teaching", seed=seed)
    return model.set_params(ledger=ledger).fit(ROWS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("filter", ["basic", "rdp"])
def test_a_ledger_that_was_closed_goes_on_as_if_it_never_had_been(tmp_path, filter):
    budget = Budget(3.0, 1e-5, filter)
    straight, path = PrivacyLedger(budget=budget), tmp_path / "rows.journal"
    for year in range(9):
        with KeptLedger(path, budget=budget) as kept:
            assert kept.releases == straight.releases
            assert kept.remaining == pytest.approx(straight.remaining, abs=1e-12)
            outcomes = []
            for ledger in (kept, straight):
                try:
                    outcomes.append(fit(ledger, seed=year).cluster_centers_.tolist())
                except BudgetExceededError as error:
                    outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], str)  # the budget ended on the way


def test_sampled_and_single_releases_come_back_as_they_were(tmp_path):
    path = tmp_path / "clients.journal"
    with KeptLedger(path, "client", budget=BUDGET) as kept:
        kept.charge([Gaussian(1.0, 20.0)], name="a")
        kept.charge([Gaussian(1.0, 20.0)], name="b", sampling=Sampling("poisson", rate=0.1))
        kept.charge([Gaussian(1.0, 30.0)], name="c", group="split/1")
        lines, left = kept.releases, kept.remaining
        assert tuple(read_releases(written(lines))) == lines
    with KeptLedger(path, "client", budget=BUDGET) as kept:
        assert [r.sampling for r in kept.releases] == [r.sampling for r in lines]
        assert kept.remaining == left


def test_the_charge_is_on_the_disk_when_rows_are_read(tmp_path, monkeypatch):
    """Killed between charge and release: the first release of the plan stays charged, no other."""
    path = tmp_path / "rows.journal"
    code = f"""
import os, signal, sys
sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
from test_ledgers import BUDGET, KeptLedger, fit
charge = KeptLedger.charge
def killed(self, *given, **named):
    charge(self, *given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
KeptLedger.charge = killed
fit(KeptLedger({str(path)!r}, budget=BUDGET))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with KeptLedger(path, budget=BUDGET) as kept:
        assert len(kept.releases) == 1 and kept.remaining < 1
    with KeptLedger(path, budget=BUDGET) as kept, monkeypatch.context() as patched:
        before = kept.remaining
        patched.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):  # no answer where nothing could be written
            kept.charge([Gaussian(1.0, 20.0)], name="a")
        assert kept.remaining < before


def test_two_at_once_and_all_that_is_another_file_are_refused(tmp_path):
    path = tmp_path / "rows.journal"
    with KeptLedger(path, budget=BUDGET) as kept:
        with pytest.raises(JournalError, match="in use by another process"):
            KeptLedger(path, budget=BUDGET)
        kept.charge([Gaussian(1.0, 20.0)], name="a")
        with pytest.raises(TypeError, match="must not be pickled"):
            pickle.dumps(kept)
        old = path.read_bytes()
        kept.charge([Gaussian(1.0, 20.0)], name="b")
        path.write_bytes(old)  # from a backup
        with pytest.raises(JournalError, match="was changed or removed"):
            kept.charge([Gaussian(1.0, 20.0)], name="c")
    with pytest.raises(JournalError, match="was closed"):
        kept.charge([Gaussian(1.0, 20.0)], name="d")
    with pytest.raises(TypeError, match="budget must be a Budget, got float"):
        KeptLedger(path, budget=3.0)
    for other in (Budget(4.0, 1e-5), Budget(3.0, 1e-5, "gdp")):
        with pytest.raises(JournalError, match="was kept for another"):
            KeptLedger(path, budget=other)
    with pytest.raises(JournalError, match="was kept for another unit"):
        KeptLedger(path, "client", budget=BUDGET)
    path.write_text("{")
    with pytest.raises(JournalError, match="damaged"):
        KeptLedger(path, budget=BUDGET)
    assert path.stat().st_mode & 0o777 == 0o600
