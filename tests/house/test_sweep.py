"""The bad-input sweep: that it sees what it should see, and a sample of it on the library."""

import inspect
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.mechanisms import Gaussian
from tools.sweep import OFFENCES, Case, allowed, goal
from tools.sweep.changes import changes
from tools.sweep.judge import (
    CHARGED,
    CLEAR,
    FINE,
    HANG,
    MODIFIED,
    NONSENSE,
    UNCLEAR,
    WRONG,
    Call,
    in_child,
    is_stateful,
    judge,
    names_an_argument,
    observe,
)
from tools.sweep.targets import Target, public_targets

# --- the judge, on functions that do one thing wrong ----------------------------------------------


def verdict(function, argument, kind, seconds=60.0, **recorded):
    """What the sweep says of one change of one argument."""
    signature = inspect.signature(function)
    doc = inspect.getdoc(function) or ""
    target = Target("toy.function", function, signature, False, doc)
    call = Call(target, signature.bind(**recorded))
    found = {
        (name, change.kind): change
        for name, value, parameter in call.values()
        for change in changes(name, value, parameter, doc)
    }
    change = found[argument, kind]
    baseline = in_child(lambda: observe(call, None, None))[1]
    assert baseline is not None and baseline["error"] is None
    why, seen = in_child(lambda: observe(call, argument, change), seconds=seconds, memory=2**28)
    if seen is None:
        return HANG
    return judge(call, argument, change, baseline, seen, stable=True)[0]


def careful(points, n_rounds: int = 3, method: str = "mean"):
    points = np.asarray(points)
    if points.dtype.kind not in "fiu" or points.ndim != 2 or not len(points):
        raise TypeError("points must be numbers (n, d)")
    if not np.isfinite(points).all() or np.abs(points).max() > 1e150:
        raise ValueError("points must be finite and of sensible size")
    if isinstance(n_rounds, bool) or not isinstance(n_rounds, int | np.integer):
        raise TypeError("n_rounds must be an integer")
    if not 0 <= n_rounds < 10**6:
        raise ValueError("n_rounds must be >= 0 and below a million")
    if method not in ("mean", "median"):
        raise ValueError("method must be mean or median")
    return points.mean(axis=0) * n_rounds


def careless(points, n_rounds: int = 3, method: str = "mean"):
    return np.ones(2)


def writes(points):
    if points.dtype == np.float32:  # taken for a copy of one's own
        points *= 2


def divides(x: float):
    return np.float64(1.0) / np.float64(x)


def loops(n: int):
    while n > 10**6:
        pass
    return n


def allocates(n: int):
    return float(np.ones(n).sum()) if n > 0 else 0.0


def charges(ledger, weight: float):
    ledger.charge([Gaussian(1.0, 2.0)], name="sum")
    if weight < 0:
        raise ValueError("weight must be >= 0")


def by_form(points):
    return float(np.sum(points)) + isinstance(points, list)


POINTS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("kind", ["nan", "inf", "empty", "flat", "text", "none", "complex"])
def test_a_careful_function_raises_clear_errors(kind):
    assert verdict(careful, "points", kind, points=POINTS) == CLEAR


@pytest.mark.parametrize("kind", ["list", "strided", "read-only", "float32", "integers", "pandas"])
def test_a_careful_function_takes_other_forms_of_the_same_values(kind):
    assert verdict(careful, "points", kind, points=POINTS) == FINE


@pytest.mark.parametrize(
    ("argument", "kind"),
    [("points", "nan"), ("n_rounds", "half"), ("n_rounds", "negative"), ("n_rounds", "text")]
    + [("method", "unknown option"), ("method", "number"), ("points", "text")],
)
def test_nonsense_that_is_accepted_is_seen(argument, kind):
    recorded = {"points": POINTS, "n_rounds": 3, "method": "mean"}
    assert verdict(careless, argument, kind, **recorded) == NONSENSE
    assert verdict(careful, argument, kind, **recorded) == CLEAR


