# SPDX-License-Identifier: Apache-2.0
"""The check itself: runs ranks under `stalltrace run`, then holds what was recorded against what they noted.

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

import compare
import libraries
import network

HERE = pathlib.Path(__file__).resolve().parent


class Table:
    """One line for each check; a check that could not be run says why."""

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

    def prepare(self):
        """Says what this machine has; False if there is nothing to run on."""
        version = self.stalltrace("version")
        self.table.add("stalltrace", version.returncode == 0, (version.stdout or version.stderr).strip()[-200:])
        nccl, cudart = libraries.find_nccl(), libraries.find_cudart()
        devices = libraries.device_count(cudart) if cudart else 0
        self.table.add("NCCL", bool(nccl), f"{libraries.nccl_version(nccl)} in {nccl}" if nccl else "libnccl.so.2 was not found")
        self.table.add("CUDA runtime", bool(cudart), cudart or "libcudart.so was not found")
        self.table.add("device", devices > 0 or None, f"{devices} found" if devices else "none that the driver offers")
        self.table.add("virtual nodes", not self.nodes_missing or None,
                       self.nodes_missing or f"namespaces with TUN devices, MTU {network.MTU}")
        return bool(version.returncode == 0 and nccl and devices)

    def stalltrace(self, *words, timeout=600):
        return subprocess.run([self.options.stalltrace, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              check=False, env=self.environment)

    def job(self, name, program):
        """Runs the ranks into OUT/name; their folder, or None."""
        folder = self.out / name
        folder.mkdir(parents=True)
        place = "loopback" if self.nodes_missing else "nodes"
        result = self.stalltrace("run", "--out", folder / "run", "--hang-after", "30s", "--", sys.executable, HERE / "ranks.py",
                                 folder, self.options.ranks, self.options.max_bytes, place, program)
        (folder / "stalltrace.txt").write_text(result.stderr)
        (folder / "ranks.txt").write_text(result.stdout)
        self.table.add(f"{name}: {self.options.ranks} ranks, {place}", result.returncode == 0,
                       "ran to their end" if result.returncode == 0 else (result.stderr + result.stdout)[-300:].replace("\n", " | "))
        traced = (folder / "run" / "trace.db").exists()
        reason = next((line for line in result.stderr.splitlines() if "the kernel is not traced" in line), "")
        self.table.add(f"{name}: kernel traced", traced or None, "yes" if traced else reason or "no recording")
        return folder if result.returncode == 0 else None

    def import_rings(self, name, folder):
        """The recording of the black boxes alone; None if it can't be made."""
        rings = sorted((folder / "run" / "rings").glob("*.ring"))
        self.table.add(f"{name}: black boxes", len(rings) >= self.options.ranks, f"{len(rings)} files")
        out = folder / "rings.db"
        result = self.stalltrace("import", *rings, "--out", out)
        self.table.add(f"{name}: import", result.returncode == 0, "done" if result.returncode == 0 else result.stderr.strip()[-300:])
        return out if result.returncode == 0 else None

    def hold_against(self, name, path, owns, *completions):
        recording = compare.Recording(path)
        for what, check in (("every call once", compare.check_counts), ("ranks", compare.check_ranks),
                            ("communicator hash", compare.check_hashes), ("sequence numbers", compare.check_sequences)):
            self.table.add(f"{name}: {what}", *check(recording, owns))
        self.table.add(f"{name}: true durations", *compare.check_durations(recording, owns, completions))
        lines = list(compare.size_table(recording, owns, completions))
        (path.parent / f"{path.stem}.sizes.txt").write_text("\n".join(lines) + "\n")
        print("\n".join("    " + line for line in lines), flush=True)

    def explain(self, name, *recordings):
        result = self.stalltrace("explain", "--json", *recordings)
        if result.returncode != 0:
            self.table.add(f"{name}: explain", False, result.stderr.strip()[-300:])
            return
        causes = [f"{finding['cause']} ({(finding['culprit'] or {}).get('rank', 'a link')})"
                  for finding in json.loads(result.stdout)["findings"]]
        late = any(cause.startswith("late_rank (1") for cause in causes)
        self.table.add(f"{name}: the late rank is found", late, ", ".join(causes) or "no finding")

    def run_nccl(self):
        folder = self.job("nccl", "nccl")
        if folder is None:
            return
        owns = [compare.Own(folder / f"own{rank}.jsonl") for rank in range(self.options.ranks)]
        box = self.import_rings("nccl", folder)
        if box:
            self.hold_against("plugin", box, owns, "profiler")
            self.explain("plugin", box)
        trace = folder / "run" / "trace.db"
        if trace.exists():
            self.hold_against("tracer", trace, owns, "profiler", "sync")
            self.explain("tracer", trace)

    def run_ddp(self):
        if self.options.lab or not libraries.has_torch():
            self.table.add("PyTorch DDP", None, "no PyTorch with NCCL and a device here")
            return
        folder = self.job("ddp", "ddp")
        box = folder and self.import_rings("ddp", folder)
        if box:
            per_rank = compare.Recording(box).rows(
                "SELECT rank, COUNT(*), SUM(completion = 'profiler') FROM nccl_events WHERE op = 'ALL_REDUCE' GROUP BY rank")
            complete = len(per_rank) == self.options.ranks and all(count == ended for _, count, ended in per_rank)
            self.table.add("ddp: gradients' AllReduces", complete, f"(rank, calls, ended): {per_rank}")

    def run(self):
        self.out.mkdir(parents=True)
        print(f"stalltrace GPU check on {platform.node()}, {platform.release()}, Python {platform.python_version()}")
        if self.prepare():
            self.run_nccl()
            self.run_ddp()
        else:
            self.table.add("the rest", None, "it needs what is missing above: a GPU with NCCL, and stalltrace")
        (self.out / "results.json").write_text(json.dumps(self.table.rows, indent=1) + "\n")
        print(f"{self.table.failed} failed; raw results are in {self.out}")
        return 1 if self.table.failed else 0


def main():
    parser = argparse.ArgumentParser(prog="gpu_check")
    parser.add_argument("stalltrace")
    parser.add_argument("out")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max-bytes", type=int, default=512 << 20)
    parser.add_argument("--lab")
    sys.exit(Check(parser.parse_args()).run())


if __name__ == "__main__":
    main()
