"""Mutants of the releases beyond the papers: over-clustered Lloyd, and the sketch."""

from __future__ import annotations

from tools.mutants.base import Mutant, mutant

OVER = "fastlloyd/test_overclustered.py"
SKETCH = "ldp_kmeans/test_sketch.py"

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "over-steps-not-cut",
        "a step is cut to the radius, however far the row lies",
        "client_statistics/scouting.py",
        "clip_rows(steps, 1.0)",
        "steps",
        f"{OVER}::test_sensitivity_is_never_exceeded_and_attained",
    ),
    mutant(
        "over-cut-at-twice-the-radius",
        "a step is cut to the radius, however far the row lies",
        "client_statistics/scouting.py",
        "clip_rows(steps, 1.0)",
        "clip_rows(steps, 2.0)",
        f"{OVER}::test_sensitivity_is_never_exceeded_and_attained",
    ),
    mutant(
        "over-squares-not-centred",
        "the sensitivity of x^2 - middle is that of its longer half",
        "client_statistics/scouting.py",
        "points**2 - middle",
        "points**2",
        f"{OVER}::test_sensitivity_is_never_exceeded_and_attained",
    ),
    mutant(
        "over-rows-in-two-cells",
        "a row counts in one cell",
        "client_statistics/scouting.py",
        "    return (_per_client(cells, n_per_axis**d, offsets),)",
        "    counts = _per_client(cells, n_per_axis**d, offsets)\n"
        "    return (counts + np.roll(counts, 1, axis=1),)",
        f"{OVER}::test_sensitivity_is_never_exceeded_and_attained",
    ),
    mutant(
        "over-shares-beyond-one",
        "the shares of mu^2 add up to 1",
        "fastlloyd/overclustered.py",
        "Round(CUT_STEPS, 0.20 * rest, k, 0.8 * reach)",
        "Round(CUT_STEPS, 0.20, k, 0.8 * reach)",
        f"{OVER}::test_shares_add_up_to_the_whole_budget",
    ),
    mutant(
        "over-parts-beyond-the-share",
        "sums and counts of a round share its budget",
        "fastlloyd/overclustered.py",
        "        return (sums, 1 - sums)\n",
        "        return (sums, 1.0)\n",
        f"{OVER}::test_shares_add_up_to_the_whole_budget",
    ),
    mutant(
        "over-last-round-twice",
        "the releases of a run are those of its plan",
        "fastlloyd/overclustered.py",
        "        t = len(self.released)\n",
        "        t = min(len(self.released), len(self.plan.rounds) - 2)\n",
        f"{OVER}::test_a_run_follows_its_plan_and_spends_it",
    ),
    mutant(
        "over-noise-of-the-other-part",
        "each part of a release gets its own noise",
        "fastlloyd/overclustered.py",
        "statistic, noise, round=t, **broadcast)",
        "statistic, noise[::-1], round=t, **broadcast)",
        f"{OVER}::test_a_run_follows_its_plan_and_spends_it",
    ),
    mutant(
        "sketch-exact-symbols",
        "a symbol is randomised before it leaves the device",
        "ldp_kmeans/sketch.py",
        "        reports = self.response.randomize(self._answer(points, users), rng=rng)\n",
        "        reports = self._answer(points, users)\n",
        f"{SKETCH}::test_reports_of_two_points_are_as_far_apart_as_the_channel_says",
    ),
    mutant(
        "sketch-budget-for-each-axis",
        "the whole symbol has one budget",
        "ldp_kmeans/sketch.py",
        "        self.response = RandomizedResponse(epsilon, questions.n_symbols)\n",
        "        self.response = RandomizedResponse(\n"
        "            len(questions.bins) * epsilon, questions.n_symbols\n"
        "        )\n",
        f"{SKETCH}::test_reports_of_two_points_are_as_far_apart_as_the_channel_says",
    ),
    mutant(
        "sketch-everybody-answers-both-kinds",
        "a user answers one question",
        "ldp_kmeans/sketch_run.py",
        "part=query.name if plan.parts else None)",
        "part=None)",
        f"{SKETCH}::test_one_pure_report_of_each_user_is_charged",
    ),
    mutant(
        "sketch-question-from-the-point",
        "which question a user answers depends on the user's number only",
        "ldp_kmeans/sketch.py",
        "        return self.questions.symbols(points, self._question_of(users))\n",
        "        near = (np.abs(points).sum(axis=1) * 1e6).astype(np.int64)\n"
        "        return self.questions.symbols(points, near % self.questions.n_questions)\n",
        f"{SKETCH}::test_a_users_answer_depends_on_that_user_alone",
        f"{SKETCH}::test_the_answer_is_to_the_users_own_question",
    ),
)
