# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md lists every kind of evidence, and its figures are those of the stored run of
scripts/kernel_matrix.sh, as is the row of docs/performance.md on instructions of the verifier.
"""

import json
import re
import subprocess
import sys

from stalltrace import ROOT, Case, run

PAGE = (ROOT / "docs" / "kernels.md").read_text()
# Its table of features: "| `key`, `key` | what | 5.14 | ..."
FROM_LINUX = {
    key: row[2]
    for row in re.findall(r"^\| (`[^|]+`) \|([^|]+)\| ([\d.]+) \|", PAGE, re.MULTILINE)
    for key in re.findall(r"`(\w+)`", row[0])
}
KEPT = sorted((ROOT / "docs" / "evidence").glob("kernel-matrix*.json"))
INSTRUCTIONS_LIMIT = 150_000  # per program, on every kernel, above the budget of docs/performance.md; kernels refuse more than 1,000,000


# The row of docs/performance.md on them: the largest program, the budget, its instructions by kernel, and where it is missed.
LARGEST = re.compile(r"^\| instructions of the verifier, the largest program \(`(\w+)`\), on amd64 \| ([\d,]+) \| (.*?) \(\[.*\| (.*) \|$", re.MULTILINE)


class Kernels(Case):
    def test_every_feature_is_documented_with_its_first_kernel(self):
        lines = json.loads(run("check", "--json").stdout)["lines"]
        self.assertIn("kernel", [line["key"] for line in lines])
        # Without the privilege to trace, `check` has no lines for kinds of evidence.
        source = (ROOT / "src" / "model" / "evidence_kind.cpp").read_text()
        kinds = re.findall(r'EvidenceKindInfo\{\w+,\s+"(\w+)",\s+"[^"]+",\s+(?:"([\d.]+)"|kOldestTraced)\}', source)
        self.assertGreater(len(kinds), 15)
        since = {key: version or "5.10" for key, version in kinds}
        since |= {line["key"]: line["since"] for line in lines if line["since"]}
        self.assertEqual(FROM_LINUX.keys(), since.keys() | {"probes", "storage", "confinement"})
        for key, version in since.items():
            self.assertEqual(FROM_LINUX[key], version, key)

    def test_the_tables_are_those_of_the_kept_runs(self):
        self.assertTrue(KEPT)
        for path in KEPT:
            made = subprocess.run([sys.executable, ROOT / "scripts" / "kernel_matrix" / "table.py", path],
                                  capture_output=True, text=True, check=True).stdout
            self.assertIn(made.strip(), PAGE, path.name)

    def test_no_program_takes_the_verifier_beyond_its_limit(self):
        for path in KEPT:
            for kernel in json.loads(path.read_text())["kernels"]:
                programs = [step["data"]["programs"] for step in kernel["steps"] if step["step"] == "programs"]
                self.assertEqual(len(programs), 1)
                self.assertGreater(len(programs[0]), 10)
                for program in programs[0]:
                    self.assertEqual(program["state"], "ok", program)
                    self.assertLess(program["instructions"], INSTRUCTIONS_LIMIT,
                                    f"{program['program']} on {kernel['kernel']}")

    def test_the_page_on_costs_has_the_largest_program_of_each_kernel(self):
        name, budget, measured, verdict = LARGEST.search((ROOT / "docs" / "performance.md").read_text()).groups()
        budget = int(budget.replace(",", ""))
        largest = {}  # Linux version -> (instructions, program)
        for kernel in json.loads((ROOT / "docs" / "evidence" / "kernel-matrix.json").read_text())["kernels"]:
            programs = next(step["data"]["programs"] for step in kernel["steps"] if step["step"] == "programs")
            version = re.match(r"\d+\.\d+", kernel["release"])[0]
            largest[version] = max((program["instructions"], program["program"]) for program in programs)
        self.assertEqual({program for _, program in largest.values()}, {name})
        self.assertEqual({version: instructions for instructions, version in re.findall(r"([\d,]+) on (?:Linux )?([\d.]+)", measured)},
                         {version: f"{instructions:,}" for version, (instructions, _) in largest.items()})
        missed = [version for version, (instructions, _) in largest.items() if instructions > budget]
        self.assertEqual(re.findall(r"\d+\.\d+", verdict), missed)
        self.assertEqual("**missed**" in verdict, bool(missed))
