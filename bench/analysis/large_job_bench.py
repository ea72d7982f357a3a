#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`explain` of simulated jobs of thousands of ranks, with all evidence tables.

    bench/analysis/large_job_bench.py PROGRAM [--rounds N] [--nodes N] [--steps N] [--pair-steps N] [--channels N]
                                              [--folder DIR]

PROGRAM is a `stalltrace` of the preset `bench` or `default`. Makes recordings, explains them on two CPUs and prints each
run: wall time, user and system time, peak memory of the largest process.

1. The whole job: --nodes nodes (1024) of 8 ranks, --steps steps (120: 164 s), a late rank and a lossy node. 10 s, 1 GiB.
2. Doubling: --nodes nodes with --pair-steps steps, and half as many nodes with twice as many steps, in turns: as many
   rows of half the ranks. 2.2 times the CPU time. The rows of both are counted.
3. 1,100 files with a limit of 1,024 open files: all nodes are read.

The whole job of 1,024 nodes takes minutes to make and gigabytes in --folder (default: a temporary folder), which has
them one after the other. A run that misses a budget says so; the exit code is 1 where a report is wrong.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "capture"))

from paired import Ratio, rounds_of, spread  # noqa: E402

RANKS = 8
MANY_FILES = 1100
OPEN_FILES = 1024
MIB = 1 << 20


class Failure(SystemExit):
    """What makes the figures worthless."""


def simulate(program, folder, nodes, ranks, steps, channels, faults):
    """Returns the recordings, in the order of the nodes."""
    words = [program, "lab", "simulate", "--shape", "accumulation", "--nodes", nodes, "--ranks-per-node", ranks, "--steps",
             steps, "--plugin", "--evidence", "all", "--channels", channels, "--out", folder]
    for fault in faults:
        words += ["--fault", fault]
    begin = time.monotonic()
    subprocess.run(list(map(str, words)), check=True, stderr=subprocess.DEVNULL)
    files = [folder / f"node{node}.db" for node in range(nodes)]
    size = sum(path.stat().st_size for path in files)
    print(f"made {nodes * ranks} ranks on {nodes} nodes, {steps} steps: {size / 1e9:.2f} GB in {time.monotonic() - begin:.0f} s",
          flush=True)
    return files


def faults_of(nodes, steps):
    """A late rank and a lossy node, far from each other; and who is to be named."""
    late = nodes * RANKS // 2 - 91 if nodes > 32 else nodes * RANKS // 2 - 3
    lossy = nodes * 2 // 3
    losses = 0.5 if steps > 60 else 1  # in a step: enough for a finding
    texts = [f"late_rank:rank={late},ms=300,from={steps // 3},every=1", f"packet_loss:node={lossy},per_step={losses}"]
    return texts, {("late_rank", late), ("packet_loss", None)}


def rows_of(files):
    """{table: rows} of all files; tables without rows are left out."""
    counts = {}
    for path in files:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            for (table,) in tables.fetchall():
                (rows,) = database.execute(f'SELECT count(*) FROM "{table}"').fetchone()
                counts[table] = counts.get(table, 0) + rows
    return {table: rows for table, rows in sorted(counts.items(), key=lambda item: -item[1]) if rows}


def print_rows(title, counts):
    listed = ", ".join(f"{table} {rows:,}" for table, rows in counts.items() if rows >= 1000)
    print(f"  {title}: {sum(counts.values()) / 1e6:.1f} million rows ({listed})", flush=True)


def explain(program, files, cpus, limit=None):
    """Returns the report and the figures of one run."""

    def prepare():
        os.sched_setaffinity(0, cpus)
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    with tempfile.TemporaryFile() as output:
        begin = time.monotonic()
        child = subprocess.Popen([program, "explain", "--json", *files], stdout=output, preexec_fn=prepare)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise Failure(f"bench: explain ended with {child.returncode}")
        output.seek(0)
        report = json.load(output)
    figures = {"wall": wall, "user": usage.ru_utime, "system": usage.ru_stime, "mib": usage.ru_maxrss * 1024 / MIB}
    figures["cpu"] = figures["user"] + figures["system"]
    return report, figures


