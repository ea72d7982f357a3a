# SPDX-License-Identifier: Apache-2.0
"""The program is self-contained: one file that needs the C library's own and nothing else."""

import re
import subprocess

from stalltrace import PROGRAM, Case

C_LIBRARY = re.compile(r"^(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9-]+)\.so\.\d+$")


OLDEST_C_LIBRARY = (2, 35)  # of machines with cards, Ubuntu 22.04's


class Binary(Case):
    def test_needs_only_the_c_library(self):
        text = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if not C_LIBRARY.match(name)], [])

    def test_runs_with_an_older_c_library(self):
        text = subprocess.run(["readelf", "--version-info", "--wide", PROGRAM], capture_output=True, text=True, check=True).stdout
        versions = {tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_([0-9.]+)", text)}
        self.assertTrue(versions)
        self.assertLessEqual(max(versions), OLDEST_C_LIBRARY)

    def test_has_no_path_of_the_build_host_in_its_search_path(self):
        text = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(text, r"\((RPATH|RUNPATH)\)")
