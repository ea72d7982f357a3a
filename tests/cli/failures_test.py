# SPDX-License-Identifier: Apache-2.0
"""Subcommands whose system calls fail (tests/support/failures.py): some calls of each kind. scripts/failing_calls.py plays all subcommands and calls."""

import failures
from stalltrace import FAILED, Case

FIRST, STEP = 2, 5  # the 2nd, 10th, 50th ... call of a kind


class FailingCalls(Case):
    def setUp(self):
        super().setUp()
        self.given = failures.prepare(self.folder)

    def play(self, subcommand):
        scenario, = [one for one in failures.scenarios() if one.name == subcommand]
        played = 0
        for kind in scenario.kinds:
            for error in failures.KINDS[kind]:
                number, outcomes = FIRST, []
                while not outcomes or outcomes[-1][1].failed:  # until there are fewer calls
                    outcomes.append((number, scenario.play(self.given, kind, str(number), error)))
                    number *= STEP
                *outcomes, (_, plain) = outcomes
                played += len(outcomes)
                for number, outcome in outcomes:
                    with self.subTest(kind=kind, number=number, error=error):
                        self.assertIsNone(failures.problem(scenario, plain, outcome, error), outcome)
        return played

    def test_query(self):
        self.assertGreater(self.play("query"), 3)

    def test_explain(self):
        self.assertGreater(self.play("explain of two"), 5)

    def test_merge(self):
        self.assertGreater(self.play("merge"), 8)

    def test_import(self):
        self.assertGreater(self.play("import"), 8)

    def test_a_log_that_can_not_be_put_into_the_recording_is_reported(self):
        """The disk is full when all rows are written: they stay in the file's log."""
        scenario, = [one for one in failures.scenarios() if one.name == "import"]
        calls = scenario.play(self.given, "writes").calls
        # The number of writes is not the same in all runs: one of these is the first after the last row.
        for before_the_end in (10, 9, 11, 8, 12, 7, 13):
            outcome = scenario.play(self.given, "writes", f"{calls - before_the_end}+", "ENOSPC")
            self.assertEqual(outcome.code, FAILED, outcome)
            if "out.db-wal" in outcome.left:
                break
        self.assert_says("not in one file", outcome.err)
        self.assertIn("out.db-wal", outcome.left)

    def test_a_command_ends_as_it_would_have(self):
        self.assertGreater(self.play("run"), 8)

    def test_serve(self):
        self.assertGreater(self.play("serve"), 4)

    def test_any_allocation_may_fail(self):
        """The first ones, those at the end, and some between; 0.02 s each."""
        for scenario in failures.scenarios():
            if scenario.name not in ("explain", "query", "merge", "import", "export"):  # of which failures.py has why mcp is not one
                continue
            plain = scenario.play(self.given, failures.ALLOCATIONS)
            self.assertGreater(plain.calls, 100, "they are counted")
            numbers = {*range(1, 20), *range(plain.calls - 10, plain.calls + 1), *failures.chosen(plain.calls, 30)}
            for which in [f"{number}{later}" for number in sorted(numbers) for later in ("", "+")]:
                with self.subTest(subcommand=scenario.name, allocation=which):
                    outcome = scenario.play(self.given, failures.ALLOCATIONS, which)
                    self.assertTrue(outcome.failed)
                    self.assertIsNone(failures.problem(scenario, plain, outcome, "ENOMEM"), outcome)

    def test_an_interrupted_read_does_not_keep_serve_from_its_end(self):
        scenario, = [one for one in failures.scenarios() if one.name == "serve"]
        plain = scenario.play(self.given, "reads")
        for number in range(plain.calls - 5, plain.calls + 1):  # the last reads are those that the end needs
            with self.subTest(number=number):
                outcome = scenario.play(self.given, "reads", str(number), "EINTR")
                self.assertIsNone(failures.problem(scenario, plain, outcome, "EINTR"), outcome)
