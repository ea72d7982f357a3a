# SPDX-License-Identifier: Apache-2.0
"""What a case must come to, and whether it did."""

import dataclasses
import re

RIGHT, SILENT, WRONG = "right", "silent", "wrong"
LOAD = "cpu_contention"  # if another user's program had a rank's core: true on a machine that others use, and no fault of the job


@dataclasses.dataclass(frozen=True)
class Finds:
    """The first finding is this one, and nothing else is found but what follows from it."""
    cause: str  # pattern
    rank: int | None
    words: str = ""  # pattern, somewhere in the sentence
    evidence: str = ""  # pattern, somewhere in a line of evidence
    also: tuple = ()  # causes of further findings, at the same rank, that are right too
    live: bool = False  # it must be printed while the job runs
    attempts: tuple = ()  # ranks of each job attempt in the report: the culprit ended the first one, and nothing is wrong with the others
    forbidden: str = ""  # pattern of what must never be reported, live or at the end


@dataclasses.dataclass(frozen=True)
class Silent:
    """Nothing is found; what the others wait for may be reported while they wait, as such."""
    waits_for: int | None = None  # the rank that others wait for in good health
    waits_in: str = ""  # pattern: that they wait must be printed while they do, with this in the sentence
    waits_at_end: bool = False  # the recording ends while they do
    note: str = ""  # pattern that a note at the end must match
    attempts: tuple = ()  # ranks of each job attempt in the report
    forbidden: str = r"\bhung\b|\bhangs?\b|critical"


@dataclasses.dataclass
class Verdict:
    word: str
    sentence: str  # the first finding's, or what is there instead
    problems: list
    load: list  # what is due to other users of the machine
    delay_s: float | None  # from the fault to the first live line on it


def judge(expected, seen):
    findings, load = without_load(seen.report["findings"], expected)
    live, more = without_load(seen.live, expected)
    load += more
    judge_kind = judge_silence if isinstance(expected, Silent) else judge_finding
    problems = seen.failures + judge_kind(expected, seen, findings, live)
    if expected.attempts:
        problems += judge_attempts(expected, seen.report.get("attempts", []), findings)
    if expected.forbidden:
        for where, text in (("live", seen.printed), ("at the end", seen.text)):
            if bad := re.search(rf".{{0,80}}({expected.forbidden}).{{0,40}}", text):
                problems.append(f"{where}: '{bad[0]}'")
    problems += disagreements(findings, live)
    good = SILENT if isinstance(expected, Silent) else RIGHT
    return Verdict(WRONG if problems else good, sentence_of(findings, seen), problems, sorted(set(load)), delay_of(expected, seen, live))


def is_load(finding):
    """The job's own processes, too, can keep its ranks from their cores: that is its fault, or a false finding."""
    return finding["cause"] == LOAD and "may belong to the job" not in finding["remedy"]


def without_load(findings, expected):
    """The findings that are the job's, and the sentences of the others."""
    wanted = isinstance(expected, Finds) and re.fullmatch(expected.cause, LOAD)
    others = [finding for finding in findings if is_load(finding) and not wanted]
    return [finding for finding in findings if finding not in others], [finding["summary"] for finding in others]


def rank_of(finding):
    return finding["culprit_rank"] if "culprit_rank" in finding else (finding["culprit"] or {}).get("rank")


def name_of(finding):
    return f"{finding['cause']} of rank {rank_of(finding)} ({finding['severity']}): {finding['summary']}"


def is_wait(finding, rank):
    return finding["cause"] == "missing_collective" and finding["severity"] == "waiting" and rank_of(finding) == rank


def judge_silence(expected, seen, findings, live):
    waits = expected.waits_for
    problems = [f"found {name_of(finding)}" for finding in findings
                if not (expected.waits_at_end and is_wait(finding, waits))]
    problems += [f"live {name_of(row)}" for row in live if waits is None or not is_wait(row, waits)]
    if expected.waits_in and not any(is_wait(row, waits) and re.search(expected.waits_in, row["summary"]) for row in live):
        problems.append(f"the wait in '{expected.waits_in}' was not reported live")
    if seen.report["judged"]["collectives"] == 0:
        problems.append("no collective was judged")
    if not seen.report["findings"] and seen.report["healthy"] is not True:
        problems.append(f"healthy is {seen.report['healthy']}")
    if seen.job_code:
        problems.append(f"the job ended with {seen.job_code}")
    if expected.note and not any(re.search(expected.note, note) for note in seen.report["notes"]):
        problems.append(f"no note like '{expected.note}'")
    return problems


def judge_finding(expected, seen, findings, live):
    def is_expected(finding):
        return re.fullmatch(expected.cause, finding["cause"]) and (expected.rank is None or rank_of(finding) == expected.rank)

    def follows(finding):
        return is_expected(finding) or (finding["cause"] in expected.also and rank_of(finding) == expected.rank) \
            or is_wait(finding, expected.rank)
    problems = []
    if not findings or not is_expected(findings[0]):
        problems.append("found nothing" if not findings else f"found {name_of(findings[0])}")
    else:
        first = findings[0]
        evidence = [line["text"] for line in first["evidence"]]
        for pattern, texts in ((expected.words, [first["summary"]]), (expected.evidence, evidence)):
            if pattern and not any(re.search(pattern, text) for text in texts):
                problems.append(f"no '{pattern}' in {texts}")
    problems += [f"also found {name_of(finding)}" for finding in findings[1:] if not follows(finding)]
    problems += [f"live {name_of(row)}" for row in live if not follows(row)]
    if expected.live and not any(is_expected(row) for row in live):
        problems.append("not reported live")
    return problems


def judge_attempts(expected, attempts, findings):
    culprit = expected.rank if isinstance(expected, Finds) else None
    wanted = [(ranks, None if number else culprit) for number, ranks in enumerate(expected.attempts)]
    found = [(attempt["ranks"], (attempt["ended_by"] or {}).get("rank")) for attempt in attempts]
    problems = [] if found == wanted else [f"job attempts (ranks, ended by rank) {found}, not {wanted}"]
    return problems + [f"of attempt {finding.get('attempt')}: {name_of(finding)}" for finding in findings if finding.get("attempt") != 1]


def disagreements(findings, live):
    """What was reported live and never taken back must be in the report."""
    found = {(finding["cause"], rank_of(finding)) for finding in findings}
    return [f"live and never taken back: {name_of(row)}" for row in live
            if row["ended_ns"] is None and (row["cause"], rank_of(row)) not in found]


def sentence_of(findings, seen):
    if findings:
        return findings[0]["summary"]
    return seen.text.strip().splitlines()[0] if seen.text.strip() else "no report"


def delay_of(expected, seen, live):
    if isinstance(expected, Silent) or seen.fault_ns is None:
        return None
    rows = [row["detected_ns"] for row in live if row["detected_ns"] is not None and re.fullmatch(expected.cause, row["cause"])]
    return (min(rows) - seen.fault_ns) / 1e9 if rows else None
