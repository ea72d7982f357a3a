# SPDX-License-Identifier: Apache-2.0
"""native_seeds.py FOLDER: seeds of the fuzz target native: a small library with unwind tables and a stack, perf maps, names of
symbols, answers of the child that reads names."""

import pathlib
import struct
import sys

CODE = 0x400000
HEADER_AT, TABLES_AT, INNER_AT, OUTER_AT = 0x100, 0x140, 0x400, 0x500
COMMON = b"\x0c\x07\x08\x90\x01"  # rsp + 8 is the canonical frame address, the return address is below
INNER = b"\x41\x0e\x10\x86\x02"  # after one byte of code 16 bytes, and rbp saved
RULES = {
    "saved": INNER,
    "by_base": INNER + b"\x43\x0d\x06",
    "remembered": b"\x0a" + INNER + b"\x0b\x0e\x10\x83\x03\xc3",
    "extended": b"\x02\x01\x12\x07\x7e\x05\x0c\x02\x11\x0d\x03\x06\x0c\x08\x0d\x2e\x10\x13\x7e",
    "expression": b"\x0f\x03\x77\x08\x06\x10\x06\x02\x76\x00\x16\x03\x01\x70",
    "wide": b"\x03\x01\x00\x04\x01\x00\x00\x00\x14\x03\x01\x15\x0c\x7f\x09\x0e\x03",
}
PERF_MAPS = [
    ([0x1000, 0x1010, 0x5000], b"1000 20 py::step:/home/u/train.py\n1010 8 LazyCompile:~f\n0x4fff 10 a  b \n"),
    ([0xFFFFFFFF], b"fffffffff 1 a\nffffffff 1 \xe2\x80\xaebidi\x1b[31m\n"),
    ([0x10], b"10 0 none\n10 ffffffffffffffff all\n10 fffffffffffffffe " + b"long" * 90 + b"\nzz 1 x\n10 5 cut"),
]
SYMBOLS = [b"main", b"_ZN9stalltrace6stacks6unwindERKNS0_13UserRegistersE", b"_Z1fIiEvT_", b"_ZSt4moveIRSsEONSt16remove_referenceIT_E4typeEOS2_",
           b"_ZN", b"_Z" + b"S0_" * 9, b"_ZNSt8functionIFvvEEC2I" + b"N1a" * 80, b"\xff\x1b[31m", b"_RNvCs1234_7mycrate3foo"]


def entry(content):
    content += b"\0" * (-len(content) % 4)
    return struct.pack("<I", len(content)) + content


def library(rules, augmentation):
    """Two functions: the inner one by the rules, the outer one is a thread's first."""
    tables = entry(b"\0\0\0\0\x01" + augmentation + b"\0\x01\x78\x10\x01\x1b" + COMMON)
    rows = []
    for start, code in ((INNER_AT, rules), (OUTER_AT, b"\x07\x10")):
        at = TABLES_AT + len(tables)
        tables += entry(struct.pack("<IiI", at + 4 - TABLES_AT, start - (at + 8), 0x100) + b"\0" + code)
        rows.append((start - HEADER_AT, at - HEADER_AT))
    image = bytearray(0x600)
    image[:64] = b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    image[64:120] = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, len(image), len(image), 4096)
    image[120:176] = struct.pack("<IIQQQQQQ", 0x6474E550, 4, HEADER_AT, HEADER_AT, HEADER_AT, 28, 28, 4)
    head = struct.pack("<BBBBiI", 1, 0x1B, 3, 0x3B, TABLES_AT - (HEADER_AT + 4), len(rows))
    head += b"".join(struct.pack("<ii", *row) for row in rows)
    image[HEADER_AT:HEADER_AT + len(head)] = head
    image[TABLES_AT:TABLES_AT + len(tables)] = tables
    image[INNER_AT + 0x10:INNER_AT + 0x17] = b"\x41\x5c\x48\x83\xc4\x08\xc3"  # pop r12; add $8,%rsp; ret
    image[OUTER_AT + 0x1B:OUTER_AT + 0x20] = b"\xe8\0\0\0\0"  # call
    return bytes(image)


def main():
    folder = pathlib.Path(sys.argv[1])
    outer = CODE + OUTER_AT + 0x20
    stack = struct.pack("<6Q", 0x7FF000000020, outer, outer, outer, 0, 0)
    for name, rules in RULES.items():
        for augmentation in (b"zR", b"zRS"):
            head = struct.pack(">BBHHH", 0, 0, INNER_AT + 0x10, 0, len(stack))
            (folder / f"stack_{name}_{augmentation.decode()}").write_bytes(head + stack + library(rules, augmentation))
    head = struct.pack(">BBHHH", 0, 1, INNER_AT + 0x10, 0, len(stack))
    (folder / "stack_of_made_code").write_bytes(head + stack + library(INNER, b"zR"))
    for number, (addresses, text) in enumerate(PERF_MAPS):
        (folder / f"perf_map{number}").write_bytes(struct.pack(f">BB{len(addresses)}I", 1, len(addresses), *addresses) + text)
    for number, symbol in enumerate(SYMBOLS):
        (folder / f"symbol{number}").write_bytes(b"\2" + symbol)
    code = struct.pack("<I", 4) + b"7cda" + struct.pack("<IQQ", 2, 0x1000, 0)
    names = struct.pack("<BQI", 1, 16, 4) + b"main" + b"\0"
    for name, content in (("code", code), ("names", names), ("both", code + names), ("cut", code + names[:-3])):
        (folder / f"answer_{name}").write_bytes(b"\3\2" + content)


main()