@pytest.mark.parametrize(
    ("function", "argument", "kind", "recorded", "expected"),
    [
        (lambda points: points.mean().item(), "points", "text", {"points": POINTS}, UNCLEAR),
        (lambda points: float(len(points)), "points", "number", {"points": [1.0]}, UNCLEAR),
        (writes, "points", "float32", {"points": POINTS}, MODIFIED),
        (divides, "x", "zero", {"x": 2.0}, WRONG),
        (loops, "n", "huge", {"n": 5}, HANG),
        (allocates, "n", "huge", {"n": 5}, HANG),
        (by_form, "points", "list", {"points": POINTS}, WRONG),
    ],
    ids=["unclear", "bare TypeError", "modified", "nan", "loop", "memory", "form"],
)
def test_each_offence_is_seen(function, argument, kind, recorded, expected):
    assert expected in OFFENCES
    seconds = 1.0 if expected == HANG else 60.0
    assert verdict(function, argument, kind, seconds, **recorded) == expected


def test_a_charge_before_an_error_is_seen_and_stays_in_the_child():
    ledger = PrivacyLedger()
    assert verdict(charges, "weight", "negative", ledger=ledger, weight=1.0) == CHARGED
    assert not ledger.releases


def test_the_time_of_a_case_is_bounded():
    why, found = in_child(lambda: {"x": [time.sleep(0.01)] * 3}, seconds=60.0)
    assert why == "" and found == {"x": [None] * 3}
    why, found = in_child(lambda: {"x": sum(iter(int, 1))}, seconds=0.3)  # sums zeros for ever
    assert found is None and "0.3 s" in why


def test_the_next_case_in_a_process_draws_and_spawns_the_same():
    def spawns(rng, n: int):
        return rng.random() + rng.spawn(1)[0].random() * n

    signature = inspect.signature(spawns)
    call = Call(Target("toy.spawns", spawns, signature, False, ""), signature.bind(
        np.random.default_rng(0), 2))  # fmt: skip
    first, second = (observe(call, None, None) for _ in range(2))
    assert first["result"] == second["result"] != []


def test_a_function_that_keeps_state_shares_no_process():
    queue = [1, 2]

    def shared(f):
        signature = inspect.signature(lambda f: 0)
        return is_stateful(Call(Target("toy.f", shared, signature, False, ""), signature.bind(f)))

    assert shared(lambda: queue.pop()) and not shared(lambda: 1)


@pytest.mark.parametrize(
    ("message", "clear"),
    [
        ("n_rounds must be >= 0", True),
        ("the number n_rounds is too large", True),
        ("k must be an integer", True),
        ("unsupported operand for a k-d tree", False),
        ("n_rounds_done is unknown", False),
        ("operands could not be broadcast together", False),
    ],
)
def test_a_clear_message_names_an_argument(message, clear):
    assert names_an_argument(message, ["n_rounds", "k"]) == clear


# --- what is swept --------------------------------------------------------------------------------


def test_the_goal_forgives_nothing_where_privacy_is_touched():
    def case(target, argument, verdict, reason=""):
        return Case(target, argument, "negative", verdict, "", "", reason)

    assert goal.misses(case("accounting.conversions.gdp_delta", "mu", NONSENSE))
    assert goal.misses(case("datasets.splits.split", "epsilon", NONSENSE))
    assert not goal.misses(case("datasets.splits.split", "name", NONSENSE))
    for verdict_ in set(OFFENCES) - {NONSENSE}:
        assert goal.misses(case("datasets.splits.split", "name", verdict_))
        assert not goal.misses(case("datasets.splits.split", "name", verdict_, "documented"))
    assert not goal.misses(case("datasets.splits.split", "name", CLEAR))


def test_every_allowed_case_has_its_reason():
    for entry in allowed.ALLOWED:
        assert len(entry.reason.split()) >= 4, entry
        assert entry.target not in ("*", "") and (entry.argument, entry.kind) != ("*", "*"), entry


def test_every_public_callable_is_swept_or_said_not_to_be(root):
    index = json.loads((root / "tools" / "sweep" / "calls.json").read_text(encoding="utf-8"))
    targets = {target.name for target, _ in public_targets()}
    renew = "run `python -m tools.sweep --index`"
    assert not targets - set(index), renew
    silent = {name for name, tests in index.items() if not tests and name in targets}
    assert silent <= set(allowed.NEVER_SWEPT), "give it a test, or a reason in NEVER_SWEPT"


@pytest.mark.thorough
def test_a_sample_of_the_sweep_meets_the_goal(root):
    # the cases are drawn with a seed: the same ones every time, no false alarm
    command = [sys.executable, "-m", "tools.sweep", "--sample", "500", "--seed", "1", "--all"]
    run = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert ": 0 miss the goal" in run.stdout
