"""Mutants of the wire: who releases what, to whom, with which noise, and by which plan."""

from __future__ import annotations

from tools.mutants.base import Edit, Mutant, mutant

STATE: tuple[Mutant, ...] = (
    mutant(
        "state-federations-are-copied",
        "keys, pads and generators are not copied",
        "_state.py",
        '    def __deepcopy__(self, memo: Any) -> NoReturn:\n        self._refuse("copied")',
        "    def __deepcopy__(self, memo: Any) -> Any:\n"
        "        made = object.__new__(type(self))\n"
        "        made.__dict__.update(self.__dict__)\n"
        "        return made",
        "ground/test_state.py::test_federations_pads_and_generators_are_neither_copied_nor_pickled",
    ),
    mutant(
        "state-federations-are-pickled",
        "keys, pads and generators are not pickled: joblib would reuse every pad",
        "_state.py",
        '    def __reduce_ex__(self, protocol: Any) -> NoReturn:\n        self._refuse("pickled")',
        "    def __reduce_ex__(self, protocol: Any) -> Any:\n"
        "        return object.__new__, (type(self),), self.__dict__",
        "ground/test_state.py::test_federations_pads_and_generators_are_neither_copied_nor_pickled",
    ),
    mutant(
        "state-releases-after-a-fork",
        "a fork releases nothing: it would draw the parent's noise and pads again",
        "_state.py",
        "        if os.getpid() != self._process:\n",
        "        if False:\n",
        "ground/test_state.py::test_a_fork_releases_nothing_gives_out_no_pad_and_charges_no_ledger",
        also=(
            Edit(
                "fedclust_helpers/accounting/ledger.py",
                "if self._process != os.getpid():",
                "if False:",
            ),
        ),
    ),
    mutant(
        "state-attributes-can-be-set",
        "what a release depends on is fixed when the federation is made",
        "_state.py",
        '        if self._is_sealed and not name.startswith("_"):\n',
        "        if False:\n",
        "ground/test_state.py::test_a_federation_is_fixed_once_it_is_made",
    ),
)

PLANS: tuple[Mutant, ...] = (
    mutant(
        "plan-of-another-federation-followed",
        "a plan is followed by the federation that made it alone",
        "federation/following.py",
        "        if plan.facts != facts:\n",
        "        if False:\n",
        "ground/test_state.py::test_a_plan_is_for_the_federation_that_made_it",
    ),
    mutant(
        "plan-not-followed",
        "within a plan every release is the next one of it",
        "federation/following.py",
        "        if wrong:\n",
        "        if False:\n",
        "ground/test_state.py::test_a_run_releases_what_its_plan_says_and_nothing_else",
    ),
    mutant(
        "plan-may-cost-more-than-it-states",
        "a plan whose releases cost more than it states is refused",
        "federation/following.py",
        "        if not plan.total_epsilon <= plan.epsilon * (1 + 1e-9):\n",
        "        if False:\n",
        "ground/test_state.py::test_a_plan_that_costs_more_than_it_states_is_refused",
    ),
    mutant(
        "plan-not-admitted-as-a-whole",
        "the budget pays the whole plan before its first message",
        "accounting/ledger.py",
        "reservation = Reservation(planned, self._require(planned, name))",
        "reservation = Reservation(planned, 0.0)",
        "federation/test_noise.py::test_the_default_budget_admits_a_plan_of_exactly_that_total",
        "federation/test_noise.py::test_shares_of_plans_add_up_and_bound_the_truth",
        "ground/test_state.py",
    ),
    mutant(
        "plan-frees-what-it-released",
        "a run that failed keeps the charge of what it released",
        "accounting/ledger.py",
        "            if not reservation.charged and reservation in self._reservations:\n",
        "            self._releases = [r for r in self._releases if r not in reservation.charged]\n"
        "            if reservation in self._reservations:\n",
        "ground/test_state.py::test_a_failed_run_keeps_what_it_released_and_frees_what_it_did_not",
    ),
    mutant(
        "plan-changed-by-hand-followed",
        "a plan is followed as a planner made it, or not at all",
        "federation/following.py",
        "    if not all(a is b or",
        "    if False and not all(a is b or",
        "federation/test_changed_plans.py::test_a_plan_that_would_fail_on_its_way_is_not_begun",
        "federation/test_changed_plans.py::test_a_changed_plan_is_run_as_stated_or_refused_with_nothing_charged",
    ),
    mutant(
        "plan-release-without-its-sampling",
        "a release is made of the cohort that the plan states",
        "federation/following.py",
        '"mechanisms", "sampling", "part"',
        '"mechanisms", "part"',
        "federation/test_changed_plans.py::test_a_release_is_the_next_one_of_the_plan_with_its_sampling_too",
    ),
    mutant(
        "plan-without-a-source-of-noise",
        "secure noise that cannot be drawn is no reason to plan",
        "federation/following.py",
        "            release.check_source(plan.facts.mode)\n",
        "            pass\n",
        "estimators/test_doors.py::test_a_fit_without_opendp_leaves_the_budget_as_it_was",
        "federation/test_changed_plans.py::test_without_a_source_of_secure_noise_there_is_no_plan_and_no_charge",
    ),
    mutant(
        "plan-charged-before-the-source-of-noise-is-asked",
        "nothing is charged where secure noise cannot be drawn",
        "federation/base.py",
        "        wanted.check_source(self.facts.mode)\n",
        "",
        "federation/test_changed_plans.py::test_without_a_source_of_secure_noise_there_is_no_plan_and_no_charge",
    ),
)

