#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the results of the guests as one JSON object on standard output. Exit code 1 if a step did not pass.

    scripts/kernel_matrix/judge.py [--kept FILE.json] ARCH RESULTS_FOLDER KERNELS_FOLDER STEADY PARALLEL KERNEL...

STEADY and PARALLEL are the steps that ran on the one and the other machine (settings.sh), with commas. With --kept each kernel's `check` must say of every line what it says in that file, which is
where docs/kernels.md comes from.

    {"schema": 1, "made": "2026-01-31", "arch": "amd64", "kernels": [
      {"kernel": "6.1", "release": "6.1.0-50-cloud-amd64", "package": "6.1.176-1", "boot_seconds": 2.9, "seconds": 61,
       "complaints": [], "steps": [{"step", "machine", "passed", "code", "seconds", "words", "data", "output"}]}]}

`boot_seconds` is from power on to the first command on the steady machine by its clock, null if it did not boot; `seconds`
by the host's from first to last. `complaints` are the kernel log's lines of kernel bugs. A step's `data` is what it found (of `check` and `programs`
what they printed), `output` the end of its output.
"""

import argparse
import datetime
import json
import pathlib
import re
import sys

from judge_steps import judge


def number(path):
    text = path.read_text().strip() if path.exists() else ""
    return float(text) if text else None


def complaints(path):
    """Lines of the kernel's log about a bug, each with the line before, which has more detail. A CPU that was stuck for
    some time is the fault of a busy host, not of the kernel.
    """
    lines = [re.sub(r"^\[ *[\d.]+\] ", "", line) for line in path.read_text(errors="replace").splitlines()] if path.exists() else []
    return [f"{before}: {line}" for before, line in zip(lines, lines[1:])
            if re.search(r"WARNING: |BUG: |Oops|general protection fault", line) and "soft lockup" not in line]


def record_of(name, results, kernels, machines):
    folder = results / name
    return {
        "kernel": name,
        "release": (kernels / name / "release").read_text().strip(),
        "package": (kernels / name / "package").read_text().strip(),
        "boot_seconds": number(folder / "steady" / "boot_seconds"),
        "seconds": number(folder / "seconds"),
        "complaints": [line for machine in machines for line in complaints(folder / machine / "kernel.log")],
        "steps": [{"machine": machine} | judge(step, folder / machine / step, name)
                  for machine, steps in machines.items() for step in steps],
    }


def states(kernel):
    """The state of each line of `check`: ok, fallback, missing or refused."""
    answer = next((step["data"] for step in kernel["steps"] if step["step"] == "check"), None) or {"lines": []}
    return {line["key"]: line["state"] for line in answer["lines"]}


def differences(kernels, kept):
    kept_states = {kernel["kernel"]: states(kernel) for kernel in kept["kernels"]}
    for kernel in kernels:
        now, then = states(kernel), kept_states.get(kernel["kernel"], {})
        for key in sorted(now.keys() | then.keys()):
            if now.get(key) != then.get(key):
                yield f"kernel {kernel['kernel']}: check says of {key}: {now.get(key)}; kept is {then.get(key)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kept", type=pathlib.Path)
    parser.add_argument("arch")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("kernels", type=pathlib.Path)
    parser.add_argument("steady")
    parser.add_argument("parallel")
    parser.add_argument("names", nargs="+")
    words = parser.parse_args()
    machines = {machine: [step for step in steps.split(",") if step]
                for machine, steps in (("steady", words.steady), ("parallel", words.parallel))}
    kernels = [record_of(name, words.results, words.kernels, machines) for name in words.names]
    made = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    json.dump({"schema": 1, "made": made, "arch": words.arch, "kernels": kernels}, sys.stdout, indent=1)
    print()
    problems = [f"kernel {kernel['kernel']}: {step['step']}: {step['words']}"
                for kernel in kernels for step in kernel["steps"] if not step["passed"]]
    problems += [f"kernel {kernel['kernel']}: its log: {line}" for kernel in kernels for line in kernel["complaints"]]
    if words.kept:
        problems += differences(kernels, json.loads(words.kept.read_text()))
    for problem in problems:
        print(f"kernel_matrix: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
