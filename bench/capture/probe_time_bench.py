#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time that the BPF programs of two builds take themselves, by the kernel's account (kernel.bpf_stats_enabled).

    bench/capture/probe_time_bench.py LOOP_BUILD BEFORE AFTER [--rounds N] [--seconds S]

BEFORE and AFTER are folders with a `stalltrace`; LOOP_BUILD is one of the preset `bench`. Each round takes both, in an
order that turns, beside a loop of calls on one thread. A machine that is busy otherwise disturbs the mean time of a run
less than the time of the call. Needs root, Linux 6.6, bpftool.
"""

import argparse
import functools
import json
import pathlib
import re
import subprocess
import tempfile

import conditions
from paired import Ratio, rounds_of, spread

SWITCH = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
PROGRAMS = ["call_entry", "call_return", "sched_switch"]


def times(pid):
    """{program: (runs, nanoseconds)} of the process that has loaded them, of those that have run."""
    infos = [info.read_text() for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir()]
    own = {int(number) for info in infos for number in re.findall(r"^prog_id:\s+(\d+)", info, re.MULTILINE)}
    shown = json.loads(subprocess.run(["bpftool", "-j", "prog", "show"], check=True, capture_output=True).stdout)
    return {program["name"]: (program["run_cnt"], program["run_time_ns"]) for program in shown
            if program["id"] in own and program.get("name") in PROGRAMS and program.get("run_cnt")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loop_build", type=pathlib.Path)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    arguments = parser.parse_args()
    loop = (arguments.loop_build / "bench/capture").resolve()
    kept = SWITCH.read_text()
    SWITCH.write_text("1")
    try:
        with tempfile.TemporaryDirectory(prefix="stalltrace-bench-") as path:
            watch = {name: functools.partial(conditions.stalltrace, build.resolve(), [loop / "libnccl.so.2"], pathlib.Path(path))
                     for name, build in (("before", arguments.before), ("after", arguments.after))}

            def measure(condition):
                with watch[condition]() as watcher:
                    subprocess.run([loop / "bench_call_loop", str(arguments.seconds)], check=True, capture_output=True, timeout=60)
                    run = times(watcher.pid)
                lost = watcher.lost()
                watcher.recording.unlink()
                figures = {name: run[name][1] / run[name][0] for name in PROGRAMS}
                return {**figures, "call": figures["call_entry"] + figures["call_return"], "lost": lost}

            results = rounds_of(watch, arguments.rounds, measure)
    finally:
        SWITCH.write_text(kept)
    print(f"mean time of a program's run, {arguments.rounds} rounds of {arguments.seconds:g} s of calls at full rate")
    for name in ["call", *PROGRAMS]:
        before, after = ([run[name] for run in results[condition]] for condition in ("before", "after"))
        title = "entry and return of a call" if name == "call" else name
        print(f"  {title}: after / before {Ratio(after, before)}; before {spread(before, 'ns')}, after {spread(after, 'ns')}")
    for condition, runs in results.items():
        print(f"  records lost {condition}: {sum(run['lost'] for run in runs)}")


if __name__ == "__main__":
    main()
