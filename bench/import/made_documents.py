# SPDX-License-Identifier: Apache-2.0
"""Evidence for size_bench.py whose single file is a JSON document or a pickle: Flight Recorder dumps, nccl-tests -J, py-spy --json, NCCL's RAS.

Real files are small, so a gigabyte of them is many. The largest one that import takes, and one that it refuses, are formats of their own.
"""

import json
import pickle
import random

from making import BEGIN_S, MIB, MOST_VALUES, Made, count, documents, values_of

VARIANTS = 8
ENTRIES = 2000  # of a dump: what PyTorch keeps by default
JOB_RANKS = 2048
ROOM = 20_000  # values of a document beside its items


def largest(item, most_bytes, items_bytes):
    """How many of an item a document can have: by its values, and by its size."""
    return min((MOST_VALUES - ROOM) // values_of(item), (most_bytes - MIB) // items_bytes)


# Flight Recorder

FRAMES = [{"name": name, "filename": f"/usr/local/lib/python3.11/site-packages/torch/{file}.py", "line": line}
          for name, file, line in (("all_reduce", "distributed/distributed_c10d", 2501), ("wrapper", "distributed/c10d_logger", 79),
                                   ("backward", "_tensor", 525), ("backward", "autograd/__init__", 267), ("step", "optim/optimizer", 391),
                                   ("wrapper", "optim/lr_scheduler", 75))]


def dump_entry(number, variant, calls):
    created = (BEGIN_S * 1000 + number * 12 + variant) * 1_000_000
    ended = number < calls
    name = ("all_reduce", "_allgather_base", "_reduce_scatter_base", "all_reduce")[number % 4]
    return {"record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number,
            "profiling_name": f"nccl:{name}", "time_created_ns": created, "duration_ms": 3.5 + number % 7, "input_sizes": [[1024 + number % 5, 4096]],
            "input_dtypes": ["BFloat16"], "output_sizes": [[1024 + number % 5, 4096]], "output_dtypes": ["BFloat16"],
            "state": "completed" if ended else "started", "time_discovered_started_ns": created + 150_000,
            "time_discovered_completed_ns": created + 9_000_000 if ended else None, "retired": ended, "timeout_ms": 600_000, "is_p2p": False,
            "frames": [*FRAMES, {"name": "train_step", "filename": "/home/user/project/train.py", "line": 88 + number % 40},
                       {"name": "<module>", "filename": "/home/user/project/train.py", "line": 310}]}


def dump(calls, variant):
    return {"version": "2.5", "nccl_version": "2.21.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(JOB_RANKS)))}},
            "pg_status": {"0": {"last_enqueued_collective": calls, "last_started_collective": calls, "last_completed_collective": calls - 1}},
            "entries": [dump_entry(number, variant, calls) for number in range(1, calls + 1)]}


def as_pickle(what):
    return pickle.dumps(what, protocol=2)


def as_json(what):
    return json.dumps(what).encode()


def dumps(write):
    def make(folder, size):
        variants = [write(dump(ENTRIES, variant)) for variant in range(VARIANTS)]
        files = documents(folder, size, "nccl_trace_rank_{}".format, lambda number: variants[number % VARIANTS])
        return Made({count("collective"): ENTRIES * files, count("log_line"): files})

    return make


def largest_dump(write):
    def make(folder, size):
        item = dump_entry(1, 0, 2)
        # As many for a pickle, which takes fewer values: PyTorch keeps less than that.
        entries = min(largest(item, 128 * MIB, len(as_json(item))), max(1, size // len(write(item))))
        (folder / "nccl_trace_rank_0").write_bytes(write(dump(entries, 0)))
        return Made({count("collective"): entries})

    return make


def too_large(head, most_bytes, name):
    """A file that begins as a real one and is longer than import takes; the rest is a hole."""
    def make(folder, size):
        with open(folder / name, "wb") as file:
            file.write(head())
            file.truncate(most_bytes + 1)
        return Made({})

    return make


# nccl-tests -J

SWEEP = 16_000  # sizes of a run, as with -i


def test_result(number, variant):
    time = 11.5 + number * (0.9 + variant / 50) / 7
    size = number * 65_536
    numbers = {"time": round(time, 6), "alg_bw": round(size / time / 1000, 6), "bus_bw": round(1.75 * size / time / 1000, 6), "nwrong": 0.0}
    return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": numbers,
            "in_place": {**numbers, "time": round(time * 1.01, 6)}, "actual_iterations": 20, "experiment_name": ""}


def test_report(results, variant):
    devices = [{"rank": rank, "group": 0, "pid": 6900 + rank, "hostname": f"node{rank // 8}", "device": rank % 8, "device_hex": "0x18",
                "device_info": "NVIDIA H100 80GB HBM3"} for rank in range(16)]
    return {"version": 1, "start_time": "2026-05-05 10:00:00", "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "64K", "-J", "out.json"],
            "env": ["HOME=/root"], "nccl_version": 22809, "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": 65_536,
                                                                      "maximum_bytes": 65_536 * results, "devices": devices},
            "results": [test_result(number, variant) for number in range(1, results + 1)], "out_of_bounds": {"count": 0, "okay": True},
            "average_bus_bandwidth": {"bandwidth": 48.3, "okay": True}, "errors": [""], "end_time": "2026-05-05 10:09:00"}


def tests_json(folder, size):
    results = min(SWEEP, max(1, size // 2000))
    variants = [as_json(test_report(results, variant)) for variant in range(VARIANTS)]
    files = documents(folder, size, "all_reduce_{}.json".format, lambda number: variants[number % VARIANTS])
    return Made({count("benchmark_result"): 2 * results * files, count("benchmark_run", "ended AND NOT failed"): files})


def largest_tests_json(folder, size):
    item = test_result(1000, 1)
    # 200,000 results of a file are kept, two of each size.
    results = min(largest(item, 64 * MIB, len(as_json(item))), 100_000, max(1, size // len(as_json(item))))
    (folder / "all_reduce.json").write_bytes(as_json(test_report(results, 0)))
    return Made({count("benchmark_result"): 2 * results})


# py-spy dump --json --locals

THREADS = 24
DEPTH = 20
LOCALS = 8


def spied_thread(index, variant, locals_=LOCALS):
    chance = random.Random(variant * 1000 + index)
    names = ("forward", "backward", "_call_impl", "all_reduce", "step", "wait", "_worker_loop", "get")
    return {"pid": "@", "thread_id": 139_000_000_000_000 + index, "thread_name": "MainThread" if index == 0 else f"Thread-{index}",
            "os_thread_id": "@" if index == 0 else f"@{index:02}", "active": index % 3 == 0, "owns_gil": index == 3,
            "frames": [{"name": chance.choice(names), "filename": f"/usr/local/lib/python3.11/site-packages/torch/nn/modules/{chance.choice(names)}.py",
                        "module": None, "short_filename": "module.py", "line": chance.randrange(20, 3000),
                        "locals": [{"name": f"local_{i}", "addr": chance.randrange(1 << 40), "arg": i == 0,
                                    "repr": f"<Tensor at 0x7f{chance.randrange(1 << 40):010x}>"} for i in range(locals_)] or None}
                       for _ in range(DEPTH)], "process_info": None}


def spied_template(threads, variant):
    """`@` stands for the number of the process."""
    text = json.dumps([spied_thread(index, variant) for index in range(threads)])
    for index in range(1, threads):
        text = text.replace(f'"@{index:02}"', f"@{index:02}")
    return text.replace('"@"', "@").encode()


def py_spy_json(folder, size):
    variants = [spied_template(THREADS, variant) for variant in range(VARIANTS)]
    files = documents(folder, size, "dump_{}.json".format, lambda number: variants[number % VARIANTS].replace(b"@", b"%d" % (4000 + number)))
    return Made({count("python_stack", "stack_id > 0"): THREADS * files})


def largest_py_spy_json(folder, size):
    item = spied_thread(1, 0)
    threads = min(largest(item, 64 * MIB, len(as_json(item))), max(1, size // len(as_json(item))))
    text = json.dumps([{**spied_thread(index % 99, index), "pid": 4000, "os_thread_id": 4000 + index} for index in range(threads)])
    (folder / "dump.json").write_text(text)
    return Made({count("python_stack"): threads})


# NCCL's RAS in JSON

WORLD, PART = 1024, 8
REPORTS = 12  # of a file


def ras_rank(rank, host, number):
    return {"rank": rank, "host": f"10.0.{host // 256}.{host % 256}", "pid": 100_000 + rank, "cuda_dev": rank % 8, "nvml_dev": rank % 8,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
            "collective_counts": {"Broadcast": 2, "AllReduce": number}}


def ras_comm(name, ranks):
    return {"hash": f"0x{name:x}", "secondary_hash": f"0x{name:x}:0x2", "size": len(ranks), "ranks_count": len(ranks), "missing_ranks_count": 0,
            "ranks": ranks, "missing_ranks": []}


def ras_report():
    """As NCCL lays it out; MM:SS stands for the time, 77777 and 77776 for numbers of calls."""
    comms = [ras_comm(0xABC000, [ras_rank(rank, rank // 8, 77_777) for rank in range(WORLD)])]
    comms += [ras_comm(0xABC001 + part, [ras_rank(rank, part, 77_777 - rank % 2) for rank in range(PART)]) for part in range(WORLD // PART)]
    report = {"nccl_version": "2.29.1", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "timestamp": "2026-05-05 10:MM:SS",
              "communicators_count": len(comms), "communicators": comms, "ras": {"collection_time_sec": 0.012, "timeouts_count": 0}}
    return json.dumps(report, indent=2).encode() + b"\n"


def ras_files(reports_of_size):
    def make(folder, size):
        template = ras_report()
        reports = max(1, min(reports_of_size, size // len(template)))

        def content(number):
            seconds = range(number * reports % 3600, number * reports % 3600 + reports)
            return b"".join(template.replace(b"MM:SS", b"%02d:%02d" % (second // 60 % 60, second % 60)).replace(b"77777", b"%d" % (20_000 + second))
                            .replace(b"77776", b"%d" % (19_999 + second)) for second in seconds)

        files = documents(folder, size, "ras_{}.json".format, content)
        return Made({count("log_line"): files * reports * (1 + 2 * WORLD), count("log_line", "kind = 'version'"): files * reports})

    return make


def largest_ras_json(folder, size):
    most = 128 * MIB - MIB
    return ras_files(most // len(ras_report()))(folder, min(size, most))
