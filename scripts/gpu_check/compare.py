# SPDX-License-Identifier: Apache-2.0
"""Compares a recording with the ranks' own notes from their clocks and CUDA events."""

import json
import sqlite3
import statistics

TOLERANCE_NS = 50_000
TOLERANCE_SHARE = 0.01
# Called only on the communicator of all ranks.
WORLD_OPS = ("ALL_GATHER", "REDUCE_SCATTER", "BROADCAST", "REDUCE")
# From this version on, NCCL reports a Broadcast to the plugin only as a call, unless NCCL_ALLGATHERV_ENABLE=0.
ONLY_CALLS_REPORTED_SINCE = (2, 29, 2)


class Own:
    """One rank's notes."""

    def __init__(self, path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.who = next(line for line in lines if line["kind"] == "rank")
        self.calls = [line for line in lines if line["kind"] == "call"]

    def of(self, op):
        return [call for call in self.calls if call["op"] == op]


class Recording:
    def __init__(self, path):
        self.database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def rows(self, sql, *arguments):
        return self.database.execute(sql, arguments).fetchall()

    def calls(self, pid, op):
        """(duration_ns, launch_ns, completion, rank, nranks, bytes, seq), in order."""
        return self.rows("SELECT duration_ns, launch_ns, completion, rank, nranks, count, seq FROM nccl_events "
                         "WHERE pid = ? AND op = ? ORDER BY timestamp_ns, seq", pid, op)

    def hashes(self, pid):
        return {f"{row[0] & (1 << 64) - 1:x}" for row in self.rows(
            "SELECT nccl_comm_hash FROM communicator WHERE pid = ? AND nccl_comm_hash IS NOT NULL", pid)}


def duration_fits(call, duration_ns):
    """A collective lasts at least as long as the device was busy after its launch (the first event is passed before
    that: NCCL's first call connects the ranks in the meantime), and at most until the caller knew of its end.
    """
    slack = max(TOLERANCE_NS, TOLERANCE_SHARE * call["wall_ns"])
    return call["device_ns"] - call["launch_ns"] - slack <= duration_ns <= call["wall_ns"] + slack


def check_counts(recording, owns):
    """Every call is recorded once."""
    wrong = []
    total = 0
    for own in owns:
        for op in sorted({call["op"] for call in own.calls}):
            expected, got = len(own.of(op)), len(recording.calls(own.who["pid"], op))
            total += expected
            if expected != got:
                wrong.append(f"rank {own.who['rank']}: {got} of {expected} {op}")
    return not wrong, ", ".join(wrong) or f"all {total} calls"


def check_ranks(recording, owns, sizes_reported):
    """Whether each call has its rank, and its communicator's size if NCCL reports it."""
    wrong = []
    for own in owns:
        seen = set(recording.rows(f"SELECT DISTINCT rank, nranks FROM nccl_events WHERE pid = ? AND op IN {WORLD_OPS}", own.who["pid"]))
        if seen != {(own.who["rank"], own.who["ranks"] if sizes_reported else None)}:
            wrong.append(f"rank {own.who['rank']} of {own.who['ranks']} is {sorted(seen, key=str)}")
    return not wrong, "; ".join(wrong) or f"{len(owns)} ranks" + ("" if sizes_reported else ", sizes not reported by this NCCL")


def check_hashes(recording, owns):
    """NCCL's own hash of the unique id."""
    wrong = [f"rank {own.who['rank']}: {own.who['hash']} not in {sorted(recording.hashes(own.who['pid']))}"
             for own in owns if own.who["hash"] not in recording.hashes(own.who["pid"])]
    return not wrong, "; ".join(wrong) or f"commId 0x{owns[0].who['hash']}"


def check_memory(recording, owns):
    """Of communicators that were made before the recording: NCCL's own hash, rank and size, by its memory."""
    wrong = []
    for own in owns:
        seen = [(f"{(hash_ or 0) & (1 << 64) - 1:x}", rank, nranks, source) for hash_, rank, nranks, source in recording.rows(
            "SELECT nccl_comm_hash, rank, nranks, rank_source FROM communicator WHERE pid = ?", own.who["pid"])]
        if seen != [(own.who["hash"], own.who["rank"], own.who["ranks"], "memory")]:
            wrong.append(f"rank {own.who['rank']}: {seen}")
    return not wrong, "; ".join(wrong) or f"commId 0x{owns[0].who['hash']}, {len(owns)} ranks"


def check_autopsy(result, before, after):
    """Each rank's communicator, and its number of AllReduces, which lies between those of the notes before and after."""
    wrong = []
    for rank in result["ranks"]:
        own, later = next((pair for pair in zip(before, after) if pair[0].who["pid"] == rank["pid"]), (None, None))
        found = rank["communicators"]
        expected = own and (own.who["hash"], own.who["rank"], own.who["ranks"])
        if [(one["hash"].removeprefix("0x").lstrip("0"), one["rank"], one["nranks"]) for one in found] != [expected]:
            wrong.append(f"rank {rank['rank']}: {found}, expected {expected}")
            continue
        launched = found[0]["launched"].get("AllReduce", found[0]["launched"].get("Collective"))
        least, most = len(own.of("ALL_REDUCE")), len(later.of("ALL_REDUCE")) + 1  # one is launched and not noted yet
        if launched is not None and not least <= launched <= most:
            wrong.append(f"rank {rank['rank']}: {launched} launched, {least} to {most} made")
    seen = len(result["ranks"])
    return not wrong and seen == len(before), "; ".join(wrong) or f"{seen} ranks, each with its number of calls"


def check_sequences(recording, owns):
    """On the communicator of all ranks, each call's number is higher than the one before, and all ranks agree on the
    numbers.
    """
    reported = []
    for own in owns:
        calls = recording.rows(f"SELECT op, seq FROM nccl_events WHERE pid = ? AND op IN {WORLD_OPS} ORDER BY timestamp_ns, seq", own.who["pid"])
        numbers = [number for _, number in calls]
        if not numbers or None in numbers or numbers != sorted(set(numbers)):
            return False, f"rank {own.who['rank']}: {numbers[:8]}"
        reported.append(calls)
        if calls != reported[0]:
            return False, f"rank {own.who['rank']} has others than rank {owns[0].who['rank']}: {sorted(set(calls) ^ set(reported[0]))[:4]}"
    return True, f"rising by call, {len(reported[0])} alike on all ranks"


def check_broadcasts(recording, owns, nccl_version):
    """Whether the calls' ends are known, if NCCL reports them."""
    ends = [row[2] for own in owns for row in recording.calls(own.who["pid"], "BROADCAST")]
    unobserved = ends.count("unobserved")
    if unobserved and nccl_version >= ONLY_CALLS_REPORTED_SINCE:
        return None, (f"{unobserved} of {len(ends)} have no duration: since {'.'.join(map(str, ONLY_CALLS_REPORTED_SINCE))} NCCL reports the "
                      "plugin only that a Broadcast was called (NCCL_ALLGATHERV_ENABLE, 1 by default)")
    return bool(ends) and not unobserved, f"{unobserved} of {len(ends)} have no duration"


def check_connections(recording, address_of):
    """Connections attributed to a channel and a rank lead to that rank's address."""
    attributed = recording.rows("SELECT rank, peer_rank, daddr FROM connection WHERE channel IS NOT NULL")
    wrong = [f"rank {rank}'s to {address} is not rank {peer}'s" for rank, peer, address in attributed
             if peer is None or address != address_of(peer)]
    return bool(attributed) and not wrong, "; ".join(wrong[:3]) or f"{len(attributed)} connections"


def check_durations(recording, owns, completions):
    """For calls outside of groups with an end known in one of these ways: compares the recorded duration with the
    rank's own clock and CUDA events.
    """
    within, differences, seen, outside = 0, [], 0, []
    for own in owns:
        for op in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST", "REDUCE"):
            for call, row in zip(own.of(op), recording.calls(own.who["pid"], op)):
                if call["grouped"] > 1 or row[2] not in completions or row[0] is None:
                    continue
                seen += 1
                fits = duration_fits(call, row[0])
                within += fits
                if not fits:
                    outside.append(f"rank {own.who['rank']} {call['phase']} {op} of {call['count'] * 4} bytes: recorded {row[0] / 1e3:.0f} us, "
                                   f"CUDA events {call['device_ns'] / 1e3:.0f}, own clock {call['wall_ns'] / 1e3:.0f}")
                differences.append(abs(row[0] - call["wall_ns"]))
    if not seen:
        return None, f"no call whose end is known by {' or '.join(completions)}"
    text = (f"{within} of {seen} between CUDA events and own clock (+- 1 % or 50 us), median difference to own clock "
            f"{statistics.median(differences) / 1e3:.0f} us")
    return within >= 0.95 * seen, "\n    ".join([text, *outside])


def size_table(recording, owns, completions):
    """One line per AllReduce size: medians of rank 0."""
    own = owns[0]
    by_size = {}
    for call, row in zip(own.of("ALL_REDUCE"), recording.calls(own.who["pid"], "ALL_REDUCE")):
        if call["phase"] == "sizes" and row[2] in completions and row[0] is not None:
            by_size.setdefault(call["count"] * 4, []).append((call["launch_ns"], call["device_ns"], call["wall_ns"], row[0]))
    yield f"{'bytes':>12} {'calls':>6} {'launch us':>10} {'events us':>10} {'own us':>10} {'recorded us':>12}"
    for size, values in sorted(by_size.items()):
        medians = [statistics.median(column) / 1e3 for column in zip(*values)]
        yield f"{size:>12} {len(values):>6} {medians[0]:>10.1f} {medians[1]:>10.1f} {medians[2]:>10.1f} {medians[3]:>12.1f}"
