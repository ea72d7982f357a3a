# SPDX-License-Identifier: Apache-2.0
"""Packet captures for size_bench.py: connections of a job as `tcpdump -s 96` keeps them, pcap or pcapng.

A block has all packets of a second. The next block is the same with later times and sequence numbers: these are added to
the whole block at once, as one large integer, since a loop over ten million packets takes Python minutes.
"""

import socket
import struct

from making import BEGIN_S, Made, count, fill

CONNECTIONS = 256
ROUNDS = 8  # of a block: two segments and their acknowledgement on each connection
PAYLOAD = 1448
KEPT = 96
ADVANCE = ROUNDS * 2 * PAYLOAD  # of a connection in a block
SYN, ACK = 2, 16
FIRST_SEQ, OTHER_SEQ = 1000, 500
SEQ_AT = 38  # in a frame; the acknowledgement's number follows
TIME_HIGH = 413_967  # pcapng counts us in two words: the lower one begins at 0 on 2026-05-05
US = 1_000_000


def frame(connection, back, number, flags, seq, ack, payload=0):
    """Ethernet, IPv4, TCP with 12 bytes of options; (the bytes that are kept, the size on the network)."""
    options = b"\x02\x04\x05\xb4" + b"\x01" * 8 if flags & SYN else b"\x01\x01\x08\x0a" + struct.pack(">II", 77_000 + connection, 88_000)
    ends = [(socket.inet_aton(f"10.0.0.{1 + connection % 8}"), 40_000 + connection), (socket.inet_aton(f"10.0.1.{1 + connection // 32}"), 50_000)]
    (source, source_port), (destination, destination_port) = ends[::-1] if back else ends
    head = b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00"
    head += struct.pack(">BBHHHBBH4s4s", 0x45, 0, 52 + payload, number % 65_535 + 1, 0x4000, 64, 6, 0, source, destination)
    head += struct.pack(">HHIIBBHHH", source_port, destination_port, seq, ack, 0x80, flags, 501, 0, 0) + options
    whole = len(head) + payload
    return (head + bytes(payload))[:KEPT], whole


class Pcap:
    """Microseconds, little endian."""

    head = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    frame_at = 16
    time_at, time_of_block = 0, 1

    @staticmethod
    def record(time_us, kept, size):
        return struct.pack("<IIII", BEGIN_S + time_us // US, time_us % US, len(kept), size) + kept


class Pcapng:
    """One section, one interface of microseconds; the most seconds are those that the lower word of a time has."""

    head = (struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28) + struct.pack("<IIHHII", 1, 20, 1, 0, 262_144, 20))
    frame_at = 28
    time_at, time_of_block = 16, US

    @staticmethod
    def record(time_us, kept, size):
        padded = kept + bytes(-len(kept) % 4)
        length = 32 + len(padded)
        return struct.pack("<IIIIIII", 6, length, 0, TIME_HIGH, time_us, len(kept), size) + padded + struct.pack("<I", length)


class Packets:
    """The packets of a block, and what each of their numbers grows by from block to block."""

    def __init__(self, form):
        self.form = form
        self.records = []
        self.growth = []  # of the sequence and the acknowledgement number
        per_block = 3 * ROUNDS * CONNECTIONS + 1
        for turn in range(ROUNDS):
            for connection in range(CONNECTIONS):
                seq = FIRST_SEQ + turn * 2 * PAYLOAD
                again = 1 if turn == ROUNDS - 1 and connection == 0 else 0  # the second segment once more
                for begin in (seq, *[seq + PAYLOAD] * (1 + again)):
                    self.add(per_block, frame(connection, False, len(self.records), ACK, begin, OTHER_SEQ, PAYLOAD), (ADVANCE, 0))
                self.add(per_block, frame(connection, True, len(self.records), ACK, OTHER_SEQ, seq + 2 * PAYLOAD), (0, ADVANCE))

    def add(self, per_block, packet, growth):
        self.records.append(self.form.record(US + len(self.records) * US // per_block, *packet))
        self.growth.append(growth)

    def blocks(self):
        """A function that returns block after block."""
        text = b"".join(self.records)
        times, numbers = bytearray(len(text)), bytearray(len(text))
        at = 0
        for record, growth in zip(self.records, self.growth, strict=True):
            struct.pack_into("<I", times, at + self.form.time_at, self.form.time_of_block)
            struct.pack_into(">II", numbers, at + self.form.frame_at + SEQ_AT, *growth)
            at += len(record)
        add_times, add_numbers = int.from_bytes(times, "little"), int.from_bytes(numbers, "big")

        def block(number):
            nonlocal text
            if number > 4000:
                raise SystemExit("bench: the times of a capture that large do not fit: give a smaller --size")
            if number > 0:
                text = (int.from_bytes(text, "little") + add_times).to_bytes(len(text), "little")
                text = (int.from_bytes(text, "big") + add_numbers).to_bytes(len(text), "big")
            return text

        return block

    def begin(self):
        """How the connections are opened, in the second before."""
        for connection in range(CONNECTIONS):
            yield self.form.record(connection * 1000, *frame(connection, False, connection, SYN, FIRST_SEQ - 1, 0))
            yield self.form.record(connection * 1000 + 200, *frame(connection, True, connection, SYN | ACK, OTHER_SEQ - 1, FIRST_SEQ))


def capture(form, name):
    def make(folder, size):
        packets = Packets(form)
        blocks, _ = fill(folder / name, size, packets.blocks(), form.head + b"".join(packets.begin()))
        number = 2 * CONNECTIONS + blocks * len(packets.records)
        return Made({"SELECT sum(tcp_packets) FROM packet_capture": number, count("packet_flow", "opened AND missing_bytes = 0"): 2 * CONNECTIONS,
                     count("packet_event", "kind = 'retransmit'"): blocks, count("packet_event"): blocks})

    return make
