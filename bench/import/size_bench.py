#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `stalltrace import` takes for a gigabyte of each format that it reads: time of a core, and memory.

    bench/import/size_bench.py PROGRAM [--size 1G] [--only NAME]... [--keep DIR] [--folder DIR]

PROGRAM is a `stalltrace` of the preset `bench` or `default`. For each format it makes --size bytes of evidence, imports
them, and prints a line: size, files, wall and CPU time, bytes a second, peak memory of the largest process, the
recording, and whether the budget is kept: 30 s of CPU time for a gigabyte (less in proportion), 256 MiB. Then the rows
of the recording are compared with those that were made, and what import left out has to be nothing: else the exit code
is 1. A budget that is missed only says so.

Formats whose file is small in life, as dumps, are many files; NAME-largest is the largest single one that import takes,
whatever --size is above that, and NAME-refused one that is larger: there a refusal is right. Of what is compressed the
size is that of the plain data. --keep leaves evidence and recordings in DIR, a folder for each format; otherwise they
are in a temporary folder (in --folder), one format after the other: some 2.5 times --size. `--only list` lists names.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import made_captures
import made_documents
import made_texts
import made_traces
from making import BEGIN_S, MIB

SECONDS_OF_A_GIGABYTE = 30
MOST_MIB = 256
GIGABYTE = 10**9
WRITTEN_S = BEGIN_S + 86_400

FORMATS = {
    "nccl-log": made_texts.nccl_log,
    "nccl-log-ranks": made_texts.nccl_logs,
    "torch-log": made_texts.torch_log,
    "flight-recorder-pickle": made_documents.dumps(made_documents.as_pickle),
    "flight-recorder-json": made_documents.dumps(made_documents.as_json),
    "flight-recorder-pickle-largest": made_documents.largest_dump(made_documents.as_pickle),
    "flight-recorder-json-largest": made_documents.largest_dump(made_documents.as_json),
    "nccl-tests": made_texts.tests_text,
    "nccl-tests-json": made_documents.tests_json,
    "nccl-tests-json-largest": made_documents.largest_tests_json,
    "kineto": made_traces.trace("rank3.pt.trace.json"),
    "kineto-gzip": made_traces.trace("rank3.pt.trace.json.gz", compressed=True),
    "kineto-kernels": made_traces.trace("rank3.pt.trace.json", only_device=True),
    "pcap": made_captures.capture(made_captures.Pcap, "net.pcap"),
    "pcapng": made_captures.capture(made_captures.Pcapng, "net.pcapng"),
    "ras-text": made_texts.ras_texts(made_texts.RAS_COMMS, made_texts.RAS_REPORTS),
    "ras-text-largest": made_texts.largest_ras_text,
    "ras-json": made_documents.ras_files(made_documents.REPORTS),
    "ras-json-largest": made_documents.largest_ras_json,
    "inspector": made_texts.inspector(verbose=False),
    "inspector-verbose": made_texts.inspector(verbose=True),
    "kernel-log": made_texts.kernel_logs,
    "nvidia-smi": made_texts.smi_reports,
    "py-spy": made_texts.py_spy_texts,
    "py-spy-json": made_documents.py_spy_json,
    "py-spy-json-largest": made_documents.largest_py_spy_json,
}
REFUSED = {  # the beginning of a file, and the most bytes that are taken
    "flight-recorder-refused": (lambda: made_documents.as_json(made_documents.dump(50, 0))[:-1], 128 * MIB),
    "nccl-tests-json-refused": (lambda: made_documents.as_json(made_documents.test_report(50, 0))[:-1], 64 * MIB),
    "ras-json-refused": (made_documents.ras_report, 128 * MIB),
    "py-spy-json-refused": (lambda: made_documents.spied_template(2, 0).replace(b"@", b"4000")[:-1], 64 * MIB),
}


def size_in(text):
    match = re.fullmatch(r"(\d+)([kMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError("a size is such as 50M or 1G")
    return int(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]]


