"""Histories of estimators on one data set, drawn at random: a meter of its own counts releases.

Fits, refusals, interruptions, parameters set in between, copies, pickles and files, in any order.
Whatever happened before, every release stands on a ledger that somebody holds, a refused fit makes
none, and statement and labels of a fitted estimator are those of its fit.
"""

import copy
import pickle
import tempfile
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone

from fedclust.estimators import FastLloydKMeans, load
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.federation import Federation

ROWS = pd.DataFrame(np.random.default_rng(0).normal(50, 10, (60, 2)), columns=["age", "dose"])
TABLE = ROWS.assign(clinic=np.arange(60) % 3)
REFUSED = (RuntimeError, TypeError, ValueError)
LIVE = ("ledger_epsilon", "ledger_releases")  # what a statement says of later fits, too
BAD = [TABLE.assign(age=np.nan), TABLE[["age"]], TABLE[["age", "dose"]].astype(str), None, []]
SETTINGS = {
    "epsilon": st.sampled_from([0.5, 1.0]), "n_clusters": st.sampled_from([1, 2, 3]),
    "trust": st.sampled_from(["ideal", "masked"]), "publish": st.booleans(),
    "lower": st.sampled_from([-5, {"age": 0, "dose": 0}]), "public_data": st.booleans(),
    "mode": st.sampled_from(["teaching", "secure"]), "delta": st.sampled_from([1e-5, 1e-6]),
}  # fmt: skip


def said(model):
    """The statement of a fit, without what later fits on its ledger change."""
    facts = dict(model.statement().facts) | {"budget": None}
    facts["charged"] = {k: v for k, v in facts["charged"].items() if k not in LIVE}
    return facts


class Histories(RuleBasedStateMachine):
    """Estimators on one data set, with or without a ledger in common."""

    models = Bundle("models")

    @initialize(kind=st.sampled_from(["own", "shared", "budget"]))
    def begin(self, kind):
        self.released, self.ledgers, self.fits = [], {}, {}
        budget = Budget(4.0, 1e-3) if kind == "budget" else None
        self.shared = None if kind == "own" else PrivacyLedger(budget=budget)

    def metered(self, model, X, *, must_fail=False):
        """Try a fit; count what was really released."""
        charge, before = Federation._charge, len(self.released)

        def counted(federation, wanted, **how):
            charge(federation, wanted, **how)
            self.released.append(wanted.name)

        with warnings.catch_warnings(), patch.object(Federation, "_charge", counted):
            warnings.simplefilter("ignore")
            try:
                model.fit(X, clients="clinic")
            except REFUSED:
                assert len(self.released) == before
            except KeyboardInterrupt:
                pass
            else:
                assert not must_fail
                result, plan = model.result_, model.plan_
                made = len(self.released) - before
                assert made == len(result.ledger.releases) == len(plan.releases)
                assert abs(result.epsilon - plan.total_epsilon) < 1e-9
                assert result.epsilon <= plan.epsilon * (1 + 1e-9)
                self.fits[id(model)] = model, said(model), model.predict(ROWS).tolist()
        ledger = model._account.ledger
        if ledger is not None and not ledger.is_record:
            self.ledgers[id(ledger)] = ledger

    @rule(
        target=models, trust=st.sampled_from(["ideal", "masked", "trusted", "serverless"]),
        method=st.sampled_from(["fastlloyd", "overclustered"]),
    )  # fmt: skip
    def new(self, trust, method):
        return FastLloydKMeans(
            2, epsilon=1.0, delta=1e-5, trust=trust, method=method, mode="teaching", seed=1,
            lower={"age": 0, "dose": 0}, upper={"age": 100, "dose": 100}, ledger=self.shared,
        )  # fmt: skip

    @rule(model=models)
    def fit(self, model):
        self.metered(model, TABLE)

    @rule(model=models, after=st.integers(1, 2))
    def interrupt(self, model, after):
        def stop(done, total):
            if done >= after:
                raise KeyboardInterrupt

        options = model.options
        self.metered(model.set_params(options={"progress": stop}), TABLE, must_fail=True)
        model.set_params(options=options)

    @rule(model=models, X=st.sampled_from(BAD))
    def hand_over_what_is_no_data(self, model, X):
        self.metered(model, X, must_fail=True)

    @rule(model=models, changes=st.fixed_dictionaries({}, optional=SETTINGS))
    def set_parameters(self, model, changes):
        model.set_params(**changes)

    @rule(target=models, model=models, how=st.sampled_from([copy.copy, copy.deepcopy, clone]))
    def copied(self, model, how):
        made = how(model)
        if how is not clone:
            self.same(model, made)
        return made

    @rule(target=models, model=models)
    def pickled(self, model):
        try:
            made = pickle.loads(pickle.dumps(model))
        except TypeError:
            assert model.ledger is not None and model.ledger.budget is not None
            return model
        self.same(model, made)
        return made

    @rule(target=models, model=models)
    def saved(self, model):
        if id(model) not in self.fits:
            return model
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.json")
            made = load(Path(folder) / "model.json")
        self.same(model, made)
        return made

    def same(self, model, made):
        if id(model) in self.fits:
            self.fits[id(made)] = made, *self.fits[id(model)][1:]

    @invariant()
    def nothing_is_forgotten(self):
        if hasattr(self, "fits"):
            assert sum(len(each.releases) for each in self.ledgers.values()) == len(self.released)

    @invariant()
    def fits_are_what_they_were(self):
        for model, statement, labels in list(getattr(self, "fits", {}).values())[-3:]:
            assert said(model) == statement
            assert model.predict(ROWS[["dose", "age"]]).tolist() == labels


def test_no_history_forgets_a_release_or_changes_a_statement():
    """Forty histories, the same in every run."""
    run_state_machine_as_test(Histories, settings=settings(max_examples=40, stateful_step_count=20))
