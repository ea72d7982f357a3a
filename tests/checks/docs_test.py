# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md lists every verb and flag of the program, and no others."""

import re

import help_pages
from stalltrace import ROOT, Case

PAGE = (ROOT / "docs" / "cli.md").read_text()


def section_of(verb):
    """The text under the heading "## `verb`"; None if there is none."""
    match = re.search(rf"^## `{re.escape(verb)}`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return match and match[1]


class Documents(Case):
    def test_every_verb_and_flag_is_documented(self):
        verbs = help_pages.verbs()
        self.assertIn("version", verbs)
        for verb in verbs:
            section = section_of(verb)
            self.assertIsNotNone(section, f"docs/cli.md has no section for {verb}")
            for flag in help_pages.flags(verb):
                if flag != "--help":
                    self.assertIn(f"`{flag}", section, f"docs/cli.md: {verb} lacks {flag}")

    def test_nothing_is_documented_that_does_not_exist(self):
        for verb in re.findall(r"^## `([a-z ]+)`$", PAGE, re.MULTILINE):
            self.assertIn(verb, help_pages.verbs())
            for flag in re.findall(r"^\| `(--[a-z-]+)", section_of(verb), re.MULTILINE):
                self.assertIn(flag, help_pages.flags(verb), f"docs/cli.md: {verb}")

    def test_the_pages_that_the_readme_names_exist(self):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
            self.assertTrue((ROOT / link).exists(), link)
