# SPDX-License-Identifier: Apache-2.0
"""Judges the files left by a step of the guest: one function per step, which gets the step's folder and returns
(passed, words, data). The words are for a cell of the table, with the reason if it did not pass.
"""

import json
import re

# The calls that guest/steps/calls makes with the stand-in job (tests/bpf/standin/job.c, `all_calls`): op, count,
# datatype, reduce_op, root, peer, stream, seq.
CALLS = [
    ("ALL_REDUCE", 101, 7, 0, None, None, 0x51, 0),
    ("REDUCE_SCATTER", 102, 7, 2, None, None, 0x52, 1),
    ("REDUCE", 103, 8, 3, 5, None, 0x53, 2),
    ("ALL_GATHER", 104, 1, None, None, None, 0x54, 3),
    ("BROADCAST", 105, 7, None, 2, None, 0x55, 4),
    ("BROADCAST", 106, 7, None, 4, None, 0x56, 5),
    ("ALL_TO_ALL", 107, 7, None, None, None, 0x57, 6),
    ("GATHER", 108, 7, None, 6, None, 0x58, 7),
    ("SCATTER", 109, 7, None, 7, None, 0x59, 8),
    ("SEND", 110, 7, None, None, 1, 0x5A, 0),
    ("RECV", 111, 7, None, None, 2, 0x5B, 0),
]
CALL_COLUMNS = ("op", "count", "datatype", "reduce_op", "root", "peer", "stream", "seq")
# nranks, rank, split_color, split_key of the communicators, in the order of their creation.
COMMUNICATORS = [
    (8, 3, None, None),
    (16, 5, None, None),
    (32, 7, None, None),
    (None, None, 4, 9),
    (3, 0, None, None),
    (3, 1, None, None),
    (3, 2, None, None),
]
COMMUNICATOR_COLUMNS = ("nranks", "rank", "split_color", "split_key")
FAULTY_RANK = 2  # in guest/steps/lab

# Tests that fail on a kernel by design, as (kernel, test): reason. All other failures count.
EXCUSED_TESTS = {}


def load(path):
    return json.loads(path.read_text())


