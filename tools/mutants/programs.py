"""Mutants of programs: what lets an algorithm ask for planned and charged sums alone."""

from __future__ import annotations

from tools.mutants.base import Mutant, mutant

TEST = "program/test_program.py"
MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "program-asks-for-what-is-not-planned",
        "a request is the next line of the plan, or refused before it is charged",
        "program/session.py",
        "            if tuple(released) != self.follows.releases[at : at + len(released)]:\n",
        "            if False:\n",
        f"{TEST}::test_a_run_and_a_walk_refuse_what_is_not_planned_before_it_is_charged",
    ),
    mutant(
        "program-ends-before-its-plan",
        "the number of releases is that of the plan, whatever the answers are",
        "program/algorithm.py",
        "            if len(self.session.lines) < len(self.plan.releases):\n",
        "            if False:\n",
        f"{TEST}::test_a_run_and_a_walk_refuse_what_is_not_planned_before_it_is_charged",
    ),
    mutant(
        "program-planned-from-one-dry-run",
        "a plan does not depend on answers or coins",
        "program/algorithm.py",
        "        if (noisy.releases, noisy.parts) != (plan.releases, plan.parts):\n",
        "        if False:\n",
        f"{TEST}::test_a_wrong_algorithm_has_no_plan",
    ),
    mutant(
        "program-line-of-another-broadcast",
        "releases share a line only if the sensitivity depends on equal numbers",
        "program/requests.py",
        "tuple(sorted(plain.items()))",
        "()",
        "fastlloyd/test_fastlloyd.py::test_noise_follows_the_radius_of_its_round",
    ),
    mutant(
        "program-dial-beyond-epsilon",
        "the noise of a plan keeps its epsilon",
        "program/algorithm.py",
        "        if 0.99 * epsilon <= cost(sigma) <= epsilon * (1 + 1e-9):\n",
        "        if 0.99 * epsilon <= cost(sigma):\n",
        f"{TEST}::test_a_sloppy_author_gets_the_least_noise_all_the_same",
    ),
    mutant(
        "program-options-that-others-write-to",
        "what the caller does with an array after planning changes no plan",
        "program/algorithm.py",
        "        value = value.copy()\n",
        "        value = value.view()\n",
        f"{TEST}::test_options_belong_to_the_plan",
    ),
    mutant(
        "program-std-of-the-honest-shares-alone",
        "the noise in an answer is that of all shares",
        "program/public.py",
        'if facts.noise == "distributed" else 1.0',
        "if False else 1.0",
        f"{TEST}::test_std_is_that_of_all_shares",
    ),
    mutant(
        "groups-two-vectors-of-a-client-in-one",
        "vectors of one client are in different groups",
        "program/grouped.py",
        "        if (ordered[:, 1:] == ordered[:, :-1]).any():\n",
        "        if False:\n",
        f"{TEST}::test_exact_messages_are_summed_once_in_groups_of_their_own_by_a_trusted_server",
    ),
    mutant(
        "groups-summed-twice",
        "exact messages are used for one set of noised sums",
        "program/grouped.py",
        "        (asked, updates, line), session.held = session.held, None\n",
        "        asked, updates, line = session.held\n",
        f"{TEST}::test_exact_messages_are_summed_once_in_groups_of_their_own_by_a_trusted_server",
    ),
    mutant(
        "groups-state-the-size-of-one-message",
        "discrete noise is charged for the numbers of all groups and identifiers",
        "program/grouped.py",
        "[identifiers * self.cohort(facts), self.n_groups * (updates // self.n_vectors)]",
        "[identifiers, updates]",
        f"{TEST}::test_sums_by_groups_are_one_line_and_one_sample",
    ),
    mutant(
        "parts-divided-twice",
        "parts of one division do not overlap, those of two do",
        "program/asking.py",
        "        if session.parts:\n",
        "        if False:\n",
        f"{TEST}::test_parts_of_the_users_answer_in_parallel_and_are_divided_once",
    ),
)
