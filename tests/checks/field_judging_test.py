# SPDX-License-Identifier: Apache-2.0
"""A field case (tests/field) can go wrong in each way that tests/field/judging.py knows, and only there."""

import json
import sys
import types

from stalltrace import ROOT, Case

sys.path.append(str(ROOT / "tests" / "field"))

from alarms import alarms  # noqa: E402
from judging import RIGHT, SILENT, WRONG, Finds, Silent, judge  # noqa: E402

WAIT = "Rank 0 (vm, pid 7) has not entered AllReduce number 9."


def finding(cause="late_rank", rank=1, remedy="look", summary=WAIT):
    return {"cause": cause, "severity": "high", "culprit": {"node": "vm", "rank": rank, "pid": 7}, "summary": summary, "remedy": remedy,
            "evidence": []}


def contention(remedy):
    return finding("cpu_contention", remedy=remedy, summary="Rank 1 (vm, pid 7) could not run because 'x' (pid 9) had its core.")


def attempt(ranks, ended_by=None):
    return {"ranks": ranks, "ended_by": ended_by and {"node": "vm", "rank": ended_by, "pid": 7}}


def row(cause="missing_collective", severity="waiting", rank=0, summary=WAIT, ended_ns=None):
    """Of the table finding."""
    return {"cause": cause, "severity": severity, "culprit_rank": rank, "culprit_pid": 7, "detected_ns": 5, "ended_ns": ended_ns,
            "summary": summary, "remedy": "look"}


def page(*findings):
    """A report as stalltrace prints it."""
    lines = [WAIT, f"{len(findings)} findings in 9 collectives of 2 ranks on 1 node in 5 s."]
    for number, (cause, severity, rank) in enumerate(findings, 1):
        lines += ["", f"[{number}] {cause} ({severity}, confidence 99 %)", "  what      Rank 0 (vm, pid 7) has not entered",
                  "            AllReduce number 9.", f"  where     rank {rank} on vm, pid 7", "  evidence  a line (collective)",
                  "            [1] another (collective)", "  do        see where rank 0 is"]
    return "\n".join([*lines, "", "  note      a note", ""])


HANGS = "no collective has completed for 3.2 s while 2 are open; what is known so far:\n"
STILL_HANGS = "no collective has completed for 61 s while 2 are open; what is known now:\n"
GOES_ON = "collectives complete again: the job stood still for 4.1 s\n"
WAITS = ("missing_collective", "waiting", 0)
STUCK = ("missing_collective", "critical", 0)


