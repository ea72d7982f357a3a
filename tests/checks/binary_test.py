# SPDX-License-Identifier: Apache-2.0
"""The program is self-contained: one file that needs no other."""

import json
import re
import subprocess

from stalltrace import BUILD, PROGRAM, ROOT, Case


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

    def test_it_is_hardened(self):
        headers = readelf("--program-headers")
        self.assertIn("GNU_RELRO", headers)
        self.assertRegex(headers, r"GNU_STACK .* RW ")
        self.assertRegex(readelf("-d"), r"BIND_NOW|NOW")
        self.assertIn("__stack_chk_fail", readelf("--symbols"))

    def test_its_own_code_has_checked_string_functions(self):
        """Static libraries of the system bring such functions, too: only our own objects say how ours was compiled."""
        rooms = [str(path) for path in sorted((BUILD / "src").glob("*/libstalltrace_*.a"))]
        undefined = subprocess.run(["nm", "--undefined-only", *rooms], check=True, capture_output=True, text=True).stdout
        self.assertRegex(undefined, r"U __(memcpy|snprintf)_chk")

    def test_the_plugin_has_the_same_version(self):
        """plugin/ can be built alone, by a CMake project of its own."""
        versions = {top: re.search(r"project\(\S+ VERSION (\S+)", (ROOT / top / "CMakeLists.txt").read_text())[1] for top in (".", "plugin")}
        self.assertEqual(versions["."], versions["plugin"])

    def test_its_parts_are_known_with_their_licences(self):
        subprocess.run([ROOT / "scripts" / "sbom.py", BUILD], check=True)
        document = json.loads((BUILD / "sbom.cdx.json").read_text())
        names = {part["name"] for part in document["components"]}
        self.assertLessEqual({"libbpf", "sqlite3", "zlib", "libzstd", "glibc", "openssl", "boost1.81"}, names)
        self.assertTrue(all(part["version"][0].isdigit() for part in document["components"]))
        self.assertIn("public domain", (BUILD / "third_party_licenses.txt").read_text().lower())