def make(maker, folder, size):
    """In a process of its own: a child's peak memory is at least that of the process that starts it."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(call, (maker, folder, size))


def call(name, folder, size):
    if name in REFUSED:
        head, most_bytes = REFUSED[name]
        return made_documents.too_large(head, most_bytes, "evidence")(folder, size)
    return FORMATS[name](folder, size)


def run_import(program, evidence, out):
    """(exit code, what it printed, figures)"""
    with tempfile.TemporaryFile() as output:
        begin = time.monotonic()
        child = subprocess.Popen([program, "import", evidence, "--out", out], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    return child.returncode, printed, {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "mib": usage.ru_maxrss * 1024 / MIB}


def what_is_wrong(out, rows):
    """Rows that are missing or too many, and what was lost."""
    wrong = []
    with contextlib.closing(sqlite3.connect(f"file:{out}?mode=ro", uri=True)) as database:
        for query, expected in rows.items():
            (found,) = database.execute(query).fetchone()
            if found != expected:
                wrong.append(f"{query}: {found}, not {expected}")
        wrong += [f"left out: {source} {lost}" for source, lost in
                  database.execute("SELECT source, sum(count) FROM loss GROUP BY source HAVING sum(count) > 0")]
    return wrong


def verdict(figures, size):
    missed = []
    if figures["cpu"] * GIGABYTE > SECONDS_OF_A_GIGABYTE * size:
        missed.append(f"time ({figures['cpu'] * GIGABYTE / size:.0f} s for 1 GB)")
    if figures["mib"] > MOST_MIB:
        missed.append("memory")
    return f"MISSED: {', '.join(missed)}" if missed else "kept"


def bench(name, program, size, folder):
    """True if the recording has what was made."""
    evidence = folder / "evidence"
    evidence.mkdir(parents=True)
    out = folder / "job.db"
    made = make(name, evidence, size)
    files = list(evidence.iterdir())
    for path in files:
        os.utime(path, (WRITTEN_S, WRITTEN_S))  # lines without a year are dated by it
    given = made.plain_bytes or sum(path.stat().st_size for path in files)
    code, printed, figures = run_import(program, files[0] if len(files) == 1 else evidence, out)
    seconds = f"{figures['wall']:7.2f} s ({figures['cpu']:6.2f} s of CPU) {given / 1e6 / figures['cpu']:6.1f} MB/s"
    head = f"{name:31} {given / 1e6:7.1f} MB in {len(files):4} {'file ' if len(files) == 1 else 'files'} {seconds} {figures['mib']:5.0f} MiB"
    if name in REFUSED:
        refused = code != 0 and "larger than" in printed and not out.exists()
        memory = "" if figures["mib"] <= MOST_MIB else "  MISSED: memory"
        print(f"{head}  {'refused' if refused else 'NOT REFUSED'}{memory}: {printed.strip()}", flush=True)
        return refused
    if code != 0:
        print(f"{head}  FAILED ({code}): {printed.strip()}", flush=True)
        return False
    print(f"{head}  recording {out.stat().st_size / 1e6:6.1f} MB  {verdict(figures, given)}", flush=True)
    print("    " + "\n    ".join(line.replace(f"{folder}/", "") for line in printed.strip().split("\n")), flush=True)
    wrong = what_is_wrong(out, made.rows)
    for line in wrong:
        print(f"    WRONG: {line}", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--size", type=size_in, default=GIGABYTE)
    parser.add_argument("--only", action="append", choices=["list", *FORMATS, *REFUSED], metavar="NAME")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.only == ["list"]:
        print("\n".join([*FORMATS, *REFUSED]))
        return
    right = True
    with tempfile.TemporaryDirectory(prefix="stalltrace-import-", dir=arguments.folder) as temporary:
        for name in arguments.only or [*FORMATS, *REFUSED]:
            folder = (arguments.keep or pathlib.Path(temporary)).resolve() / name
            if folder.exists():
                raise SystemExit(f"bench: {folder}: exists already")
            right &= bench(name, arguments.program, arguments.size, folder)
            if not arguments.keep:
                shutil.rmtree(folder)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