NOISE: tuple[Mutant, ...] = (
    mutant(
        "noise-for-the-unrounded-value",
        "noise hides the rounding to the federation's grid as well",
        "federation/noise.py",
        "return statistic.sensitivity_of(part, norm, facts.adjacency, grid=grid, **numbers), grid",
        "return statistic.sensitivity_of(part, norm, facts.adjacency, **numbers), grid",
        "federation/test_noise.py::test_what_a_federation_draws_is_what_it_accepts",
    ),
    mutant(
        "noise-for-the-other-adjacency",
        "noise is calibrated for the neighbours of the ledger",
        "federation/noise.py",
        "return statistic.sensitivity_of(part, norm, facts.adjacency, grid=grid, **numbers), grid",
        'return statistic.sensitivity_of(part, norm, "add/remove", grid=grid, **numbers), grid',
        "rr_cluster/test_rr_cluster.py::test_counts_are_free_under_replace_one",
        "rr_cluster/test_rr_cluster.py",
    ),
    mutant(
        "noise-bound-given-by-the-caller",
        "bound and number of features are the federation's own",
        "federation/noise.py",
        "    for name in own.keys() & public.keys():\n",
        "    for name in ():\n",
        "ground/test_state.py::test_numbers_behind_a_sensitivity_cannot_be_given_beside",
    ),
    mutant(
        "noise-multiplier-halved",
        "the noise of a release gives its budget",
        "federation/noise.py",
        "return iter((gaussian_sigma_analytic(epsilon, delta),))",
        "return iter((gaussian_sigma_analytic(epsilon, delta) / 2,))",
        "federation/test_noise.py::test_the_multiplier_is_that_of_the_noise",
        quick=True,
    ),
)

