"""Progress: a bar or a function, over the releases of any plan."""

import io
from contextlib import redirect_stderr

import numpy as np
import pytest

from fedclust_helpers import audit, fastlloyd
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.federation import simulate


def planned(**options):
    points = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    federation = simulate([points[:90], points[90:]], "ideal", seed=1, **options)
    return federation, fastlloyd.plan(federation, n_clusters=2, epsilon=1.0, n_rounds=3)


def released(federation, plan, n=3):
    for t in range(n):
        federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS,
            plan.mechanisms[t],
            round=t,
            centers=np.eye(2),
            radius=plan.broadcasts("radius")[t],
        )


def test_a_function_is_told_of_each_finished_release_and_of_no_others():
    federation, plan = planned()
    told = []
    with federation.follow(plan, lambda *now: told.append(now)):
        released(federation, plan)
        assert told == [(1, 3), (2, 3)]  # the last one ends with the run
    assert told == [(1, 3), (2, 3), (3, 3)]
    federation, plan = planned()
    with pytest.raises(ZeroDivisionError):
        with federation.follow(plan, lambda *now: told.append(now)):
            released(federation, plan, 2)
            raise ZeroDivisionError
    assert told[3:] == [(1, 3)]


def test_who_watches_may_stop_a_run_but_not_by_a_mistake():
    def stops(done, total):
        raise KeyboardInterrupt

    def fails(done, total):
        raise ZeroDivisionError

    federation, plan = planned()
    with pytest.raises(KeyboardInterrupt), federation.follow(plan, stops):
        released(federation, plan)
    assert len(federation.ledger.releases) == 1  # a refusal by the caller comes before the charge
    federation, plan = planned()
    with pytest.warns(RuntimeWarning, match="progress failed: ZeroDivisionError"):
        with federation.follow(plan, fails):
            released(federation, plan)
    assert len(federation.ledger.releases) == 3


def test_a_bar_is_shown_on_request_only():
    for progress in (True, False):
        federation, plan = planned()
        with redirect_stderr(io.StringIO()) as shown, federation.follow(plan, progress):
            released(federation, plan)
        assert ("fastlloyd: 100%" in shown.getvalue() and "3/3" in shown.getvalue()) is progress
    for wrong in ("yes", 1, None, int):
        federation, plan = planned()
        with pytest.raises(TypeError, match="progress must be"):
            with federation.follow(plan, wrong):
                released(federation, plan)
        assert not federation.ledger.releases


def test_a_function_cannot_make_releases_of_its_own():
    """In order and no others, whoever asks: the next one is no longer the next when it is told."""
    federation, plan = planned()

    def asks(done, total):
        federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, plan.mechanisms[done], round=done, centers=np.eye(2),
            radius=plan.broadcasts("radius")[done],
        )  # fmt: skip

    with pytest.warns(RuntimeWarning, match="PlanMismatchError"), federation.follow(plan, asks):
        released(federation, plan)
    assert [r.round for r in federation.ledger.releases] == [0, 1, 2]


def test_an_audit_tells_how_far_it_is_and_finds_the_same():
    told = []
    made = [
        audit.audit_release(
            *[lambda rng, *n: rng.standard_normal(n)] * 2, 0.0, 1.0, 1.0, n_runs=60,
            vectorized=False, rng=np.random.default_rng(0), progress=progress,
        )
        for progress in (False, lambda *now: told.append(now))
    ]  # fmt: skip
    assert str(made[0]) == str(made[1])
    assert told == sorted(set(told)) and told[-1] == (120, 120)
