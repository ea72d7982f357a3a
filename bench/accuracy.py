#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often is the finding right? Runs every fault of the lab several times, at a rank drawn anew each time, and scores
cause and place of all findings against truth.json. Needs root.

    bench/accuracy.py build/stalltrace --runs 10 [--only packet_loss ...] [--steps 100] [--json FILE]

A run is right when it has exactly the findings that its fault deserves: one cause, one place, nothing else; and none
when nothing was injected. `unknown` counts as abstained, anything else as wrong.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

RANKS = 4
FAULTS = {
    "none": "none",
    "packet_loss ingress": "packet_loss:rank={rank},percent=2,direction=ingress",
    "packet_loss egress": "packet_loss:rank={rank},percent=2,direction=egress",
    "packet_loss link": "packet_loss:rank={rank},percent=2,direction=link",
    "late_rank": "late_rank:rank={rank},ms=80",
    "cpu_contention": "cpu_contention:rank={rank}",
    "process_stopped": "process_stopped:rank={rank},ms=1000",
}


def place_is_right(name, rank, finding):
    """A loss on one direction of a node is that node's, or the link's that it can be seen on."""
    culprit = (finding["culprit"] or {}).get("rank")
    link = finding["link"] or {}
    if name == "packet_loss ingress":
        return culprit == rank if culprit is not None else link.get("dst_rank") == rank
    if name == "packet_loss egress":
        return culprit == rank if culprit is not None else link.get("src_rank") == rank
    if name == "packet_loss link":
        return (link.get("src_rank"), link.get("dst_rank")) == ((rank - 1) % RANKS, rank)
    return culprit == rank


def verdict(name, rank, findings):
    """'right', 'abstained' or 'wrong'."""
    cause = name.split()[0]
    if cause == "none":
        return "wrong" if findings else "right"
    if not findings or {finding["cause"] for finding in findings} == {"unknown"}:
        return "abstained"
    right = all(finding["cause"] == cause and place_is_right(name, rank, finding) for finding in findings)
    return "right" if right else "wrong"


def one_run(program, name, rank, steps, folder):
    fault = FAULTS[name].format(rank=rank)
    done = subprocess.run([program, "lab", "run", "--ranks", str(RANKS), "--workload", "nccl", "--steps", str(steps),
                           "--fault", fault, "--out", folder], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{fault}: {done.stderr.strip().splitlines()[-1]}")
    findings = json.loads((folder / "findings.json").read_text())["findings"]
    said = [{key: finding[key] for key in ("cause", "culprit", "link", "stall_ms", "confidence")}
            for finding in findings]
    return {"fault": fault, "verdict": verdict(name, rank, findings), "findings": said}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("--runs", type=int, default=10)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", nargs="*", default=list(FAULTS))
    arguments.add_argument("--json", type=pathlib.Path, help="one line a run")
    chosen = arguments.parse_args()
    draw = random.Random(chosen.seed)
    log = chosen.json.open("w") if chosen.json else None
    print(f"{'fault':<22}{'right':>7}{'abstained':>11}{'wrong':>7}")
    for name in [fault for fault in FAULTS if any(fault.startswith(word) for word in chosen.only)]:
        counts = {"right": 0, "abstained": 0, "wrong": 0}
        for _ in range(chosen.runs):
            with tempfile.TemporaryDirectory(prefix="stalltrace-accuracy-") as folder:
                result = one_run(chosen.program, name, draw.randrange(RANKS), chosen.steps, pathlib.Path(folder) / "run")
            counts[result["verdict"]] += 1
            if log:
                print(json.dumps(result), file=log, flush=True)
        print(f"{name:<22}{counts['right']:>7}{counts['abstained']:>11}{counts['wrong']:>7}", flush=True)


if __name__ == "__main__":
    main()
