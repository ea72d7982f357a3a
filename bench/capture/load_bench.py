#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time until a trace has begun: choosing, verifying, loading and attaching the BPF programs.

    bench/capture/load_bench.py PROGRAM [--rounds N]

PROGRAM is build/stalltrace; `check --programs` does what a trace does at its start. Prints the median and the range against the budget,
and each program's instructions against theirs. Needs root.
"""

import argparse
import json
import statistics
import subprocess

LOAD_BUDGET_MS = 300
INSTRUCTIONS_BUDGET = 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        answer = subprocess.run([options.program, "check", "--programs", "--json"], capture_output=True, text=True, check=True)
        rounds.append(json.loads(answer.stdout))
    times = [round["load_us"] / 1000 for round in rounds]
    median = statistics.median(times)
    print(f"load and attach on {rounds[0]['kernel']}: median {median:.0f} ms of {len(times)} rounds ({min(times):.0f} to "
          f"{max(times):.0f}); {median / LOAD_BUDGET_MS:.2f} of the budget of {LOAD_BUDGET_MS} ms")
    for program in sorted(rounds[0]["programs"], key=lambda program: -program["instructions"]):
        share = program["instructions"] / INSTRUCTIONS_BUDGET
        print(f"  {program['program']:<34} {program['instructions']:>8} instructions, {share:.2f} of the budget")


if __name__ == "__main__":
    main()
