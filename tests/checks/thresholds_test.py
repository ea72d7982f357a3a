# SPDX-License-Identifier: Apache-2.0
"""Numbers of verdicts on pages are those of their sources in PAGES, and each threshold is on a page.

A page names a constant behind the number that it has: "longer than 10 ms (`kStallFloorNs`)", "| 10 ms | `kStallFloorNs` |",
"250 ms and 3 %, or one stall of 400 ms (`kPacketLossGate`)", "(`kSlowLinkContrast`: factor 2)"."""

import ast
import operator
import re

from stalltrace import ROOT, Case

ANALYSIS = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "src/analysis/thresholds").glob("*.h")))
PAGES = {
    "docs/findings.md": (
        *ANALYSIS,
        "src/analysis/timeline/sequence_table.h",
        "src/analysis/timeline/sequence_table.cpp",
        "src/analysis/live/live_window.h",
        "src/cli/live_watch.cpp",
    ),
    "docs/autopsy.md": (*ANALYSIS, "src/autopsy/snapshot.h", "src/autopsy/judge/thresholds.h"),
    "docs/import.md": (*ANALYSIS, "src/import/packet_capture/flows.cpp"),
    "docs/preflight.md": (
        "src/preflight/peers/judge/thresholds.h",
        "src/preflight/peers/coordinator/barrier.cpp",
        "src/preflight/peers/probes.cpp",
        "src/preflight/host/host_checks.cpp",
        "src/preflight/network/interface_checks.cpp",
    ),
    "docs/recording.md": (
        "src/store/write/stall_window.cpp",
        "src/capture/python/late_watch.h",
        "src/capture/python/stack_reader.h",
        "src/capture/decode/competitors.h",
        "src/capture/decode/collective/captured_streams.h",
    ),
    "docs/security.md": (
        "src/capture/python/late_watch.h",
        "src/capture/python/stack_reader.h",
        "src/blackbox/follow/follower.cpp",
    ),
}

UNITS = {"kNsPerUs": 1_000, "kNsPerMs": 1_000_000, "kNsPerSecond": 1_000_000_000}
SIZES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
OPERATORS = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.LShift: operator.lshift,
}
WORDS = {"half": 0.5, "twice": 2, "quarter": 0.25, "tenth": 0.1}
NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?:\s+(us|ms|s|%|million|KiB|MiB|GiB)\b|\s*(%))?|\b(half|twice|quarter|tenth)\b")


def value_of(expression, known):
    """The value of a constant's initialiser: numbers, units and other constants, combined."""

    def walk(node):
        if isinstance(node, ast.Expression):
            return walk(node.body)
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.Name):
            return known[node.id]
        return ast.literal_eval(node)

    return walk(ast.parse(re.sub(r"'|(?<=\d)U?L?L?\b", "", expression).strip(), mode="eval"))


def constants(sources):
    """Returns name to value, of numbers; a Gate becomes its three values."""
    known = dict(UNITS)
    text = "\n".join((ROOT / source).read_text() for source in sources)
    declaration = r"^ *(?:inline |static )?constexpr (?:int|u?int\w+|size_t|double|Gate) (k\w+)(?: = ([^;]+)|\{([^}]+)\});"
    declared = [match.groups() for match in re.finditer(declaration, text, re.MULTILINE)]
    while declared:  # one may be computed from another of a later file
        later = []
        for name, single, gate in declared:
            try:
                known[name] = value_of(single, known) if single else tuple(value_of(part, known) for part in gate.split(","))
            except KeyError:
                later.append((name, single, gate))
        if len(later) == len(declared):
            raise KeyError(f"unknown constants in {later}")
        declared = later
    return known


def numbers_in(text):
    """The numbers in a text, in the constants' units: ns, fractions, counts."""
    found = []
    text = re.sub(r"(\d+)\^(\d+)", lambda power: str(int(power[1]) ** int(power[2])), text)
    text = re.sub(r"(?<![\w./])(\d+)/(\d+)(?![\w./])", lambda share: repr(int(share[1]) / int(share[2])), text)
    for match in NUMBER.finditer(text):
        digits, unit, percent, word = match.groups()
        if word:
            found.append(WORDS[word])
            continue
        number = float(digits.replace(",", ""))
        scale = {"us": UNITS["kNsPerUs"], "ms": UNITS["kNsPerMs"], "s": UNITS["kNsPerSecond"], "%": 0.01, "million": 1_000_000, None: 1, **SIZES}[unit or percent]
        found.append(number * scale)
    return found


def same(number, value):
    return abs(number - value) <= 1e-9 * max(abs(number), abs(value))


