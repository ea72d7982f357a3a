# SPDX-License-Identifier: Apache-2.0
"""What `stalltrace run` printed about hangs while its job ran, read back from its standard error."""

import re

BEGIN = re.compile(r"no collective has completed for .* while \d+ are open; .*:$")
GOES_ON = re.compile(r"collectives complete again: ")
COUNT = re.compile(r"\d+ findings? (in|on) ")  # the second line of a report with findings
HEAD = re.compile(r"\[(\d+)\] (\w+) \((\w+), confidence \d+ %\)$")
SHORT = re.compile(r"\[(\d+)\] (\w+) \((\w+)\): (.*)$")  # of the ninth finding and later ones
FIELD = re.compile(r"  (\S.{9}|          )(.*)$")
LABELS = {"what": "summary", "where": "where", "do": "remedy"}


def reports_of(lines):
    """(the lines of one report, whether the hang ended after it, whether another report on the hang followed) of each."""
    reports = []
    inside = False
    for line in lines:
        if BEGIN.match(line):
            if reports and not reports[-1][1]:
                reports[-1][2] = True
            reports.append([[], False, False])
            inside = True
        elif GOES_ON.match(line):
            if reports:
                reports[-1][1] = True
            inside = False
        elif inside:
            reports[-1][0].append(line)
    return reports


def findings_of(lines):
    """Those of the report that begins in the first line; what follows, such as the report at the end, is left out."""
    if len(lines) < 2 or not COUNT.match(lines[1]):
        return []
    findings, label = [], None
    for line in lines[2:]:
        head = HEAD.match(line) or SHORT.match(line)
        if head:
            if int(head[1]) != len(findings) + 1:
                break  # another report
            short = SHORT.match(line)
            findings.append({"cause": head[2], "severity": head[3], "summary": "", "where": short[4] if short else "", "remedy": ""})
            label = None
        elif COUNT.match(line):
            break
        elif findings and (field := FIELD.match(line)):
            label = field[1].strip() or label
            if label in LABELS:
                text = findings[-1][LABELS[label]]
                findings[-1][LABELS[label]] = f"{text} {field[2]}".strip()
    return findings


def number_in(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def alarms(text):
    """The findings, as rows of the table `finding` are; a finding has ended where its hang had, or a later report on it followed. When
    each was printed is not known."""
    rows = []
    for lines, hang_ended, followed in reports_of(re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()):
        for finding in findings_of(lines):
            where = finding.pop("where")
            rows.append({**finding, "culprit_rank": number_in(r"^rank (\d+)", where), "culprit_pid": number_in(r"\bpid (\d+)", where),
                         "detected_ns": None, "ended_ns": 0 if hang_ended or followed else None})
    return rows