RELEASES: tuple[Mutant, ...] = (
    mutant(
        "release-bound-overridden-by-a-broadcast",
        "nothing that is sent beside overrides the numbers of the sensitivity",
        "federation/checks.py",
        "    if own:\n",
        "    if False:\n",
        "ground/test_guards.py::test_a_statistic_that_takes_any_name_does_not_lower_its_own_sensitivity",
        also=(
            Edit(
                "fedclust_helpers/federation/checks.py",
                "return {**public_numbers(broadcast), **own}",
                "return {**own, **public_numbers(broadcast)}",
            ),
        ),
    ),
    mutant(
        "release-domain-not-checked",
        "a federation refuses a statistic that is calibrated for a smaller domain",
        "federation/checks.py",
        "    if not statistic.fits(facts.domain):\n",
        "    if False:\n",
        "federation/test_noise.py::test_a_statistic_of_the_ball_is_refused_on_a_box",
    ),
    mutant(
        "release-unit-not-checked",
        "a sensitivity of points is refused on a ledger of clients",
        "federation/checks.py",
        "    if statistic.unit != facts.unit:\n",
        "    if False:\n",
        "federation/test_federation_contract.py",
        "ground/test_wrong_use.py::test_a_run_is_refused_before_anything_happens",
    ),
    mutant(
        "release-sensitivity-not-checked",
        "noise that hides too little is refused",
        "federation/checks.py",
        "    if not mechanism.sensitivity >= needed * (1 - 1e-12):\n",
        "    if False:\n",
        "federation/test_federation_contract.py",
        "federation/test_noise.py::test_what_a_federation_draws_is_what_it_accepts",
    ),
    mutant(
        "release-continuous-noise-in-secure-mode",
        "secure mode takes discrete noise alone",
        "federation/checks.py",
        '    if facts.mode == "secure" and mechanism.grid is None:\n',
        "    if False:\n",
        "federation/test_federation.py::test_secure_mode_refuses_continuous_noise_before_anything",
    ),
    mutant(
        "release-a-share-of-noise-for-all-of-it",
        "one node's share of the noise is refused where one party adds it",
        "federation/checks.py",
        "        if honest is not None:\n",
        "        if False:\n",
        "federation/test_federation_local.py::test_a_share_of_distributed_noise_is_refused_where_one_party_adds_it",
        "federation/test_federation_contract.py",
    ),
    mutant(
        "release-seed-in-secure-mode",
        "secure mode takes no seed",
        "federation/base.py",
        '        if mode == "secure" and seed is not None:\n',
        "        if False:\n",
        "federation/test_federation.py::test_teaching_needs_a_seed_and_secure_refuses_one",
        quick=True,
    ),
    mutant(
        "release-errors-about-data-in-secure-mode",
        "no error or warning tells how large the data are",
        "federation/data.py",
        '            "most rows lie outside the public bounds and were moved',
        '            f"{counts.sum()} rows lie outside the public bounds and were moved',
        "federation/test_noise.py::test_secure_mode_lets_no_error_tell_how_large_the_data_are",
    ),
    mutant(
        "release-data-outside-the-bound",
        "rows are clipped to the public bound before anything is computed",
        "federation/base.py",
        "        self._data = clipped\n",
        "        self._data = data\n",
        "ground/test_wrong_use.py::test_one_point_cannot_do_more_than_its_clipped_self",
    ),
    mutant(
        "release-charge-forgotten",
        "every noised sum is charged",
        "federation/base.py",
        "        self.ledger.charge(\n            wanted.mechanisms, name=wanted.name,",
        "        (lambda *a, **k: None)(\n            wanted.mechanisms, name=wanted.name,",
        "federation/test_federation.py::test_collect_gives_each_client_s_message_and_charges",
    ),
    mutant(
        "release-charged-after-the-data-are-read",
        "a release is charged before data are touched",
        "federation/base.py",
        "            self._charge(\n"
        "                PlannedRelease.of(statistic, tuple(mechanisms), round=round,"
        " sampling=sampling)\n"
        "            )\n"
        "            cohort = self._draw(sampling)\n",
        "            cohort = self._draw(sampling)\n"
        "            self._answers(statistic, mechanisms, broadcast, cohort)\n"
        "            self._charge(\n"
        "                PlannedRelease.of(statistic, tuple(mechanisms), round=round,"
        " sampling=sampling)\n"
        "            )\n",
        "federation/test_federation_contract.py",
        "federation/test_federation_sampling.py",
        "federation/test_federation.py",
    ),
    mutant(
        "release-amplified-for-points",
        "drawing clients does not amplify for points",
        "federation/checks.py",
        '    if statistic.unit != "client":\n',
        "    if False:\n",
        "federation/test_federation_sampling.py::test_sampling_clients_does_not_amplify_for_points",
    ),
    mutant(
        "release-of-another-population",
        "the sampling that is charged is the one that is drawn",
        "federation/checks.py",
        '    if sampling.scheme == "fixed" and sampling.population != facts.n_clients:\n',
        "    if False:\n",
        "federation/test_federation_sampling.py::test_wrong_sampling_is_refused_before_anything_is_read",
    ),
    mutant(
        "release-everyone-instead-of-the-cohort",
        "the statistic reads the data of the cohort only",
        "federation/base.py",
        "data = self._data if cohort is None else self._data.take(cohort)",
        "data = self._data",
        "federation/test_federation_sampling.py::test_the_statistic_reads_the_cohort_only",
    ),
    mutant(
        "release-the-same-cohort-every-round",
        "every release draws a fresh cohort",
        "federation/randomness.py",
        "            return np.sort(self.cohorts.choice(population, size, replace=False))\n",
        "            return np.arange(size)\n",
        "federation/test_federation_sampling.py",
    ),
    mutant(
        "release-noise-of-rounds-reused",
        "every release draws noise of its own",
        "federation/base.py",
        "        noise = mechanism.sample_steps(total.shape, rng=self.randomness.noise)\n",
        "        rng = self.randomness.noise\n"
        "        if isinstance(rng, np.random.Generator):\n"
        "            rng = np.random.default_rng(1)\n"
        "        noise = mechanism.sample_steps(total.shape, rng=rng)\n",
        "federation/test_federation.py",
        "federation/test_federation_contract.py",
        "federation/test_noise.py",
    ),
    mutant(
        "release-continuous-noise-of-rounds-reused",
        "every release draws noise of its own",
        "federation/base.py",
        "            return total + mechanism.sample(total.shape, rng=self.randomness.noise)\n",
        "            return total + mechanism.sample(total.shape, rng=np.random.default_rng(1))\n",
        "federation/test_federation.py::test_noise_of_the_first_round_differs_between_seeds_and_rounds",
        "federation/test_federation.py::test_noise_of_sums_and_counts_is_uncorrelated",
    ),
    mutant(
        "release-noise-dropped",
        "what is released is not the exact total",
        "federation/base.py",
        "            return total + mechanism.sample(total.shape, rng=self.randomness.noise)\n",
        "            return total + 0.0\n",
        "federation/test_federation.py::test_noise_of_the_first_round_differs_between_seeds_and_rounds",
    ),
    mutant(
        "release-fails-where-others-see-it",
        "a client whose statistic fails is charged and answers as one without rows",
        "federation/base.py",
        "        except Exception:  # its text may speak of the rows: it stays here\n",
        "        except ZeroDivisionError:\n",
        "federation/test_federation_contract.py"
        "::test_a_client_that_fails_is_charged_and_answers_as_one_without_rows",
        "flower/test_flower_rooms.py"
        "::test_a_client_whose_statistic_fails_is_charged_and_answers_as_one_without_rows",
    ),
    mutant(
        "release-of-what-is-no-answer",
        "a client whose statistic is not finite, or not of its shape, answers as one without rows",
        "federation/base.py",
        "            if checks.are_answers(values, n):\n",
        "            if True:\n",
        "federation/test_federation_contract.py"
        "::test_a_client_that_fails_is_charged_and_answers_as_one_without_rows",
    ),
    mutant(
        "release-totals-beyond-the-integers",
        "totals that 64-bit integers do not hold are refused by public numbers",
        "federation/checks.py",
        "    if not steps < MAX_STEPS:\n",
        "    if False:\n",
        "federation/test_noise.py::test_totals_that_64_bit_integers_cannot_hold_are_refused",
    ),
    mutant(
        "release-record-counts-the-cohort",
        "a record does not tell how many of a hidden cohort took part",
        "federation/base.py",
        "int(self.n_clients * (1.0 if sampling is None else sampling.share) + 0.5)",
        "self._data.n_clients if cohort is None else len(cohort)",
        "federation/test_federation_sampling.py::test_the_record_does_not_tell_how_many_of_a_hidden_cohort_took_part",
        "estimators/test_doors.py::test_a_statement_tells_planned_numbers_only",
    ),
    mutant(
        "release-secure-cohort-of-twice-the-rate",
        "in secure mode too each client is drawn at the rate that is charged",
        "federation/randomness.py",
        "* 2.0**-53",
        "* 2.0**-54",
        "federation/test_federation_sampling.py::test_secure_uniforms_are_uniform_in_every_bit_and_fresh",
        "federation/test_federation_sampling.py::test_secure_cohorts_have_their_rate_their_size_and_are_drawn_anew",
    ),
    mutant(
        "release-secure-cohort-of-the-first",
        "in secure mode too every subset is as likely",
        "federation/randomness.py",
        "        return np.sort(self.order(population)[:size])\n",
        "        return np.arange(size)\n",
        "federation/test_federation_sampling.py::test_secure_subsets_and_orders_are_all_as_likely",
        "federation/test_federation_sampling.py::test_secure_cohorts_have_their_rate_their_size_and_are_drawn_anew",
    ),
    mutant(
        "release-the-same-secure-cohort-every-round",
        "in secure mode too every release draws a fresh cohort",
        "federation/randomness.py",
        "np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)",
        "np.random.default_rng(n).integers(2**64, size=n, dtype=np.uint64)",
        "federation/test_federation_sampling.py::test_secure_cohorts_have_their_rate_their_size_and_are_drawn_anew",
        count=2,
    ),
)

