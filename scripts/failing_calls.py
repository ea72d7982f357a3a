#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays each subcommand with each of its system calls failing (tests/support/failures.py): EMFILE, ENOMEM, EIO, ENOSPC, EAGAIN, EINTR;
and with each of its allocations failing (--kind allocations).

    scripts/failing_calls.py [--subcommand NAME ...] [--kind NAME ...] [--most N]

N calls of a kind for each subcommand, 60 by default; 0 is all of them. Once, only that call fails, and once all later ones too. Prints a line
for each problem, and exits with 1 if there is one. Needs a build in build/; as root `trace` is among the subcommands. Takes some minutes.
"""

import argparse
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "support"))
import failures  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--subcommand", action="append")
    parser.add_argument("--kind", action="append", choices=failures.KINDS)
    parser.add_argument("--most", type=int, default=60)
    options = parser.parse_args()
    played = problems = 0
    with tempfile.TemporaryDirectory(prefix="stalltrace-given-") as name:
        given = failures.prepare(pathlib.Path(name))
        for scenario in failures.scenarios():
            if (options.subcommand and scenario.name not in options.subcommand) or (scenario.root and os.geteuid() != 0):
                continue
            for kind in options.kind or scenario.kinds:
                if kind not in scenario.kinds:
                    continue
                plain = scenario.play(given, kind)
                numbers = failures.chosen(plain.calls, options.most or plain.calls)
                before = problems
                for error in failures.KINDS[kind]:
                    for which in [f"{n}{later}" for n in numbers for later in ("", "+") if not later or (error != "EINTR" and failures.persistent(kind, n))]:
                        outcome = scenario.play(given, kind, which, error)
                        played += 1
                        wrong = failures.problem(scenario, plain, outcome, error)
                        if wrong:
                            problems += 1
                            reason = " | ".join(outcome.err.splitlines()[-2:])
                            print(f"{scenario.name}: {kind} {which} {error}: {wrong} (exit code {outcome.code}, system calls {outcome.failed}): {reason}", flush=True)
                print(f"{scenario.name}: {kind}: {plain.calls} calls, {len(numbers)} of them failed, {problems - before} problems", flush=True)
    print(f"{played} runs, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
