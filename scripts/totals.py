#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the test programs reported (JUnit XML, one file each) and what ctest reported of them.

    scripts/totals.py RESULTS_FOLDER CTEST_XML...

A line per suite, then a line alone: "N passed, N failed, N skipped". A program that ended badly without a failed
case of its own (a crash, a time limit) counts as one failure; so does one that ran no case, unless GTEST_FILTER chose
the cases. A case that passed at its second attempt (tests/run_suite.py) is named. With CI=true a test that was skipped for want of root is a failure: CI has root.
"""

import os
import pathlib
import sys
from xml.etree import ElementTree

PRIVILEGE = "needs root"  # start of the skip message of a test that needs privilege


def outcome_of(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "skipped" if case.get("status") == "notrun" or case.get("result") == "skipped" else "passed"
    message = skipped.get("message", "") + (skipped.text or "")
    if os.environ.get("CI") == "true" and PRIVILEGE in message:
        print(f"failed: {case.get('classname')}.{case.get('name')}: skipped in CI: {message.strip()}")
        return "failed"
    return "skipped"


def last_line(text):
    """What a failure says at its end, where Python's tracebacks have the assertion."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def count_cases(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in ElementTree.parse(path).iter("testcase"):
        outcome = outcome_of(case)
        counts[outcome] += 1
        name = f"{case.get('classname')}.{case.get('name')}"
        if outcome == "failed":
            failure = case.find("failure")
            print(f"failed: {name}{last_line(failure.get('message', '')) if failure is not None else ''}")
        elif "first_attempt" in case.attrib:
            print(f"passed at the second attempt only: {name}{last_line(case.get('first_attempt'))}")
    return counts


def suites_of(ctest_xml):
    """(name, passed) of each ctest entry."""
    for case in ElementTree.parse(ctest_xml).iter("testcase"):
        yield case.get("name"), case.get("status") == "run"


def main():
    results = pathlib.Path(sys.argv[1])
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for name, ended_well in (suite for path in sys.argv[2:] for suite in suites_of(path)):
        report = results / f"{name}.xml"
        reported = report.exists()
        counts = count_cases(report) if reported else {"passed": 0, "failed": 0, "skipped": 0}
        if not ended_well and counts["failed"] == 0:
            chosen = os.environ.get("GTEST_FILTER") if reported and not any(counts.values()) else None
            print(f"failed: {name} has no case with a name like {chosen}" if chosen else
                  f"failed: {name} ended without naming a failed case (a crash, a time limit)")
            counts["failed"] += 1
        elif ended_well and not reported:
            counts["passed"] += 1  # a program that reports only by its exit status
        elif not any(counts.values()):
            if "GTEST_FILTER" in os.environ:
                continue  # no case of this program matches
            print(f"failed: {name} ran no case")
            counts["failed"] += 1
        print(f"  {name:<24} {counts['passed']:>5} passed {counts['failed']:>3} failed {counts['skipped']:>3} skipped")
        for key, value in counts.items():
            total[key] += value
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