RINGS: tuple[Mutant, ...] = (
    mutant(
        "masked-sampling-taken",
        "no amplification against clients who learn the cohort when they unmask",
        "federation/base.py",
        "        if sampling is not None and self.no_sampling:\n",
        "        if False:\n",
        "federation/test_noise.py::test_a_cohort_that_recipients_know_is_refused",
    ),
    mutant(
        "masked-pads-by-the-round",
        "pads go by the release: a second run on the same data starts at round 0 again",
        "federation/base.py",
        "number, self._n_releases = self._n_releases, self._n_releases + 1",
        "number, self._n_releases = 0, self._n_releases + 1",
        "federation/test_federation.py::test_one_ledger_for_all_runs_on_a_data_set",
        "ground/test_state.py::test_threads_share_one_federation_without_sharing_a_pad",
    ),
    mutant(
        "masked-server-adds-no-noise",
        "clients unmask a noised sum, not the exact one",
        "federation/in_process.py",
        "total = total + self._fresh_noise(part.mechanism, shape",
        "total = total + 0 * self._fresh_noise(part.mechanism, shape",
        "federation/test_federation_contract.py::test_one_round_gives_the_same_answer",
    ),
    mutant(
        "masked-clients-add-no-share",
        "with noise from the clients every client adds its share before it masks",
        "federation/in_process.py",
        "            encoded = encoded + self._shares_of_noise(part.mechanism, shape)\n",
        "            pass\n",
        "federation/test_noise.py::test_shares_of_honest_clients_suffice_alone",
        "federation/test_wire_privacy.py::test_noise_of_the_clients_hides_the_sums_from_a_server_with_the_published_result",
    ),
    mutant(
        "masked-unmasked-on-the-wire",
        "the server receives masked words and nothing else",
        "federation/in_process.py",
        '            part.round, "clients", "server", part.name, masked[0], count=len(masked),'
        " payload=masked\n",
        '            part.round, "clients", "server", part.name, encoded[0], count=len(encoded),'
        " payload=encoded\n",
        "federation/test_wire_privacy.py::test_a_masked_server_sees_uniform_words_whatever_the_data",
    ),
    mutant(
        "masked-receiver-said-to-be-the-server",
        "a masked federation says that clients, not the server, learn the sums",
        "federation/in_process.py",
        '    receiver: Literal["server", "clients"] = "clients"\n',
        '    receiver: Literal["server", "clients"] = "server"\n',
        "federation/test_noise.py::test_a_cohort_that_recipients_know_is_refused",
        "feddp_kmeans/test_feddp_wrong_use.py",
        "federation/test_noise.py",
    ),
    mutant(
        "serverless-colluding-nodes-counted-as-honest",
        "shares that colluding nodes know do not count",
        "federation/checks.py",
        "    elif honest > facts.n_honest:\n",
        "    elif False:\n",
        "federation/test_federation.py::test_serverless_refuses_noise_that_one_node_knows_or_that_is_too_little",
    ),
    mutant(
        "serverless-noise-that-one-node-knows",
        "noise that one node draws alone hides nothing from that node",
        "federation/checks.py",
        "    elif honest is None:\n",
        "    elif False:\n",
        "federation/test_federation.py::test_serverless_refuses_noise_that_one_node_knows_or_that_is_too_little",
    ),
    mutant(
        "serverless-shares-are-zero",
        "a single share of a value is uniform",
        "federation/in_process.py",
        "        random = random.reshape(m, m - 1, *encoded.shape[1:])\n",
        "        random = 0 * random.reshape(m, m - 1, *encoded.shape[1:])\n",
        "federation/test_federation.py::test_shares_add_up_and_single_shares_are_uniform",
    ),
    mutant(
        "ring-rounding-left-out-of-the-range",
        "rounding to a coarse grid counts for the range of the ring",
        "federation/checks.py",
        "    return n, change.most + rounding\n",
        "    return n, change.most\n",
        "ground/test_guards.py::test_the_largest_total_of_a_ring_counts_the_rounding_of_every_client",
    ),
    mutant(
        "trusted-collect-without-a-charge",
        "collected messages are charged before the server sees them",
        "federation/base.py",
        "            self._charge(\n                PlannedRelease.of(",
        '            (self._charge if capability != "collect" else print)(\n'
        "                PlannedRelease.of(",
        "federation/test_federation.py::test_collect_gives_each_client_s_message_and_charges",
    ),
    mutant(
        "ideal-server-sees-the-exact-sum",
        "an ideal sum shows the server the noised value alone",
        "federation/in_process.py",
        "        return released\n",
        '        self.transcript.record(part.round, "clients", "server", part.name, released)\n'
        "        return released\n",
        "federation/test_federation.py::test_the_ideal_server_sees_the_released_sum_alone",
    ),
)