def last_line(folder):
    lines = [line for line in (folder / "output").read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def check(folder, _kernel):
    data = load(folder / "check.json")
    bad = [f"{line['what']}: {line['detail']}" for line in data["lines"] if line["state"] == "refused"]
    return data["possible"] and not bad, "; ".join(bad), data


def programs(folder, _kernel):
    data = load(folder / "programs.json")
    refused = [program["program"] for program in data["programs"] if program["state"] == "refused"]
    words = f"{len(data['programs'])} programs in {data['load_us'] / 1e6:.2f} s"
    return not refused, f"refused: {', '.join(refused)}" if refused else words, data


def calls(folder, _kernel):
    rows = load(folder / "calls.json")
    moving = [tuple(row[column] for column in CALL_COLUMNS) for row in rows if row["count"] is not None]
    if moving != CALLS:
        missing = [call[0] for call in CALLS if call not in moving]
        return False, f"{len(moving)} of {len(CALLS)} calls; not as made: {', '.join(missing)}", None
    made = load(folder / "communicators.json")
    seen = [tuple(row[column] for column in COMMUNICATOR_COLUMNS) for row in made]
    if seen != COMMUNICATORS:
        return False, f"communicators {seen} instead of {COMMUNICATORS}", None
    first = made[0]
    wrong = [
        row["op"]
        for row in rows
        if row["count"] is not None
        and (row["rank"], row["nranks"], row["rank_source"], row["return_code"], row["comm_id_hash"])
        != (3, 8, "init", 0, first["comm_id_hash"])
    ]
    if wrong or made[3]["parent_hash"] != first["comm_id_hash"] or made[2]["destroyed_ns"] is None:
        return False, f"communicator not as used: {', '.join(wrong) or 'split or destroyed one'}", None
    return True, f"all {len(CALLS)} calls and {len(made)} communicators, every argument", None


def root_tests(folder, kernel):
    output = (folder / "output").read_text(errors="replace")
    tries = {name: 0 for name in re.findall(r"^\[ RUN      \] (\S+)", output, re.M)}
    result = {name: "did not end" for name in tries}
    for outcome, name in re.findall(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+).* \(\d+ ms\)$", output, re.M):
        tries[name] += 1
        result[name] = outcome  # from its last try
    passed = [name for name in result if result[name] == "OK"]
    again = [name for name in passed if tries[name] > 1]
    bad = {name: outcome for name, outcome in result.items() if outcome != "OK"}
    unexcused = [name for name in bad if (kernel, name) not in EXCUSED_TESTS]
    words = f"{len(passed)} of {len(result)} tests"
    if again:
        words += f", at the second try {', '.join(again)}"
    for name, outcome in bad.items():
        words += f"; {name}: {EXCUSED_TESTS.get((kernel, name), outcome.lower())}"
    return bool(passed) and not unexcused, words, {"result": result, "second_try": again}


def owners(folder):
    """Rows of retransmissions of all nodes: their sum, and the nodes where one has no owner or a wrong one."""
    rows = [row for text in (folder / "retransmits.jsonl").read_text().split("]") if text.strip()
            for row in json.loads(text + "]")]
    wrong = [row["node"] for row in rows
             if row["without_owner"] or (row["retransmits"] and (row["lowest"], row["highest"]) != (row["node"],) * 2)]
    return sum(row["retransmits"] for row in rows), wrong


def doses(folder):
    run = load(folder / "truth.json")["run"]
    return {"steps": run["steps"], "workload_args": " ".join(run["workload_args"])}


def lab(folder, _kernel):
    findings = load(folder / "explain.json")["findings"]
    retransmits, ownerless = owners(folder)
    data = {"run": doses(folder), "findings": findings, "retransmits": retransmits}
    if not findings:
        return False, "no finding", data
    strange = [finding["summary"] for finding in findings if finding["cause"] != "packet_loss"]
    if strange:
        return False, f"another finding: {strange[0]}", data
    finding = findings[0]
    ranks = [(finding["link"] or {}).get("src_rank"), (finding["link"] or {}).get("dst_rank"),
              (finding["culprit"] or {}).get("rank")]
    if FAULTY_RANK not in ranks[1:]:  # packets are dropped on the way to that rank
        return False, f"another location: {finding['summary']}", data
    if not retransmits or ownerless:
        return False, f"retransmissions without their owner on node {ownerless or 0} of {retransmits}", data
    location = f"rank {ranks[0]} to rank {ranks[1]}" if finding["link"] else f"rank {ranks[2]}"
    return True, (f"packet_loss, {location}, {finding['confidence'] * 100:.0f} %, {finding['stall_ms']:.0f} ms; "
                  f"{retransmits} retransmissions, each with its owner"), data


def healthy(folder, _kernel):
    findings = load(folder / "explain.json")["findings"]
    data = {"run": doses(folder), "findings": findings}
    return not findings, findings[0]["summary"] if findings else "no finding", data


STEPS = {"check": check, "programs": programs, "calls": calls, "root_tests": root_tests, "lab": lab, "healthy": healthy}


def why_it_did_not_end(name, folder):
    console = folder.parent / "console"
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    if f"  {name} ..." not in lines:
        return f"the machine did not come to it: {lines[-1] if lines else 'it printed nothing'}"
    return f"the machine hung or died in it: {lines[-1]}"


def judge(name, folder, kernel):
    """The record of one step."""
    record = {"step": name, "passed": False, "code": None, "seconds": None, "words": "", "data": None, "output": ""}
    if not (folder / "code").exists():
        record["words"] = why_it_did_not_end(name, folder)
        return record
    record["code"] = int((folder / "code").read_text())
    record["seconds"] = float((folder / "seconds").read_text())
    record["output"] = (folder / "output").read_text(errors="replace")[-4000:]
    try:
        record["passed"], record["words"], record["data"] = STEPS[name](folder, kernel)
    except (OSError, ValueError, LookupError, TypeError) as error:  # a file is missing or invalid
        record["words"] = last_line(folder) if record["code"] else f"results are not as expected: {error!r}"
    if record["code"] != 0:
        ended = "its time was over" if record["code"] in (124, 137, 143) else f"exit code {record['code']}"
        record["passed"] = False
        record["words"] = f"{ended}: {record['words'] or last_line(folder)}"
    return record
