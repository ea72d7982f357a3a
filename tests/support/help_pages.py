# SPDX-License-Identifier: Apache-2.0
"""Reads the verbs and flags that --help prints."""

import re

from stalltrace import run


def verbs():
    """All verbs of `stalltrace --help`, including "lab run"."""
    page = run("--help").stdout
    block = page.split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"\s{2,}", line.strip())[0] for line in block.splitlines() if re.match(r"  \S", line)]


def flags(verb):
    """The flags on the verb's page."""
    page = run(*verb.split(), "--help").stdout
    block = page.split("Flags:\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  (--[a-z-]+)", block, re.MULTILINE)