def seen(*findings, collectives=100, job_code=0, failures=(), healthy=True, attempts=(), live=()):
    """What came of a case, quietly."""
    report = {"findings": list(findings), "healthy": healthy and not findings, "notes": [], "judged": {"collectives": collectives},
              **({"attempts": list(attempts)} if attempts else {})}
    return types.SimpleNamespace(report=report, text="Healthy: no finding.", live=list(live), printed="", fault_ns=None, job_code=job_code,
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

    def test_a_wait_in_good_health_may_be_reported_and_nothing_else(self):
        expected = Silent(waits_for=0)
        self.assertEqual(self.problems(expected, seen(live=[row(ended_ns=9)])), [])
        self.assertEqual(self.problems(expected, seen()), [])
        for other in (row(rank=1, ended_ns=9), row(severity="critical", ended_ns=9), row(cause="late_rank", ended_ns=9)):
            self.assertEqual(len(self.problems(expected, seen(live=[other]))), 1, other)
        self.assertEqual(len(self.problems(Silent(), seen(live=[row(ended_ns=9)]))), 1)

    def test_a_wait_that_must_be_reported_has_its_line(self):
        expected = Silent(waits_for=0, waits_in=r"evaluate \(phases\.py:30\)")
        located = WAIT + " Rank 0 was in evaluate (phases.py:30)."
        self.assertEqual(self.problems(expected, seen(live=[row(summary=located, ended_ns=9)])), [])
        self.assertEqual(len(self.problems(expected, seen())), 1)
        self.assertEqual(len(self.problems(expected, seen(live=[row(ended_ns=9)]))), 1, "no line")

    def test_what_was_reported_live_is_in_the_report_or_was_taken_back(self):
        stuck = row(severity="critical", rank=1)
        expected = Finds("missing_collective", 1, live=True)
        self.assertEqual(self.problems(expected, seen(finding("missing_collective"), live=[stuck])), [])
        self.assertEqual(len(self.problems(expected, seen(finding("missing_collective")))), 1, "not live")
        other = Finds("late_rank", 1)
        self.assertEqual(len(self.problems(other, seen(finding(), live=[stuck]))), 2, "it does not follow, and is not in the report")
        self.assertEqual(self.problems(other, seen(finding(), live=[row(rank=1, ended_ns=9)])), [])
        self.assertEqual(len(self.problems(other, seen(finding(), live=[row(rank=1)]))), 1)

    def test_when_an_alarm_was_printed_under_run_is_not_known(self):
        printed = alarms(HANGS + page(STUCK))
        observed = seen(finding("missing_collective", 0), live=printed)
        observed.fault_ns = 7
        verdict = judge(Finds("missing_collective", 0, live=True), observed)
        self.assertEqual((verdict.problems, verdict.delay_s), ([], None))

    def test_alarms_of_run_are_read_back(self):
        read, = alarms(HANGS + page(WAITS) + GOES_ON + page(("late_rank", "low", 1)))
        self.assertEqual((read["cause"], read["severity"], read["culprit_rank"], read["culprit_pid"]), (*WAITS, 7))
        self.assertEqual((read["summary"], read["remedy"], read["ended_ns"]), (WAIT, "see where rank 0 is", 0))
        self.assertEqual(alarms("the evidence goes to run\n" + page(STUCK)), [], "the report at the end is no alarm")
        self.assertEqual(len(alarms(HANGS + page(WAITS) + page(STUCK, WAITS))), 1)
        self.assertEqual(alarms(HANGS + "Healthy: no stall worth a finding in 9 collectives.\n" + page(STUCK)), [])
        self.assertEqual([one["severity"] for one in alarms(HANGS + page(STUCK, WAITS))], ["critical", "waiting"])

    def test_alarms_are_read_as_reports_are_printed(self):
        pages = ROOT / "src" / "report" / "testdata"
        found = json.loads((pages / "sick.json").read_text())["findings"]
        read = alarms(HANGS + (pages / "sick.txt").read_text())
        self.assertEqual([(one["cause"], one["severity"], one["culprit_rank"]) for one in read],
                         [(one["cause"], one["severity"], (one["culprit"] or {}).get("rank")) for one in found])
        self.assertEqual([(one["summary"], one["remedy"]) for one in read], [(one["summary"], one["remedy"]) for one in found])
        self.assertEqual(alarms(HANGS + (pages / "sick_colour.txt").read_text()), read)
        self.assertEqual(alarms(HANGS + (pages / "healthy.txt").read_text()), [])
        folded = alarms(HANGS + (pages / "folded.txt").read_text())
        self.assertGreater(len(folded), 8)
        self.assertEqual({one["cause"] for one in folded[8:]}, {"packet_loss"})
        self.assertEqual([one["cause"] for one in alarms(HANGS + (pages / "attempts_at_once.txt").read_text())], ["process_stopped"])

    def test_an_alarm_stands_until_it_is_followed_or_the_job_goes_on(self):
        def ended(text):
            return [one["ended_ns"] is not None for one in alarms(text)]
        self.assertEqual(ended(HANGS + page(WAITS)), [False])
        self.assertEqual(ended(HANGS + page(WAITS) + GOES_ON), [True])
        self.assertEqual(ended(HANGS + page(WAITS) + STILL_HANGS + page(STUCK)), [True, False])
        self.assertEqual(ended(HANGS + page(WAITS) + STILL_HANGS + "Healthy: no stall worth a finding.\n"), [True], "it is withdrawn")
        self.assertEqual(ended(HANGS + page(WAITS) + GOES_ON + HANGS + page(STUCK)), [True, False])

    def test_only_strangers_are_load(self):
        stranger = contention("move or end 'x' (pid 9) on vm, or give each rank cores of its own")
        own = contention("'x' (pid 9) may belong to the job: give each rank cores of its own")
        self.assertEqual(judge(Silent(), seen(stranger)).load, [stranger["summary"]])
        self.assertEqual(self.problems(Silent(), seen(stranger)), [])
        self.assertEqual(len(self.problems(Silent(), seen(own))), 1)
        self.assertEqual(judge(Finds("cpu_contention", 1), seen(own)).word, RIGHT)
