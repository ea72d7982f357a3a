# SPDX-License-Identifier: Apache-2.0
"""The numbers of docs/findings.md are those of src/analysis/thresholds.h.

The page names a constant behind the number that it holds: "longer than 10 ms (`kStallFloorNs`)", "| 10 ms | `kStallFloorNs` |",
"250 ms and 3 %, or one stall of 400 ms (`kPacketLossGate`)", "(`kSlowLinkContrast`: factor 2)"."""

import ast
import operator
import re

from stalltrace import ROOT, Case

PAGE = (ROOT / "docs" / "findings.md").read_text()
HEADER = (ROOT / "src" / "analysis" / "thresholds.h").read_text()

UNITS = {"kNsPerUs": 1_000, "kNsPerMs": 1_000_000, "kNsPerSecond": 1_000_000_000}
OPERATORS = {ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Add: operator.add, ast.Sub: operator.sub}
WORDS = {"half": 0.5, "twice": 2, "third": 1 / 3}
NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?:\s+(ms|s|%|million)\b|\s*(%))?|\b(half|twice)\b")


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

    return walk(ast.parse(expression.replace("'", "").strip(), mode="eval"))


def constants(header):
    """Returns name to value; a Gate becomes its three values."""
    known = dict(UNITS)
    for match in re.finditer(r"^inline constexpr \w+ (k\w+)(?: = ([^;]+)|\{([^}]+)\});", header, re.MULTILINE):
        name, single, gate = match.groups()
        known[name] = value_of(single, known) if single else tuple(value_of(part, known) for part in gate.split(","))
    return known


def numbers_in(text):
    """The numbers in a text, in the constants' units: ns, fractions, counts."""
    found = []
    for match in NUMBER.finditer(text):
        digits, unit, percent, word = match.groups()
        if word:
            found.append(WORDS[word])
            continue
        number = float(digits.replace(",", ""))
        scale = {"ms": UNITS["kNsPerMs"], "s": UNITS["kNsPerSecond"], "%": 0.01, None: 1}[unit or percent]
        found.append(number * scale)
    return found


def same(number, value):
    return abs(number - value) <= 1e-9 * max(abs(number), abs(value))


class Claim:
    """A constant named on the page, with the numbers before and after it in its sentence or row."""

    def __init__(self, match, begin):
        self.name = match[1]
        before = PAGE[begin : match.start()]
        self.before = numbers_in(re.split(r"\n\n|(?<=[.;])\s|\n\|", before)[-1])
        row = PAGE[match.end() : PAGE.index("\n", match.end())]
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


def claims():
    found = []
    begin = 0
    for match in re.finditer(r"`(k[A-Z]\w+)`", PAGE):
        found.append(Claim(match, begin))
        begin = match.end()
    return found


class Thresholds(Case):
    def test_the_page_gives_the_numbers_of_the_constants(self):
        known = constants(HEADER)
        compared = set()
        for claim in claims():
            self.assertIn(claim.name, known, "docs/findings.md names a constant that thresholds.h lacks")
            value = known[claim.name]
            values = value if isinstance(value, tuple) else (value,)
            numbers = claim.numbers(len(values))
            if numbers:
                compared.add(claim.name)
                self.assertTrue(
                    all(same(*pair) for pair in zip(numbers, values)),
                    f"docs/findings.md gives {numbers} for {claim.name}, thresholds.h {values}",
                )
        self.assertEqual({claim.name for claim in claims()} - compared, set(), "constants without their numbers")

    def test_a_wrong_number_is_found(self):
        known = constants(HEADER)
        self.assertEqual(known["kStallFloorNs"], 10_000_000)
        self.assertEqual(known["kHangGate"], (known["kHangNs"], known["kHangNs"], 0))
        self.assertEqual(numbers_in("at least 20 % of 1,000 in 2.5 s, half"), [0.2, 1000, 2.5e9, 0.5])
        self.assertFalse(same(numbers_in("11 ms")[0], known["kStallFloorNs"]))
