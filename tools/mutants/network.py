"""Mutants of a federation over a network: what a client refuses, and what nobody may forget."""

from __future__ import annotations

from tools.mutants.base import Edit, Mutant, mutant

ROOMS = "flower/test_flower_rooms.py"
TRUST = "flower/test_flower_trust.py"

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "network-charge-after-the-answer",
        "a charge is on disk before the answer leaves",
        "flower/client.py",
        "        self.journal.save(kept)  # charged and kept; only now may it leave\n",
        "",
        f"{ROOMS}::test_what_is_charged_is_never_less_than_what_left",
    ),
    mutant(
        "network-repeated-round-answered-anew",
        "a round is answered once, and never to another request",
        "flower/client.py",
        'if last["request"] != digest:',
        "if False:",
        f"{ROOMS}::test_rounds_come_in_order_and_once",
    ),
    mutant(
        "network-rounds-in-any-order",
        "rounds are answered in the order of the plan",
        "flower/client.py",
        'if frame.number != len(mine["shapes"]):',
        "if False:",
        f"{ROOMS}::test_rounds_come_in_order_and_once",
    ),
    mutant(
        "network-any-agreement-accepted",
        "study, plan and version are agreed on before the first message",
        "flower/client.py",
        "        if sent != self.agreement:\n",
        "        if False:\n",
        f"{ROOMS}::test_nothing_is_answered_before_the_agreement",
    ),
    mutant(
        "network-agreement-without-the-plan",
        "the agreement binds the numbers of the study",
        "flower/study.py",
        "fedclust_helpers.__version__, asdict(self), plan.method, plan.epsilon, plan.delta,",
        "fedclust_helpers.__version__, self.method, plan.method,",
        f"{ROOMS}::test_another_study_is_another_agreement",
    ),
    mutant(
        "network-any-statistic-answered",
        "a client computes the statistic of its plan and no other",
        "flower/client.py",
        "if statistic is None or name != planned.name:",
        "if statistic is None:",
        f"{ROOMS}::test_a_hostile_broadcast_is_refused_and_costs_nothing",
    ),
    mutant(
        "network-bounds-of-the-study",
        "a client keeps its own bounds",
        "flower/client.py",
        "            if getattr(study, name) != value:\n",
        "            if False:\n",
        f"{ROOMS}::test_a_client_keeps_its_own_bounds",
    ),
    mutant(
        "network-earlier-runs-forgotten",
        "one budget is shared by all runs on the same rows",
        "flower/journal.py",
        '        if run is leave or not run["charged"]:\n',
        "        if True:\n",
        f"{ROOMS}::test_a_budget_is_shared_by_all_runs_of_a_journal",
    ),
    mutant(
        "network-second-total-of-a-release",
        "a server that was killed sends the total that it sent before",
        "flower/server.py",
        "        self.journal.save(self._kept)  # a release has one total\n",
        "",
        f"{ROOMS}::test_a_killed_server_goes_on",
    ),
    mutant(
        "network-pads-of-another-run",
        "pads belong to one run: the group secret outlives it",
        "flower/seats.py",
        "        self._pads = PadBook(secret, session, self.fixed_point.bits)\n",
        '        self._pads = PadBook(secret, b"any run", self.fixed_point.bits)\n',
        f"{ROOMS}::test_pads_belong_to_one_run",
    ),
    mutant(
        "network-pads-do-not-cancel",
        "the server reads the sum, and the pads alone hide each part",
        "federation/in_process.py",
        "        return np.concatenate([pads[:-1], last])\n",
        "        return pads\n",
        f"{ROOMS}::test_pads_cancel_where_the_server_reads",
    ),
    mutant(
        "network-server-reads-under-its-own-noise",
        "a server that adds the noise does not read the sum",
        "federation/in_process.py",
        '            if noise_from == "server":\n',
        "            if False:\n",
        f"{ROOMS}::test_a_server_that_adds_the_noise_may_not_read_the_sum",
    ),
    mutant(
        "network-errors-quote-data",
        "an error that a client did not expect tells the server nothing",
        "flower/client.py",
        "        except Exception:  # its text may speak of the rows: it stays here\n",
        "        except Exception as error:\n",
        f"{ROOMS}::test_an_error_tells_nothing_about_the_rows",
        also=(
            Edit(
                "fedclust_helpers/flower/client.py",
                'reason = "the client failed; its operator finds the reason in its log"',
                "reason = str(error)",
            ),
        ),
    ),
    mutant(
        "network-answers-in-any-name",
        "an answer counts for the client whose node sent it",
        "flower/server.py",
        'if wanted != "hello" and self._numbers.get(address) != frame.sender:',
        "if False:",
        f"{ROOMS}::test_nobody_answers_in_the_name_of_another",
    ),
    mutant(
        "network-relay-and-client-unmask",
        "without a server, the relay and a client together read no third client's message",
        "flower/seats.py",
        "pads[self._number] + self._shared(part, shape)",
        "pads[self._number]",
        f"{TRUST}::test_relay_and_a_client_together_read_no_third_message",
    ),
    mutant(
        "network-shares-do-not-cancel",
        "what one client takes for a share the other one gives",
        "flower/seats.py",
        "total = total + pad if other < self._number else total - pad",
        "total = total + pad",
        f"{TRUST}::test_round_by_round_equal_to_one_process",
    ),
    mutant(
        "network-key-of-anybody",
        "a client answers with the key that the others know it by",
        "flower/client.py",
        "if study.public_keys and public_key",
        "if False and public_key",
        f"{TRUST}::test_a_key_is_that_of_the_study",
    ),
    mutant(
        "network-pair-secret-of-all",
        "a pair of keys has a secret of its own",
        "secure_aggregation.py",
        '    return _derive(shared, b"pair|" + b"".join(pair))\n',
        '    return _derive(bytes(32), b"pair|" + b"".join(pair))\n',
        "ground/test_secure_aggregation.py::test_a_pair_of_keys_has_one_secret",
    ),
    mutant(
        "network-users-take-questions",
        "users answer the question of the study, and take none from a message",
        "flower/client.py",
        '        if frame.arrays:\n            raise RefusedError("the question',
        '        if False:\n            raise RefusedError("the question',
        f"{TRUST}::test_a_request_brings_no_question",
    ),
    mutant(
        "network-noise-of-a-known-seed",
        "the noise of users is fresh in secure mode",
        "flower/seats.py",
        "        super().__init__(study, rows, **own)\n\n    def _numbers(",
        "        super().__init__(study, rows, **own)\n"
        "        if study.seed is None:\n"
        "            noise = np.random.default_rng(0)\n"
        "            self.randomness = Randomness(self.randomness.public, noise, (), None, None)\n"
        "\n    def _numbers(",
        f"{TRUST}::test_secure_mode_draws_fresh_noise",
    ),
    mutant(
        "network-parts-forgotten",
        "each user pays for the one question of its part",
        "flower/journal.py",
        "name=made.name, round=made.round, group=part,",
        "name=made.name, round=made.round,",
        f"{TRUST}::test_each_user_pays_for_one_question",
    ),
    mutant(
        "network-made-up-reports-counted",
        "the server counts reports of the plan's form only",
        "flower/server.py",
        'return "" if good else "reports that no user would send"',
        'return ""',
        f"{TRUST}::test_reports_that_no_user_would_send_are_not_counted",
    ),
)
