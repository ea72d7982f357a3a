# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md lists every subcommand and flag of the program, and no others; README's table every subcommand."""

import functools
import json
import re

import help_pages
from stalltrace import ROOT, Case, run

PAGE = (ROOT / "docs" / "cli.md").read_text()


@functools.cache
def flags_of(subcommand):
    return help_pages.flags(subcommand)


def section_of(subcommand):
    """The text under the heading "## `subcommand`"; None if there is none."""
    match = re.search(rf"^## `{re.escape(subcommand)}`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return match and match[1]


class Documents(Case):
    def test_every_subcommand_and_flag_is_documented(self):
        subcommands = help_pages.subcommands()
        self.assertIn("version", subcommands)
        for subcommand in subcommands:
            section = section_of(subcommand)
            self.assertIsNotNone(section, f"docs/cli.md has no section for {subcommand}")
            for flag in help_pages.flags(subcommand):
                if flag != "--help":
                    self.assertIn(f"`{flag}", section, f"docs/cli.md: {subcommand} lacks {flag}")

    def test_nothing_is_documented_that_does_not_exist(self):
        for subcommand in re.findall(r"^## `([a-z ]+)`$", PAGE, re.MULTILINE):
            self.assertIn(subcommand, help_pages.subcommands())
            for flag in re.findall(r"^\| `(--[a-z-]+)", section_of(subcommand), re.MULTILINE):
                self.assertIn(flag, help_pages.flags(subcommand), f"docs/cli.md: {subcommand}")

    def test_the_readme_lists_every_subcommand_and_no_other(self):
        table = re.search(r"^\| subcommand \|.*?\n\n", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
        listed = [name for cell in re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE) for name in re.findall(r"`([a-z]+)`", cell)]
        self.assertCountEqual(listed, {subcommand.split()[0] for subcommand in help_pages.subcommands()} - {"help", "version"})

    def test_terms_are_those_of_the_code(self):
        """Both tables have the same words for the same thing; that of the documents has fewer rows, and shorter ones."""
        tables = []
        for page in (ROOT / "docs" / "README.md", ROOT / "src" / "README.md"):
            section = re.search(r"^## Terms$(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)[1]
            rows = [(term, meaning) for term, meaning in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE) if term != "term"]
            tables.append({word: meaning for term, meaning in rows for word in term.split(", ")})
        users, code = tables
        self.assertGreater(len(users), 15)
        self.assertEqual(sorted(set(users) - set(code)), [])
        differing = {word for word in users if users[word] != code[word]}
        self.assertEqual(differing, {"location", "profiler file", "verdict"})  # what only the code knows is left out

    def test_prose_is_wrapped(self):
        """Lines of more than 140 columns are tables or samples, in all pages but the evidence."""
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "src" / "README.md", ROOT / "plugin" / "README.md"]
        self.assertGreater(len(pages), 25)
        for page in pages:
            for number, line in enumerate(page.read_text().splitlines(), 1):
                if not line.startswith(("|", "    ")):
                    self.assertLessEqual(len(line), 140, f"{page.relative_to(ROOT)}:{number}")

    def test_the_map_of_the_code_has_every_folder(self):
        """The section on rooms in src/README.md names each folder with code, as `NAME/` or by its path."""
        rooms = re.search(r"^## Rooms$(.*?)(?=^## )", (ROOT / "src" / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
        folders = {path.parent for top in ("src", "bpf", "plugin", "lab") for path in (ROOT / top).rglob("*.[hc]*")}
        unnamed = {"testing", "testdata", "tests", "include"}
        missing = []
        for parts in sorted(folder.relative_to(ROOT).parts for folder in folders):
            known = len(parts) < 2 or unnamed & set(parts) or re.search(rf"\b{parts[-1]}/|\b{'/'.join(parts)}\b", rooms)
            missing += [] if known else ["/".join(parts)]
        self.assertEqual(missing, [])

    def test_the_keys_of_the_labs_results_are_documented(self):
        """docs/lab.md names the keys of draws.jsonl and matrix.json, and no others."""
        section = re.search(r"^### The matrix.*?$(.*?)(?=^### )", (ROOT / "docs" / "lab.md").read_text(), re.MULTILINE | re.DOTALL)[1]
        lines, sums = section[section.index("| key | meaning |") :].split("`matrix.json`")
        campaign = ROOT / "lab" / "cluster" / "campaign"

        def written_by(file):
            return set(re.findall(r'\{"([a-z_0-9]+)", ', (campaign / file).read_text()))

        def named_in(text):
            return set(re.findall(r"`([a-z_0-9]+)(?:\[\])?`", text))

        verdicts = {"right", "abstained", "wrong", "costless", "job_failed"}
        self.assertEqual(named_in(lines) - verdicts, written_by("result.cpp"))
        self.assertEqual(named_in(sums), written_by("table.cpp"))

    def test_the_pages_that_the_readme_names_exist(self):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
            self.assertTrue((ROOT / link).exists(), link)

    def test_the_commands_of_the_pages_exist(self):
        subcommands = set(help_pages.subcommands())
        found = 0
        for page in ["runbook.md", "preflight.md", "hung_job.md"]:
            for command in help_pages.commands_of(page):
                words = re.sub(r'"[^"]*"|\'[^\']*\'', "X", command.split("stalltrace ", 1)[1]).split("#")[0].split()
                subcommand = " ".join(words[:2]) if words[0] == "lab" else words[0]
                self.assertIn(subcommand, subcommands, f"{page}: {command}")
                for flag in re.findall(r"--[a-z-]+", " ".join(words)):
                    self.assertIn(flag, flags_of(subcommand) + ["--help"], f"{page}: {command}")
                found += 1
        self.assertGreater(found, 25)

    def test_the_variables_of_the_runbook_are_as_the_check_knows_them(self):
        text = (ROOT / "docs" / "runbook.md").read_text()
        variables = dict(re.findall(r"`((?:TORCH_)?NCCL_[A-Z_]+)=([^`]+)`", text))
        self.assertGreater(len(variables), 8)
        checks = json.loads(run("preflight", "--json", environment=variables).stdout)["checks"]
        self.assertEqual([check for check in checks if check["check"] == "nccl_setting" and check["outcome"] == "failed"], [])