DATA: tuple[Mutant, ...] = (
    mutant(
        "data-kept-as-a-view",
        "changing the caller's array afterwards changes no release",
        "federation/data.py",
        "    copy: InitVar[bool] = True\n",
        "    copy: InitVar[bool] = False\n",
        "federation/test_client_data.py::test_a_view_is_kept_only_where_it_is_asked_for",
        "federation/test_client_data.py",
    ),
    mutant(
        "data-exact-facts-in-the-representation",
        "printing client data tells public numbers alone",
        "federation/base.py",
        '({self.n_clients} clients, {self.n_features} features,"',
        '({self._data.points[0]} clients, {self.n_features} features,"',
        "ground/test_state.py::test_a_representation_holds_no_data_and_no_secret",
    ),
    mutant(
        "data-nested-mask-lost",
        "a masked array is refused at any depth",
        "_validation.py",
        "    return any(map(_holds_masks, values))\n",
        "    return False\n",
        "federation/test_client_data.py::test_masked_entries_are_not_read_however_deep_they_lie",
    ),
)

LOCAL: tuple[Mutant, ...] = (
    mutant(
        "local-reports-not-noised",
        "every client noises its message before it leaves",
        "federation/local.py",
        "        noisy = self.noised(self._exact(values, part.mechanism), part.mechanism)\n",
        "        noisy = self._exact(values, part.mechanism) + 0.0\n",
        "federation/test_federation.py::test_local_reports_are_noised_at_each_client",
    ),
    mutant(
        "local-questions-not-charged",
        "every question to the users is charged",
        "federation/local.py",
        "self._charge(\n            PlannedRelease(round, query.name, query.parts",
        "(lambda *a, **k: None)(\n            PlannedRelease(round, query.name, query.parts",
        "federation/test_federation_local.py::test_everybody_is_asked_once_and_charged_once",
    ),
    mutant(
        "local-user-fails-where-others-see-it",
        "a user for whom a question fails is charged and answers as for the point 0",
        "federation/local.py",
        "        except Exception:  # its text may speak of the points: it stays here\n",
        "        except ZeroDivisionError:\n",
        "federation/test_federation_local.py"
        "::test_a_user_who_fails_is_charged_and_answers_as_for_the_point_zero",
    ),
    mutant(
        "local-ledger-of-add-remove",
        "local privacy is replace-one",
        "federation/local.py",
        "            if mechanism.adjacency != self.ledger.adjacency:\n",
        "            if False:\n",
        "federation/test_federation_local.py",
    ),
    mutant(
        "local-divisions-share-a-number",
        "two divisions of the users overlap: their parts are told apart",
        "federation/local.py",
        'object.__setattr__(split, "number", self.ledger.new_division())',
        'object.__setattr__(split, "number", 0)',
        "federation/test_federation_local.py::test_federations_that_share_a_ledger_do_not_share_divisions",
        "federation/test_federation_local.py::test_parts_cost_in_parallel_and_divisions_add_up",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *STATE, *PLANS, *NOISE, *RELEASES, *RINGS, *DATA, *LOCAL,
)  # fmt: skip
