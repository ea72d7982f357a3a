# SPDX-License-Identifier: Apache-2.0
"""The program is self-contained: one file that needs no other."""

import re
import subprocess

from stalltrace import PROGRAM, Case


def readelf(*flags):
    return subprocess.run(["readelf", *flags, "--wide", PROGRAM], capture_output=True, text=True, check=True).stdout


class Binary(Case):
    def test_needs_no_library(self):
        self.assertIn("(FLAGS_1)", readelf("-d"))
        self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d")), [])
        self.assertNotIn("INTERP", readelf("--program-headers"))

    def test_its_addresses_are_chosen_at_its_start(self):
        self.assertRegex(readelf("--file-header"), r"Type:\s+DYN")

    def test_has_no_path_of_the_build_host_in_its_search_path(self):
        self.assertNotRegex(readelf("-d"), r"\((RPATH|RUNPATH)\)")
