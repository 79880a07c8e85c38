"""Mutants of the releases beyond the papers: over-clustered Lloyd, the sketch, the shuffler."""

from __future__ import annotations

from tools.mutants.base import Edit, Mutant, mutant

OVER = "fastlloyd/test_overclustered.py"
TOTAL = (
    "client_statistics/test_total_statistics.py"
    "::test_statistics_are_total_and_no_neighbour_moves_them_further"
)
PE = "studies/test_beyond.py"
SKETCH = "ldp_kmeans/test_sketch.py"
SHUFFLED = "federation/test_shuffled.py"
SHUFFLING = "accounting/test_shuffling.py"
LDP = "ldp_kmeans/test_ldp_shuffled.py"
DEPTHS = "ldp_kmeans/test_depths.py"
DOOR = "estimators/test_estimators.py"

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "over-steps-not-cut",
        "a step is cut to the radius, however far the row lies",
        "client_statistics/points.py",
        "clip_rows(steps, bound)",
        "steps",
        f"{TOTAL}[cut_steps]",
    ),
    mutant(
        "over-cut-at-twice-the-radius",
        "a step is cut to the radius, however far the row lies",
        "client_statistics/points.py",
        "clip_rows(steps, bound)",
        "clip_rows(steps, 2 * bound)",
        f"{TOTAL}[cut_steps]",
    ),
    mutant(
        "over-squares-not-centred",
        "the sensitivity of x^2 - middle is that of its longer half",
        "client_statistics/scouting.py",
        "points**2 - middle",
        "points**2",
        f"{OVER}::test_squares_are_centred_so_that_no_row_moves_them_further_than_declared",
    ),
    mutant(
        "over-rows-in-two-cells",
        "a row counts in one cell",
        "client_statistics/scouting.py",
        "    return (per_client(cells, n_per_axis**d, offsets),)",
        "    counts = per_client(cells, n_per_axis**d, offsets)\n"
        "    return (counts + np.roll(counts, 1, axis=1),)",
        f"{TOTAL}[cell_counts]",
    ),
    mutant(
        "over-shares-beyond-one",
        "the shares of mu^2 add up to 1",
        "fastlloyd/rounds.py",
        "Round(CUT_STEPS, 0.20 * rest, k, 0.8 * reach)",
        "Round(CUT_STEPS, 0.20, k, 0.8 * reach)",
        f"{OVER}::test_shares_add_up_to_the_whole_budget",
    ),
    mutant(
        "over-message-of-the-chosen-size",
        "messages have the size of the plan, whatever k is chosen",
        "fastlloyd/overclustered.py",
        "        message = centers[np.resize(np.arange(len(centers)), self.rounds[0].size)]\n",
        "        message = centers\n",
        f"{OVER}::test_messages_have_the_size_of_the_plan_whatever_k_is_chosen",
    ),
    mutant(
        "over-open-k-budgets-for-another",
        "k is chosen from the releases of a run with the largest k",
        "fastlloyd/overclustered.py",
        "            self.k = elbow(self.costs)\n",
        "            self.k = elbow(self.costs) + 1\n",
        f"{OVER}::test_k_is_chosen_from_the_same_releases",
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
        "yield tuple(Ask(one, one.name) for one in queries)",
        "yield tuple(Ask(one) for one in queries)",
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
    mutant(
        "shuffle-keeps-the-order",
        "the server gets reports in random order",
        "federation/shuffled.py",
        "                columns = [column[order] for column in columns]\n",
        "                pass\n",
        f"{SHUFFLED}::test_the_server_gets_the_same_messages_in_another_order_without_senders",
        f"{SHUFFLED}::test_audit_the_server_stays_below_the_central_epsilon_the_shuffler_does_not",
    ),
    mutant(
        "shuffle-within-chunks-only",
        "the crowd is all users, not those of a chunk",
        "federation/shuffled.py",
        "        order = self.randomness.order(len(columns[0]))\n",
        "        order = self.randomness.order(len(columns[0]))\n"
        "        order = order[np.argsort(order // USERS_PER_CHUNK, kind='stable')]\n",
        f"{SHUFFLED}::test_messages_are_shuffled_across_chunks",
    ),
    mutant(
        "shuffle-numbers-for-tickets",
        "the question travels with a ticket that names nobody",
        "federation/shuffled.py",
        "        return self._tickets[start:stop]\n",
        "        return np.arange(start, stop)\n",
        f"{SHUFFLED}::test_tickets_are_not_numbers_and_not_used_twice",
    ),
    mutant(
        "shuffle-one-ticket-for-all-questions",
        "two messages of a user are not linked",
        "federation/shuffled.py",
        "        if part is None:  # a fresh one: tickets",
        "        if part is None and divided is None:  # a fresh one: tickets",
        f"{SHUFFLED}::test_tickets_are_not_numbers_and_not_used_twice",
        also=(
            Edit(
                "fedclust_helpers/federation/shuffled.py",
                "            self._tickets = divided\n",
                "",
            ),
        ),
    ),
    mutant(
        "shuffle-part-asked-twice",
        "a user sends one message for one charge",
        "federation/shuffled.py",
        "        if part is not None and part in self._asked:\n",
        "        if False:\n",
        f"{SHUFFLED}::test_parts_are_told_by_tickets_and_asked_once",
    ),
    mutant(
        "shuffle-liars-as-cover",
        "only honest users hide one another",
        "federation/shuffled.py",
        "        self._n_honest = n - check_int(",
        "        self._n_honest = n - 0 * check_int(",
        f"{SHUFFLED}::test_colluding_users_hide_nobody",
    ),
    mutant(
        "shuffle-bound-as-cover",
        "a public bound on the number of users is no cover",
        "federation/shuffled.py",
        "        if self.n_clients != n or self.n_records != len(self._data.points):\n",
        "        if False:\n",
        f"{SHUFFLED}::test_a_bound_on_the_number_of_users_is_no_cover",
    ),
    mutant(
        "shuffle-noised-vectors",
        "only pure reports are amplified",
        "federation/shuffled.py",
        "        if not math.isfinite(local):\n",
        "        if False:\n",
        f"{SHUFFLED}::test_what_no_theorem_amplifies_is_refused_before_anything_is_charged",
    ),
    mutant(
        "shuffle-twice-the-clones",
        "another user is a clone with probability 1/p",
        "accounting/shuffling.py",
        "binom.pmf(c, n, 1 / p)",
        "binom.pmf(c, n, 2 / (p + 1))",
        f"{SHUFFLING}::test_the_sum_over_tails_is_the_theorem_s_pair",
    ),
    mutant(
        "blanket-forgets-the-window",
        "what lies beyond the window of the transform is charged",
        "accounting/blanket.py",
        "found = max(float(total @ weight), 1e-300) + rounding + beyond\n",
        "found = max(float(total @ weight), 1e-300) + rounding\n",
        f"{SHUFFLING}::test_the_transform_is_above_the_sum_by_the_stated_error",
    ),
    mutant(
        "blanket-rounds-down",
        "V is split over its neighbours on the grid, its mean kept",
        "accounting/blanket.py",
        "    part = np.minimum(values / step - low + 4 * U * (1 + np.abs(values / step)), 1.0)\n",
        "    part = np.zeros_like(low)\n",
        f"{SHUFFLING}::test_the_transform_is_above_the_sum_by_the_stated_error",
    ),
    mutant(
        "blanket-of-every-symbol",
        "a: how often the blanket is the symbol of one value",
        "accounting/blanket.py",
        "    z = math.exp(each) + sizes - 1\n",
        "    z = math.exp(each) + sizes\n",
        f"{SHUFFLING}::test_the_transform_is_above_the_sum_by_the_stated_error",
        f"{SHUFFLING}::test_the_blanket_is_never_below_enumeration",
    ),
    mutant(
        "blanket-of-one-answer-for-several",
        "several answers of a user: their probabilities multiply",
        "accounting/shuffling.py",
        "        return self.pure_epsilon, symbols, len(self.reports)\n",
        "        return self.pure_epsilon, symbols ** len(self.reports), 1\n",
        f"{SHUFFLING}::test_several_answers_are_not_one_of_many_symbols",
    ),
    mutant(
        "blanket-for-public-questions",
        "a question that is dealt out in public has no blanket",
        "accounting/shuffling.py",
        "        if not self.drawn or symbols is None or",
        "        if symbols is None or",
        f"{SHUFFLING}::test_questions_known_by_number_exceed_the_blanket_of_all",
    ),
    mutant(
        "blanket-of-unequal-answers",
        "different randomisers in one message cost what the clones say",
        "accounting/shuffling.py",
        "any(r != self.reports[0] for r in self.reports)",
        "False",
        f"{SHUFFLING}::test_drawn_responses_cost_the_smaller_bound_and_others_the_clones",
    ),
    mutant(
        "blanket-local-epsilon-not-verified",
        "the local epsilon that is returned was itself checked, across jumps",
        "accounting/shuffling.py",
        "    return low\n\n\ndef _edge(",
        "    return low + STEP\n\n\ndef _edge(",
        f"{SHUFFLING}::test_the_local_epsilon_of_given_reports_is_verified_across_jumps",
    ),
    mutant(
        "shuffle-parts-of-two-local-epsilons",
        "the dearest part bounds the whole where all have one local epsilon",
        "federation/shuffled.py",
        "            if local != other:",
        "            if False:",
        f"{SHUFFLED}::test_parts_are_told_by_tickets_and_asked_once",
    ),
    mutant(
        "shuffle-delta-not-shared",
        "shuffled sets share delta",
        "accounting/totals.py",
        "    share = delta / (len(crowds) + bool(rest))\n",
        "    share = delta\n",
        f"{SHUFFLING}::test_shuffled_sets_add_up_with_shares_of_delta",
    ),
    mutant(
        "shuffle-local-charged-as-central",
        "at delta 0 an entry costs the local epsilon",
        "accounting/shuffling.py",
        "        return math.fsum(report.pure_epsilon for report in self.reports)\n",
        "        return max(report.pure_epsilon for report in self.reports)\n",
        f"{SHUFFLING}::test_an_entry_carries_the_local_and_the_central_guarantee",
    ),
    mutant(
        "shuffle-plan-with-the-central-epsilon",
        "users randomise with the local epsilon of the plan",
        "ldp_kmeans/one_round.py",
        "CellCounts(grid, levels, epsilon,",
        "CellCounts(grid, levels, report.epsilon,",
        f"{LDP}::test_the_central_epsilon_is_asked_and_the_local_one_solved",
    ),
    mutant(
        "depths-without-noise",
        "the noise of counts decides how fine cells can be",
        "ldp_kmeans/depths.py",
        "self.n_clusters * z * self.noise(depths)",
        "self.n_clusters * z * 1e-9",
        f"{DEPTHS}::test_an_error_is_a_share_of_the_cost_of_not_being_seen",
    ),
    mutant(
        "depths-by-the-central-epsilon",
        "behind a shuffler the epsilon of a report decides the depths",
        "ldp_kmeans/one_round.py",
        "Expected(n, d, d, k, epsilon, n_sd)",
        "Expected(n, d, d, k, report.epsilon, n_sd)",
        f"{DEPTHS}::test_the_epsilon_of_a_report_decides_not_that_of_the_crowd",
    ),
    mutant(
        "shuffled-door-without-a-shuffler",
        "LocalKMeans runs under the trust that it was given",
        "estimators/local.py",
        "ClientData.one_point_each(inside, copy=False), self.trust,",
        'ClientData.one_point_each(inside, copy=False), "local",',
        f"{DOOR}::test_a_shuffled_fit_is_the_function_saved_rehearsed_and_charged_once",
    ),
)
