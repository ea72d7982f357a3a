# SPDX-License-Identifier: Apache-2.0
"""Reads the subcommands and flags that --help prints."""

import re

from stalltrace import run


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
