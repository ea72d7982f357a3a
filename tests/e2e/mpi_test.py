# SPDX-License-Identifier: Apache-2.0
"""Real MPI: OpenMPI, whose handles are pointers, and MPICH, whose handles are ints; polled calls."""

import collections
import json
import subprocess

from job import OPENMPI, Tracer
from stalltrace import BUILD, Case


class MpiJob:
    """Runs mpi-train's ranks on this host with one launcher. `each(r)` gives the arguments of rank r."""

    OPENMPI = ("mpi-train", *OPENMPI)
    MPICH = ("mpi-train-mpich", "mpirun.mpich")

    def __init__(self, case, library, ranks, *options, slow=None):
        """`slow` is (rank, extra milliseconds per step)."""
        program, *words = library
        self.logs = [case.folder / f"{program}{rank}.jsonl" for rank in range(ranks)]
        slow_file = case.folder / "slow"
        slow_file.write_text(str(slow[1] if slow else 0))
        for rank, log in enumerate(self.logs):
            late = [f"LAB_SLOW_FILE={slow_file}"] if slow and slow[0] == rank else []
            words += [*([":"] if rank else []), "-n", "1", "env", *late, BUILD / "lab" / "bin" / program, "--log", log,
                      *options]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
        case.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")

    def steps(self, rank):
        return [json.loads(line) for line in self.logs[rank].read_text().splitlines()]


class MpiAsItIs(Case):
    """Both MPI families: handles that are pointers, handles that are ints."""

    ROWS = ("SELECT rank, op, count, bytes, nranks, comm_id_hash, seq, completion, timestamp_ns, duration_ns "
            "FROM collective WHERE library = 'mpi' ORDER BY timestamp_ns")
    Row = collections.namedtuple("Row", "rank op count bytes nranks comm seq completion at_ns duration_ns")

    def setUp(self):
        super().setUp()
        self.need_root()

    def traced(self, library, ranks, *options, slow=None):
        """Runs the job; returns it and the recorded calls."""
        tracer = Tracer(self)
        job = MpiJob(self, library, ranks, *options, slow=slow)
        tracer.stop()
        self.assertEqual(tracer.rows("SELECT coalesce(sum(count), 0) FROM loss"), [(0,)])
        rows = [self.Row(*row) for row in tracer.rows(self.ROWS)]
        tracer.path.unlink()
        return job, rows

    def instances(self, rows, ranks):
        """Collectives by communicator and number: each has all ranks, with the same operation."""
        instances = collections.defaultdict(list)
        for row in rows:
            if row.op not in ("SEND", "COMM_INIT_RANK", "COMM_DESTROY"):
                self.assertIsNotNone(row.comm)
                self.assertEqual(row.nranks, ranks)
                instances[row.comm, row.seq].append(row)
        for members in instances.values():
            self.assertEqual(sorted(row.rank for row in members), list(range(ranks)))
            self.assertEqual(len({(row.op, row.count, row.bytes) for row in members}), 1, members)
        return instances

    def test_mpich(self):
        _, rows = self.traced(MpiJob.MPICH, 3, "--steps", 20, "--buckets", 2, "--elements", 1000, "--mix", 10)
        self.instances(rows, 3)
        part, whole = 4 * 4096, 3 * 4 * 4096
        for rank in range(3):
            seen = collections.Counter((row.op, row.count, row.bytes) for row in rows if row.rank == rank)
            self.assertEqual(seen, {
                ("COMM_INIT_RANK", None, None): 1, ("ALL_REDUCE", 1000, 4000): 40, ("BROADCAST", 4096, part): 2,
                ("REDUCE", 4096, part): 2, ("ALL_GATHER", 4096, whole): 2, ("REDUCE_SCATTER", 4096, whole): 2,
                ("ALL_TO_ALL", 4096, whole): 2, ("SEND", 4096, part): 2, ("BARRIER", None, None): 3,
                ("COMM_DESTROY", None, None): 1})
        self.assertEqual([row for row in rows if row.completion == "open"], [])

    def test_calls_that_are_polled(self):
        """One rank is late, so that the others' polls find nothing: no poll is recorded or taken for an end."""
        steps, buckets, ranks = 10, 2, 2
        for library, call in ((MpiJob.OPENMPI, "test"), (MpiJob.OPENMPI, "testall"), (MpiJob.OPENMPI, "testsome"),
                              (MpiJob.MPICH, "test"), (MpiJob.MPICH, "testall"), (MpiJob.MPICH, "testany")):
            with self.subTest(library=library[0], call=call):
                job, rows = self.traced(library, ranks, "--steps", steps, "--buckets", buckets, "--elements", 1000,
                                        "--poll", call, slow=(1, 20))
                polls = sum(step["polls"] for step in job.steps(0))
                self.assertGreater(polls, 20 * len(rows))
                self.assertEqual(len(rows), ranks * (steps * buckets + 3))  # set-up, barrier, end
                reductions = [members for members in self.instances(rows, ranks).values()
                              if members[0].op == "ALL_REDUCE"]
                self.assertEqual(len(reductions), steps * buckets)
                for members in reductions:
                    last_arrival_ns = max(row.at_ns for row in members)
                    for row in members:
                        self.assertIn(row.completion, ("sync", "network"))
                        self.assertGreaterEqual(row.at_ns + row.duration_ns, last_arrival_ns)
                self.ends_within_its_step(job, rows)

    def ends_within_its_step(self, job, rows):
        clock_error_ns = 5_000_000
        calls = [row for row in rows if row.rank == 0 and row.op == "ALL_REDUCE"]
        for step in job.steps(0):
            inside = [row for row in calls if step["start_ns"] <= row.at_ns < step["end_ns"]]
            self.assertEqual(len(inside), 2)
            for row in inside:
                self.assertLess(row.at_ns + row.duration_ns, step["end_ns"] + clock_error_ns)
