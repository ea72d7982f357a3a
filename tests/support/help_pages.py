# SPDX-License-Identifier: Apache-2.0
"""Reads the subcommands and flags that --help prints, and the commands on pages of docs/."""

import re

from stalltrace import ROOT, run


def subcommands():
    """All subcommands of `stalltrace --help`, including "lab run"."""
    page = run("--help").stdout
    block = page.split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"\s{2,}", line.strip())[0] for line in block.splitlines() if re.match(r"  \S", line)]


def flags(subcommand):
    """The flags on the subcommand's page."""
    page = run(*subcommand.split(), "--help").stdout
    block = page.split("Flags:\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  (--[a-z-]+)", block, re.MULTILINE)


def commands_of(page):
    """The program's commands that the page shows, in backticks or on an indented line, each once and in the page's order."""
    text = (ROOT / "docs" / page).read_text()
    found = re.finditer(r"`([^`\n]*\bstalltrace [a-z][^`\n]*)`|^    (.*\bstalltrace [a-z].*)$", text, re.MULTILINE)
    return list(dict.fromkeys(match[1] or match[2] for match in found))
