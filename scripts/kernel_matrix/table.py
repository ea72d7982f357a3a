#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of a kernel matrix, as Markdown on standard output, from its JSON (judge.py says what that holds).

    scripts/kernel_matrix/table.py FILE.json...

Several files, of several architectures, give one pair of tables each."""

import json
import sys
import textwrap

STEP_TITLES = {
    "check": "`stalltrace check`",
    "programs": "BPF programs load",
    "calls": "a process's calls are recorded",
    "root_tests": "the BPF tests pass",
    "lab": "a lost packet's link is named",
    "healthy": "nothing is found in a healthy run",
}


def cell(text):
    return " ".join(str(text).replace("|", "\\|").split())


def print_prose(text):
    """A paragraph of the width of the pages."""
    print(textwrap.fill(text, width=140, break_long_words=False, break_on_hyphens=False) + "\n")


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| " + " | ".join("---" for _ in head) + " |")
    for row in rows:
        print("| " + " | ".join(cell(text) for text in row) + " |")
    print()


def step_of(kernel, name):
    return next((step for step in kernel["steps"] if step["step"] == name), None)


def lines_of(kernel):
    """The lines of `check` by key."""
    step = step_of(kernel, "check")
    return {line["key"]: line for line in (step["data"] or {}).get("lines", [])} if step else {}


def programs_of(kernel):
    step = step_of(kernel, "programs")
    return {program["program"]: program for program in (step["data"] or {}).get("programs", [])} if step else {}


def in_order(kernels, items_of):
    """The keys of all kernels, in order of first occurrence."""
    keys = []
    for kernel in kernels:
        keys += [key for key in items_of(kernel) if key not in keys]
    return keys


def state_cell(line):
    if line is None:
        return "not stated"
    if line["state"] == "ok":
        return "yes"
    return f"fallback: {line['detail']}" if line["state"] == "fallback" else f"no: {line['detail']}"


def step_cell(step):
    if step is None:
        return "not run"
    return f"{'yes' if step['passed'] else 'no'}: {step['words']}" if step["words"] else ("yes" if step["passed"] else "no")


def program_cell(program):
    if program is None:
        return "none"
    if program["state"] == "ok":
        return f"{program['instructions']:,} in {program['verified_us'] / 1000:.1f} ms"
    return f"{program['state']}: {program['detail']}"


# Lines of `check` about the machine it runs on, not about the kernel.
OF_THE_MACHINE = ("kernel", "processes")


def features(kernels):
    titles = {key: line["what"] for kernel in reversed(kernels) for key, line in lines_of(kernel).items()}
    keys = [key for key in in_order(kernels, lines_of) if key not in OF_THE_MACHINE]
    rows = [[titles[key]] + [state_cell(lines_of(kernel).get(key)) for kernel in kernels] for key in keys]
    names = in_order(kernels, lambda kernel: [step["step"] for step in kernel["steps"]])
    rows += [[STEP_TITLES[name]] + [step_cell(step_of(kernel, name)) for kernel in kernels] for name in names]
    rows.append(["no bug in the kernel's log"] + [f"no: {kernel['complaints'][0]}" if kernel["complaints"] else "yes"
                                                 for kernel in kernels])
    return rows


def programs(kernels):
    rows = [[f"`{name}`"] + [program_cell(programs_of(kernel).get(name)) for kernel in kernels]
            for name in in_order(kernels, programs_of)]
    totals = ["loading all"]
    for kernel in kernels:
        step = step_of(kernel, "programs")
        data = step["data"] if step else None
        totals.append(f"{data['load_us'] / 1e6:.2f} s" if data else "unknown")
    return rows + [totals]


def print_matrix(matrix):
    kernels = matrix["kernels"]
    print_prose(f"{matrix['arch']}, {matrix['made']}, Debian's cloud kernels in QEMU's software emulation. The BPF tests ran on two CPUs, "
                "all else on one, whose clock counts a nanosecond for each instruction: times do not depend on the host.")
    print_table(["", *(kernel["kernel"] for kernel in kernels)], [
        ["release"] + [kernel["release"] for kernel in kernels],
        ["package"] + [kernel["package"] for kernel in kernels],
        ["boot"] + [f"{kernel['boot_seconds']:.0f} s" if kernel["boot_seconds"] else "did not boot" for kernel in kernels],
        ["the host's time for all"] + [f"{kernel['seconds']:.0f} s" for kernel in kernels],
    ])
    head = [kernel["package"].split("-")[0] for kernel in kernels]  # the release lacks the patch version
    print_table(["feature", *head], features(kernels))
    if any(programs_of(kernel) for kernel in kernels):
        print("Instructions that the verifier looked at, and its time at a thousand million instructions a second:\n")
        print_table(["program", *head], programs(kernels))
    runs = {json.dumps(step["data"]["run"]) for kernel in kernels for step in kernel["steps"]
            if step["step"] in ("lab", "healthy") and step["data"]}
    for run in map(json.loads, sorted(runs)):
        print_prose(f"The lab's runs: 4 ranks, {run['steps']} steps, workload `{run['workload_args']}`: smaller and fewer messages "
                    "than the demo's, since emulation takes long for them, and more loss for that.")


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            print_matrix(json.load(file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