def check(report, nodes, expected):
    if report["recording"]["nodes"] != nodes:
        raise Failure(f"bench: explain read {report['recording']['nodes']} of {nodes} nodes")
    found = {(one["cause"], one["culprit"]["rank"] if one["cause"] == "late_rank" else None) for one in report["findings"]}
    if not expected <= found:
        raise Failure(f"bench: expected {sorted(map(str, expected))}, found {sorted(map(str, found))}")


def measured(program, files, cpus, expected):
    report, figures = explain(program, files, cpus)
    check(report, len(files), expected)
    print(f"  {len(files)} files: {figures['wall']:.2f} s, {figures['user']:.2f}+{figures['system']:.2f} s, {figures['mib']:.0f} MiB",
          flush=True)
    return figures


def bench_whole(arguments, folder, cpus):
    texts, expected = faults_of(arguments.nodes, arguments.steps)
    files = simulate(arguments.program, folder / "whole", arguments.nodes, RANKS, arguments.steps, arguments.channels, texts)
    print_rows("rows", rows_of(files))  # and into the page cache, where they have room
    runs = [measured(arguments.program, files, cpus, expected) for _ in range(arguments.rounds)]
    print(f"  wall time {spread([run['wall'] for run in runs], 's')}, budget 10 s; CPU time {spread([run['cpu'] for run in runs], 's')}; "
          f"peak memory {max(run['mib'] for run in runs):.0f} MiB, budget 1024 MiB")
    if max(run["wall"] for run in runs) > 10 or max(run["mib"] for run in runs) > 1024:
        print("  a budget is missed")
    shutil.rmtree(folder / "whole")


def bench_doubling(arguments, folder, cpus):
    jobs = {}
    for name, nodes, steps in (("all ranks", arguments.nodes, arguments.pair_steps),
                               ("half the ranks", arguments.nodes // 2, 2 * arguments.pair_steps)):
        texts, expected = faults_of(nodes, steps)
        files = simulate(arguments.program, folder / name.replace(" ", "_"), nodes, RANKS, steps, arguments.channels, texts)
        jobs[name] = (files, expected)
        print_rows(name, rows_of(files))
    results = rounds_of(jobs, arguments.rounds, lambda name: measured(arguments.program, jobs[name][0], cpus, jobs[name][1]))
    for figure, title in (("cpu", "CPU time"), ("wall", "wall time"), ("mib", "peak memory")):
        whole, half = ([run[figure] for run in results[name]] for name in ("all ranks", "half the ranks"))
        print(f"  {title}: twice the ranks / half: {Ratio(whole, half)}" + (", budget 2.2" if figure == "cpu" else ""))
    for files, _ in jobs.values():
        shutil.rmtree(files[0].parent)


def bench_many_files(arguments, folder, cpus):
    files = simulate(arguments.program, folder / "many", MANY_FILES, 1, 12, arguments.channels, ["late_rank:rank=700,ms=300,from=4"])
    report, figures = explain(arguments.program, files, cpus, OPEN_FILES)
    check(report, MANY_FILES, {("late_rank", 700)})
    print(f"  {MANY_FILES} files, at most {OPEN_FILES} open: all read, the finding is right; {figures['wall']:.2f} s, "
          f"{figures['mib']:.0f} MiB")
    shutil.rmtree(folder / "many")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--pair-steps", type=int, default=24)
    parser.add_argument("--channels", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    cpus = set(sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory(prefix="stalltrace-large-", dir=arguments.folder) as path:
        for title, bench in (("The whole job", bench_whole), ("Doubling the ranks at constant rows", bench_doubling),
                             ("More files than may be open", bench_many_files)):
            print(f"== {title}, load {os.getloadavg()[0]:.1f}", flush=True)
            bench(arguments, pathlib.Path(path), cpus)


if __name__ == "__main__":
    main()
