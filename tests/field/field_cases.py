# SPDX-License-Identifier: Apache-2.0
"""Plays the cases of table.py, as PyTorch, MPI and NCCL jobs are on one host, and compares what stalltrace says of each with what
is right. scripts/field_cases.sh runs it; see --help."""

import argparse
import contextlib
import fcntl
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(TESTS / "support"), str(TESTS / "e2e"), str(TESTS / "jobs")]

from judging import RIGHT, SILENT, WRONG, Verdict, judge  # noqa: E402
from playing import play  # noqa: E402
from table import GPU_ROWS, ROWS  # noqa: E402


def played(row, keep):
    """(verdict, what else is worth a record) of one time."""
    if row.test:
        return tested(row)
    began = time.monotonic()
    try:
        seen = play(row, keep)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return (Verdict(WRONG, "it could not be played", [str(error)], [], None),
                {"seconds": round(time.monotonic() - began, 1), "load": round(os.getloadavg()[0], 1), "pressure": 0})
    verdict = judge(row.expects, seen)
    return verdict, {"seconds": round(seen.seconds, 1), "load": round(seen.load, 1), "pressure": round(seen.pressure, 2)}


def tested(row):
    load, began = os.getloadavg()[0], time.monotonic()
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromName(row.test).run(result)
    problems = [text.strip().splitlines()[-1] for _, text in result.failures + result.errors]
    problems += [f"skipped: {reason}" for _, reason in result.skipped]
    return (Verdict(WRONG if problems else RIGHT, row.test, problems, [], None),
            {"seconds": round(time.monotonic() - began, 1), "load": round(load, 1), "pressure": 0})


@contextlib.contextmanager
def locked(path):
    """While another process has this file's lock, waits."""
    if path is None:
        yield
        return
    with open(path, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def lines_of(name, time_number, verdict, more):
    delay = "" if verdict.delay_s is None else f", live after {verdict.delay_s:.1f} s"
    yield f"{name:34} {time_number} {verdict.word:6} {more['seconds']:5.1f} s, load {more['load']:4.1f}{delay}"
    for label, texts in (("", [verdict.sentence]), ("WRONG: ", verdict.problems), ("load: ", verdict.load)):
        for text in texts:
            yield textwrap.fill(label + text, 134, initial_indent="      ", subsequent_indent="        ")


def read_options():
    parser = argparse.ArgumentParser(prog="scripts/field_cases.sh", description=__doc__)
    parser.add_argument("--times", type=int, default=1, help="how often each case is played")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names of cases ('evaluation*'); may be repeated")
    parser.add_argument("--json", metavar="OUT", help="a line for each time that a case was played")
    parser.add_argument("--keep", metavar="DIR", type=pathlib.Path, help="keep what cases that went wrong leave")
    parser.add_argument("--lock", metavar="FILE", help="hold this file's lock while a case is played, as others who share the machine do")
    parser.add_argument("--gpu", action="store_true", help="the cases for a GPU with PyTorch and NCCL instead")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and end")
    return parser.parse_args()


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the jobs are ended
    table = GPU_ROWS if options.gpu else ROWS
    rows = [row for row in table if not options.only or any(fnmatch.fnmatch(row.name, pattern) for pattern in options.only)]
    if options.list or not rows:
        print("\n".join(row.name for row in rows) or f"no case has a name like {options.only}")
        return 0 if rows else 2
    words = {RIGHT: 0, SILENT: 0, WRONG: 0}
    wrong = {}
    for number in range(1, options.times + 1):
        for row in rows:
            keep = options.keep and options.keep / f"{row.name}.{number}"
            with locked(options.lock):
                verdict, more = played(row, keep)
            words[verdict.word] += 1
            if verdict.word == WRONG:
                wrong[row.name] = wrong.get(row.name, 0) + 1
            elif keep:
                shutil.rmtree(keep, ignore_errors=True)
            print("\n".join(lines_of(row.name, number, verdict, more)), flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"case": row.name, "time": number, "verdict": verdict.word, "sentence": verdict.sentence,
                                           "problems": verdict.problems, "load_findings": verdict.load, "delay_s": verdict.delay_s,
                                           **more}) + "\n")
    print(f"{len(rows)} cases, each {options.times} times: {words[RIGHT]} right, {words[SILENT]} silent, {words[WRONG]} wrong"
          + (f" ({', '.join(f'{name} {count}' for name, count in wrong.items())})" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