class Claim:
    """A constant named on the page, with the numbers before and after it in its sentence or row."""

    def __init__(self, page, match, begin):
        self.name = match[1]
        before = page[begin : match.start()]
        self.before = numbers_in(re.split(r"\n\n|(?<=[.;])\s|\n\|", before)[-1])
        row = page[match.end() : page.index("\n", match.end())]
        self.factor = re.match(r": factor ([\d.]+)", row)
        self.after = numbers_in(row) if row.startswith(" |") else []

    def numbers(self, wanted):
        """The numbers that the page gives for a constant with `wanted` values, first to last; none if the page only
        refers to the constant.
        """
        if self.factor:
            return numbers_in(self.factor[1])
        if wanted == 3 and len(self.before) >= 3:  # "250 ms and 3 %, or one stall of 400 ms"
            total, share, single = self.before[-3:]
            return [single, total, share]
        if wanted == 3 and len(self.after) >= 3:  # in the table: one stall, sum, share
            return self.after[:3]
        return self.before[-1:]


def claims(page):
    found = []
    begin = 0
    for match in re.finditer(r"`(k[A-Z]\w+)`", page):
        found.append(Claim(page, match, begin))
        begin = match.end()
    return found


def declared_in(source):
    """The names of all constants of a file, of whatever type."""
    return set(re.findall(r"\bconstexpr\b[^;={]*?\b(k[A-Z]\w*)", source))


def unnamed(sources, pages):
    """The constants of headers of thresholds that none of `pages`, which compare them, names."""
    text = "\n".join((ROOT / source).read_text() for source in sources)
    return sorted(declared_in(text) - {claim.name for page in pages for claim in claims(page)})


class Thresholds(Case):
    def test_each_threshold_is_on_a_page(self):
        headers = sorted({source for sources in PAGES.values() for source in sources if "thresholds" in source})
        self.assertGreater(len(headers), len(ANALYSIS))
        for header in headers:
            pages = [(ROOT / name).read_text() for name, sources in PAGES.items() if header in sources]
            self.assertEqual(unnamed([header], pages), [], f"{header}: name them with their numbers on one of its pages")
            self.assertEqual(declared_in((ROOT / header).read_text()) - set(constants(PAGES[self.page_of(header)])), set())

    @staticmethod
    def page_of(header):
        return next(name for name, sources in PAGES.items() if header in sources)

    def test_a_threshold_that_no_page_names_is_found(self):
        header, page = "src/analysis/thresholds/stalls.h", "longer than 10 ms (`kStallFloorNs`)\n"
        self.assertIn("kHangNs", unnamed([header], [page]))
        self.assertNotIn("kStallFloorNs", unnamed([header], [page]))
        of_any_type = "inline constexpr Gate kGate{1, 2, 3};\nconstexpr std::array<int, 2> kAny = {kOther};"
        self.assertEqual(declared_in(of_any_type), {"kGate", "kAny"})

    def test_the_pages_give_the_numbers_of_the_constants(self):
        for name, sources in PAGES.items():
            known = constants(sources)
            found = claims((ROOT / name).read_text())
            compared = set()
            for claim in found:
                self.assertIn(claim.name, known, f"{name} names a constant that its sources lack")
                value = known[claim.name]
                values = value if isinstance(value, tuple) else (value,)
                numbers = claim.numbers(len(values))
                if numbers:
                    compared.add(claim.name)
                    self.assertTrue(
                        all(same(*pair) for pair in zip(numbers, values)),
                        f"{name} gives {numbers} for {claim.name}, its source {values}",
                    )
            self.assertEqual({claim.name for claim in found} - compared, set(), f"constants without their numbers in {name}")

    def test_a_wrong_number_is_found(self):
        known = constants(PAGES["docs/findings.md"])
        self.assertEqual(known["kStallFloorNs"], 10_000_000)
        self.assertEqual(constants(["src/preflight/host/host_checks.cpp"])["kSharedMemory"], 2**30)
        self.assertEqual(constants(["src/capture/python/late_watch.h"])["kLateNs"], 150_000_000)
        self.assertEqual(known["kHangGate"], (known["kHangNs"], known["kHangNs"], 0))
        self.assertEqual(numbers_in("at least 20 % of 1,000 in 2.5 s, half"), [0.2, 1000, 2.5e9, 0.5])
        self.assertEqual(numbers_in("1/3 of them, 4 times"), [1 / 3, 4])
        self.assertEqual(numbers_in("2^40 of 65,536"), [known["kMaxSeq"], known["kMaxGap"]])
        self.assertFalse(same(numbers_in("11 ms")[0], known["kStallFloorNs"]))
