# SPDX-License-Identifier: Apache-2.0
"""A field case (tests/field) can go wrong in each way that tests/field/judging.py knows, and only there."""

import sys
import types

from stalltrace import ROOT, Case

sys.path.append(str(ROOT / "tests" / "field"))

from judging import RIGHT, SILENT, WRONG, Finds, Silent, judge  # noqa: E402

WAIT = "Rank 0 (vm, pid 7) has not entered AllReduce number 9."


def finding(cause="late_rank", rank=1, remedy="look", summary=WAIT):
    return {"cause": cause, "severity": "high", "culprit": {"node": "vm", "rank": rank, "pid": 7}, "summary": summary, "remedy": remedy,
            "evidence": []}


def contention(remedy):
    return finding("cpu_contention", remedy=remedy, summary="Rank 1 (vm, pid 7) could not run because 'x' (pid 9) had its core.")


def attempt(ranks, ended_by=None):
    return {"ranks": ranks, "ended_by": ended_by and {"node": "vm", "rank": ended_by, "pid": 7}}


def seen(*findings, collectives=100, job_code=0, failures=(), healthy=True, attempts=()):
    """What came of a case, quietly."""
    report = {"findings": list(findings), "healthy": healthy and not findings, "notes": [], "judged": {"collectives": collectives},
              **({"attempts": list(attempts)} if attempts else {})}
    return types.SimpleNamespace(report=report, text="Healthy: no finding.", live=[], printed="", fault_ns=None, job_code=job_code,
                                 failures=list(failures))


class FieldJudging(Case):
    def problems(self, expected, what):
        verdict = judge(expected, what)
        self.assertEqual(verdict.word == WRONG, bool(verdict.problems))
        return verdict.problems

    def test_silence_after_a_job_is_silent(self):
        self.assertEqual(judge(Silent(), seen()).word, SILENT)
        self.assertEqual(judge(Silent(), seen(job_code=None)).word, SILENT, "the case ended the job")

    def test_silence_without_a_job_is_wrong(self):
        self.assertEqual(self.problems(Silent(), seen(collectives=0)), ["no collective was judged"])
        self.assertEqual(self.problems(Silent(), seen(healthy=None)), ["healthy is None"])
        self.assertEqual(self.problems(Silent(), seen(job_code=1)), ["the job ended with 1"])
        self.assertEqual(self.problems(Silent(), seen(job_code=-9)), ["the job ended with -9"])
        self.assertEqual(self.problems(Silent(), seen(failures=["job0 did not begin"])), ["job0 did not begin"])

    def test_a_case_that_failed_is_wrong_whatever_was_found(self):
        expected = Finds("late_rank", 1)
        self.assertEqual(judge(expected, seen(finding(), job_code=1)).word, RIGHT, "jobs end badly that are broken")
        self.assertEqual(self.problems(expected, seen(finding(), failures=["explain ended with 1: "])), ["explain ended with 1: "])

    def test_job_attempts_are_counted(self):
        expected = Silent(attempts=(2, 2))
        self.assertEqual(self.problems(expected, seen(attempts=[attempt(2), attempt(2)])), [])
        for attempts in ((), [attempt(2), attempt(3)], [attempt(2), attempt(2), attempt(2)], [attempt(2), attempt(2, ended_by=1)]):
            self.assertEqual(len(self.problems(expected, seen(attempts=attempts))), 1, attempts)

    def test_the_culprit_ended_the_first_attempt(self):
        expected, of_first = Finds("dead_rank", 1, attempts=(2, 2)), finding("dead_rank") | {"attempt": 1}
        restarted = [attempt(2, ended_by=1), attempt(2)]
        self.assertEqual(self.problems(expected, seen(of_first, attempts=restarted)), [])
        self.assertEqual(len(self.problems(expected, seen(of_first | {"attempt": 2}, attempts=restarted))), 1)
        for attempts in ([attempt(2), attempt(2)], restarted[::-1], [attempt(2, ended_by=2), attempt(2)]):
            self.assertEqual(len(self.problems(expected, seen(of_first, attempts=attempts))), 1, attempts)

    def test_only_strangers_are_load(self):
        stranger = contention("move or end 'x' (pid 9) on vm, or give each rank cores of its own")
        own = contention("'x' (pid 9) may belong to the job: give each rank cores of its own")
        self.assertEqual(judge(Silent(), seen(stranger)).load, [stranger["summary"]])
        self.assertEqual(self.problems(Silent(), seen(stranger)), [])
        self.assertEqual(len(self.problems(Silent(), seen(own))), 1)
        self.assertEqual(judge(Finds("cpu_contention", 1), seen(own)).word, RIGHT)
