# SPDX-License-Identifier: Apache-2.0
"""Perfetto's files, decoded with protoc and a schema of ours (perfetto.proto)."""

import re
import subprocess
import zlib

from stalltrace import ROOT


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def unpacked(data):
    """The packets of a file's bundles: it is a list of packets that hold nothing but compressed_packets."""
    plain, at = b"", 0
    while at < len(data):
        key, at = varint(data, at)
        size, at = varint(data, at)
        inner, inside = varint(data, at)
        length, inside = varint(data, inside)
        assert (key, inner, inside + length) == (1 << 3 | 2, 50 << 3 | 2, at + size), "not a bundle"
        plain += zlib.decompress(data[inside:inside + length])
        at += size
    return plain


def messages(text):
    """protoc's text as dictionaries of lists."""
    root = {}
    stack = [root]
    for line in text.splitlines():
        line = line.strip()
        if line == "}":
            stack.pop()
        elif line.endswith(" {"):
            inner = {}
            stack[-1].setdefault(line[:-2], []).append(inner)
            stack.append(inner)
        else:
            name, value = line.split(": ", 1)
            assert not name.isdigit(), f"a field that the schema lacks: {line}"
            stack[-1].setdefault(name, []).append(value)
    return root


class Trace:
    """The events of a file: (category, name, time, track path, notes), with times in UTC."""

    def __init__(self, path):
        text = subprocess.run(["protoc", f"--proto_path={ROOT}/tests/support", "--decode=perfetto.Trace", "perfetto.proto"],
                              input=unpacked(path.read_bytes()), capture_output=True, check=True).stdout.decode()
        self.tracks, self.slices, self.ends, self.instants, self.counters = {}, [], [], [], []
        self.interned = {}
        self.zero = None
        for packet in messages(text)["packet"]:
            self.add(packet)

    def add(self, packet):
        for snapshot in packet.get("clock_snapshot", []):
            clocks = {clock["clock_id"][0]: int(clock["timestamp"][0]) for clock in snapshot["clocks"]}
            self.zero = clocks["1"] - clocks["64"]
        for data in packet.get("interned_data", []):
            for kind, entries in data.items():
                for entry in entries:
                    self.interned[kind, entry["iid"][0]] = unquoted((entry.get("name") or entry["str"])[0])
        for track in packet.get("track_descriptor", []):
            name = track["process"][0]["process_name"] if "process" in track else track["name"]
            parent = self.tracks.get(track.get("parent_uuid", [None])[0])
            self.tracks[track["uuid"][0]] = (f"{parent} / " if parent else "") + unquoted(name[0])
        for event in packet.get("track_event", []):
            self.add_event(event, int(packet["timestamp"][0]) + (0 if "timestamp_clock_id" in packet else self.zero))

    def add_event(self, event, time):
        notes = {self.interned["debug_annotation_names", note["name_iid"][0]]: self.value(note)
                 for note in event.get("debug_annotations", [])}
        row = {"category": self.interned.get(("event_categories", event.get("category_iids", [None])[0])),
               "name": self.interned.get(("event_names", event.get("name_iid", [None])[0])),
               "time": time, "track": self.tracks[event["track_uuid"][0]], "notes": notes,
               "out": event.get("flow_ids", []), "in": event.get("terminating_flow_ids", []),
               "value": float(event.get("counter_value", event.get("double_counter_value", [0]))[0])}
        {"TYPE_SLICE_BEGIN": self.slices, "TYPE_SLICE_END": self.ends, "TYPE_INSTANT": self.instants,
         "TYPE_COUNTER": self.counters}[event["type"][0]].append(row)

    def value(self, note):
        (kind, (value,)), = ((kind, value) for kind, value in note.items() if kind != "name_iid")
        if kind == "string_value_iid":
            return self.interned["debug_annotation_string_values", value]
        return unquoted(value) if kind == "string_value" else value

    def of(self, category):
        return [row for row in self.slices + self.instants if row["category"] == category]


def unquoted(text):
    """A string of protoc's text: octal escapes are bytes of UTF-8."""
    assert text[0] == text[-1] == '"', text
    plain = re.sub(rb"\\(n|\\|\"|'|[0-7]{3})", lambda match: escape(match[1]), text[1:-1].encode())
    return plain.decode()  # fails on what is not UTF-8


def escape(code):
    return bytes([int(code, 8)]) if len(code) == 3 else {b"n": b"\n"}.get(code, code)
