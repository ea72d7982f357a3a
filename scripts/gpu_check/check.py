# SPDX-License-Identifier: Apache-2.0
"""The check itself: runs ranks under `stalltrace run`, then compares the recording with their notes.

    check.py STALLTRACE OUT [--ranks N] [--max-bytes N] [--lab FOLDER]

With --lab the practice NCCL and CUDA runtime in FOLDER stand in for the real ones: the same check without a GPU.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import compare
import ddp
import libraries
import network

HERE = pathlib.Path(__file__).resolve().parent
PROFILER_SINCE = (2, 23)  # first version with NCCL's profiler interface
SIZES_REPORTED_SINCE = (2, 27)  # first version that reports a communicator's size through it
MARKED_SINCE = (2, 21)  # first version that marks its communicators in memory
LATE_RANK = 1


def location(culprit, to):
    if culprit is None and to is None:
        return "no rank"
    return f"rank {culprit}" if culprit is not None else f"link to rank {to}"


class Table:
    """One line per check; a skipped check gives its reason."""

    def __init__(self):
        self.rows = []

    def add(self, what, passed, text):
        verdict = {True: "ok", False: "FAILED", None: "not run"}[passed]
        self.rows.append((what, verdict, text))
        print(f"{what:<34} {verdict:<8} {text}", flush=True)

    @property
    def failed(self):
        return sum(verdict == "FAILED" for _, verdict, _ in self.rows)


class Check:
    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out).absolute()
        self.table = Table()
        self.environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        if options.lab:
            self.environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"] = options.lab
        self.nodes_missing = network.available()
        self.nccl_version = (0, 0)
        self.traced = False  # in the latest job

    def prepare(self):
        """Reports this machine's equipment; False if there is nothing to run on."""
        version = self.stalltrace("version")
        self.table.add("stalltrace", version.returncode == 0, (version.stdout or version.stderr).strip()[-200:])
        nccl, cudart = libraries.find_nccl(), libraries.find_cudart()
        devices = libraries.device_count(cudart) if cudart else 0
        found = "libnccl.so.2 was not found"
        if nccl:
            try:
                self.nccl_version = libraries.nccl_version(nccl)
                found = f"{'.'.join(map(str, self.nccl_version))} in {nccl}"
            except OSError as error:  # for another machine, or its requirements are missing
                nccl, found = None, f"{nccl} can't be loaded: {error}"
        self.table.add("NCCL", bool(nccl), found)
        self.table.add("CUDA runtime", bool(cudart), cudart or "libcudart.so was not found")
        self.table.add("device", devices > 0 or None, f"{devices} found" if devices else "none that the driver offers")
        self.table.add("virtual nodes", not self.nodes_missing or None,
                       self.nodes_missing or f"namespaces with TUN devices, MTU {network.MTU}")
        return bool(version.returncode == 0 and nccl and devices)

    def stalltrace(self, *words, timeout=600):
        """The exit code and output of a command; 124 and the output so far if it took too long and was ended."""
        command = [self.options.stalltrace, *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment) as process:
            try:
                out, err = process.communicate(timeout=timeout)
                return subprocess.CompletedProcess(command, process.returncode, out, err)
            except subprocess.TimeoutExpired:
                process.terminate()  # it ends the job too
                try:
                    out, err = process.communicate(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
                return subprocess.CompletedProcess(command, 124, out, f"{err}\nended after {timeout} s")

    def job(self, name, program):
        """Runs the ranks into OUT/name; returns their folder, or None."""
        folder = self.out / name
        folder.mkdir(parents=True)
        network = "loopback" if self.nodes_missing else "nodes"
        result = self.stalltrace("run", "--out", folder / "run", "--hang-after", "30s", "--", sys.executable, HERE / "ranks.py",
                                 folder, self.options.ranks, self.options.max_bytes, network, program)
        (folder / "stalltrace.txt").write_text(result.stderr)
        (folder / "ranks.txt").write_text(result.stdout)
        self.table.add(f"{name}: {self.options.ranks} ranks, {network}", result.returncode == 0,
                       "ran to their end" if result.returncode == 0 else (result.stderr + result.stdout)[-300:].replace("\n", " | "))
        # Without a tracer, `run` makes the recording from the profiler files.
        untraced = next((line for line in result.stderr.splitlines() if "the kernel is not traced" in line), None)
        self.traced = untraced is None and (folder / "run" / "trace.db").exists()
        self.table.add(f"{name}: kernel traced", self.traced or None, "yes" if self.traced else untraced or "no recording")
        return folder if result.returncode == 0 else None

    def import_profiler_files(self, name, folder):
        """The recording of the profiler files alone; None if it can't be made."""
        if self.nccl_version < PROFILER_SINCE:
            self.table.add(f"{name}: profiler files", None, f"NCCL has a profiler interface since {'.'.join(map(str, PROFILER_SINCE))}")
            return None
        files = sorted((folder / "run" / "profiler").glob("*.profiler"))
        self.table.add(f"{name}: profiler files", len(files) >= self.options.ranks, f"{len(files)} files")
        out = folder / "imported.db"
        result = self.stalltrace("import", *files, "--out", out)
        self.table.add(f"{name}: import", result.returncode == 0, "done" if result.returncode == 0 else result.stderr.strip()[-300:])
        return out if result.returncode == 0 else None

    def hold_against(self, name, path, owns, *completions):
        recording = compare.Recording(path)
        self.table.add(f"{name}: every call once", *compare.check_counts(recording, owns))
        sizes_reported = self.nccl_version >= SIZES_REPORTED_SINCE or name == "tracer"
        self.table.add(f"{name}: ranks", *compare.check_ranks(recording, owns, sizes_reported))
        self.table.add(f"{name}: communicator hash", *compare.check_hashes(recording, owns))
        self.table.add(f"{name}: sequence numbers", *compare.check_sequences(recording, owns))
        self.table.add(f"{name}: true durations", *compare.check_durations(recording, owns, completions))
        self.table.add(f"{name}: Broadcasts' durations", *compare.check_broadcasts(recording, owns, self.nccl_version))
        lines = list(compare.size_table(recording, owns, completions))
        (path.parent / f"{path.stem}.sizes.txt").write_text("\n".join(lines) + "\n")
        print("\n".join("    " + line for line in lines), flush=True)

    def explain(self, name, recording):
        """The findings' causes and locations; None if unknown."""
        result = self.stalltrace("explain", "--json", recording)
        if result.returncode != 0:
            self.table.add(f"{name}: explain", False, result.stderr.strip()[-300:])
            return None
        return [(finding["cause"], (finding["culprit"] or {}).get("rank"), (finding["link"] or {}).get("dst_rank"))
                for finding in json.loads(result.stdout)["findings"]]

    def find(self, name, what, findings, cause, rank):
        """Whether that cause was reported for that rank, or for a link to it."""
        if findings is not None:
            named = ", ".join(f"{found} ({location(culprit, to)})"
                             for found, culprit, to in findings)
            self.table.add(f"{name}: {what}", any(found == cause and rank in (culprit, to) for found, culprit, to in findings),
                           named or "no finding")

    def run_nccl(self):
        folder = self.job("nccl", "nccl")
        if folder is None:
            return
        owns = [compare.Own(folder / f"own{rank}.jsonl") for rank in range(self.options.ranks)]
        recorded = self.import_profiler_files("nccl", folder)
        if recorded:
            self.hold_against("plugin", recorded, owns, "profiler")
            self.find("plugin", "the late rank is found", self.explain("plugin", recorded), "late_rank", LATE_RANK)
        if not self.traced:
            self.table.add("tracer", None, "the kernel was not traced")
            return
        trace = folder / "run" / "trace.db"
        self.hold_against("tracer", trace, owns, "profiler", "sync")
        findings = self.explain("tracer", trace)
        self.find("tracer", "the late rank is found", findings, "late_rank", LATE_RANK)
        if self.nodes_missing:
            self.table.add("tracer: the loss is found", None, "without virtual nodes there was none")
            return
        self.find("tracer", "the loss is found", findings, "packet_loss", network.LOSSY_NODE)
        if recorded:
            self.table.add("tracer: peers of connections",
                           *compare.check_connections(compare.Recording(trace), network.address_of))

    def run_held(self):
        """Looks at a job that runs already: which communicator each call is on, NCCL's memory alone shows."""
        if self.nccl_version < MARKED_SINCE:
            self.table.add("attached late", None, f"NCCL marks its communicators since {'.'.join(map(str, MARKED_SINCE))}")
            return
        folder = self.out / "held"
        folder.mkdir(parents=True)
        with subprocess.Popen([sys.executable, HERE / "ranks.py", folder, str(self.options.ranks), str(1 << 20), "loopback", "held"],
                              env=self.environment) as job:
            try:
                owns = self.wait_for_calls(folder, job)
                if owns is None:
                    self.table.add("attached late", False, "the ranks made no calls")
                    return
                self.look_at_held(folder, owns)
            finally:
                (folder / "end").touch()
                if job.wait(timeout=120) != 0:
                    self.table.add("attached late: the job", False, f"ended with {job.returncode}")

    def wait_for_calls(self, folder, job):
        """The ranks' notes once each has made some calls; None if they never do."""
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None:
            time.sleep(0.2)
            notes = [folder / f"own{rank}.jsonl" for rank in range(self.options.ranks)]
            if all(note.exists() and note.read_text().count('"call"') > 5 for note in notes):
                return [compare.Own(note) for note in notes]
        return None

    def look_at_held(self, folder, owns):
        out = folder / "late.db"
        traced = self.stalltrace("trace", "--out", out, "--duration", "3s", timeout=60)
        if traced.returncode != 0:
            self.table.add("attached late: tracer", None, traced.stderr.strip()[-200:])
        else:
            self.table.add("attached late: communicators", *compare.check_memory(compare.Recording(out), owns))
        before = [compare.Own(folder / f"own{rank}.jsonl") for rank in range(self.options.ranks)]
        looked = self.stalltrace("autopsy", "--json", "--no-trace", "--no-ras", "--seconds", 1, "--pid",
                                 ",".join(str(own.who["pid"]) for own in owns), timeout=60)
        after = [compare.Own(folder / f"own{rank}.jsonl") for rank in range(self.options.ranks)]
        if looked.returncode not in (0, 1):
            self.table.add("autopsy: communicators", False, looked.stderr.strip()[-200:])
        else:
            self.table.add("autopsy: communicators", *compare.check_autopsy(json.loads(looked.stdout), before, after))

    def run_ddp(self):
        if self.options.lab or not libraries.has_torch():
            self.table.add("PyTorch DDP", None, "no PyTorch with NCCL and a device here")
            return
        folder = self.job("ddp", "ddp")
        recorded = folder and self.import_profiler_files("ddp", folder)
        if recorded:
            per_rank = compare.Recording(recorded).rows(
                "SELECT rank, COUNT(*), SUM(completion = 'profiler') FROM nccl_events WHERE op = 'ALL_REDUCE' GROUP BY rank")
            complete = len(per_rank) == self.options.ranks and all(count == ended >= ddp.STEPS for _, count, ended in per_rank)
            self.table.add("ddp: gradients' AllReduces", complete, f"(rank, calls, ended): {per_rank}")

    def run(self):
        """Returns 0 if all possible checks pass, 1 if one failed or nothing could be run."""
        self.out.mkdir(parents=True)
        print(f"stalltrace GPU check on {platform.node()}, {platform.release()}, Python {platform.python_version()}")
        ready = self.prepare()
        if ready:
            self.run_nccl()
            self.run_held()
            self.run_ddp()
        else:
            self.table.add("the rest", None, "it needs what is missing above: a GPU with NCCL, and stalltrace")
        (self.out / "results.json").write_text(json.dumps(self.table.rows, indent=1) + "\n")
        print(f"{self.table.failed} failed; raw results are in {self.out}")
        return 0 if ready and not self.table.failed else 1


def main():
    parser = argparse.ArgumentParser(prog="gpu_check")
    parser.add_argument("stalltrace")
    parser.add_argument("out")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max-bytes", type=int, default=512 << 20)
    parser.add_argument("--lab")
    options = parser.parse_args()
    if options.ranks < 2 or options.max_bytes < 1024:
        parser.error("it takes two ranks and a kilobyte")
    if pathlib.Path(options.out).exists():
        parser.error(f"{options.out} exists already: give another --out")
    sys.exit(Check(options).run())


if __name__ == "__main__":
    main()
