#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the unittest cases of a folder (*_test.py) and reports them as GoogleTest programs do: a line per case,
and JUnit XML in the folder that GTEST_OUTPUT names ("xml:FOLDER/").

    tests/run_suite.py FOLDER [PART_OF_A_NAME]

Without a second word GTEST_FILTER chooses the cases, as for GoogleTest programs: patterns such as "*late_rank*", separated
by colons. A case that needs what this host lacks skips with the reason; scripts/totals.py decides whether that is allowed.

Cases of e2e and jobs run real jobs, which other users of a shared machine can stall as well. Up to MOST_REPEATED of them that
failed run a second time, after all others. scripts/totals.py names each that needed it, with the first failure; if more failed, none is
repeated.
"""

import os
import pathlib
import sys
import time
import traceback
import unittest
from xml.etree import ElementTree

TESTS = pathlib.Path(__file__).resolve().parent
REPEATED_SUITES = {"e2e", "jobs"}
MOST_REPEATED = 3


class Reporter(unittest.TestResult):
    """Prints each case as it ends and keeps it for the XML."""

    def __init__(self):
        super().__init__()
        self.cases = []
        self.started = time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def note(self, test, outcome, text=""):
        seconds = time.monotonic() - self.started
        self.cases.append((test, outcome, text, seconds))
        print(f"[{outcome:>7}] {test.id()} ({seconds:.1f} s){': ' + text if text else ''}", flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "FAILED", "".join(traceback.format_exception(*error)))

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "FAILED", "".join(traceback.format_exception(*error)))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(subtest, "FAILED", "".join(traceback.format_exception(*error)))


def repeat_failed(loader, reporter):
    """Runs the failed cases once more if they are few; returns the first failure of each that passed now, by name."""
    failed = [case for case in reporter.cases if case[1] == "FAILED"]
    if len(failed) > MOST_REPEATED:
        return {}
    second = {}
    for case in failed:
        test, _, text, _ = case
        name = getattr(test, "test_case", test).id()  # of a part of a case (subTest), the whole case
        print(f"second attempt of {name}", flush=True)
        again = Reporter()
        loader.loadTestsFromName(name).run(again)
        if [outcome for _, outcome, _, _ in again.cases] == ["passed"]:
            reporter.cases[reporter.cases.index(case)] = again.cases[0]
            second[name] = text
    return second


def write_xml(folder, suite, cases, second):
    root = ElementTree.Element("testsuites", name=suite)
    element = ElementTree.SubElement(root, "testsuite", name=suite)
    for test, outcome, text, seconds in cases:
        classname, _, name = test.id().rpartition(".")
        case = ElementTree.SubElement(element, "testcase", name=name, classname=classname, time=f"{seconds:.3f}")
        if test.id() in second:
            case.set("first_attempt", second[test.id()])
        if outcome == "FAILED":
            ElementTree.SubElement(case, "failure", message=text)
        elif outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=text)
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(pathlib.Path(folder) / f"{suite}.xml", encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(TESTS / "support"))
    loader = unittest.TestLoader()
    if len(sys.argv) > 2:
        loader.testNamePatterns = [f"*{sys.argv[2]}*"]
    elif os.environ.get("GTEST_FILTER"):
        loader.testNamePatterns = os.environ["GTEST_FILTER"].split(":")
    suite = loader.discover(str(folder), pattern="*_test.py", top_level_dir=str(folder))
    reporter = Reporter()
    suite.run(reporter)
    second = repeat_failed(loader, reporter) if folder.name in REPEATED_SUITES else {}
    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:"):
        write_xml(output[len("xml:"):], f"suite_{folder.name}", reporter.cases, second)
    failed = sum(outcome == "FAILED" for _, outcome, _, _ in reporter.cases)
    if not reporter.cases:
        print(f"{folder.name}: no case has a name like {loader.testNamePatterns}")
    print(f"{folder.name}: {len(reporter.cases)} cases, {failed} failed, {len(reporter.skipped)} skipped")
    return 1 if failed or not reporter.cases else 0


if __name__ == "__main__":
    sys.exit(main())
