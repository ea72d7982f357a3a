# SPDX-License-Identifier: Apache-2.0
"""The program is self-contained: one file that needs no other."""

import json
import mmap
import re
import subprocess

from stalltrace import BUILD, PROGRAM, ROOT, Case


def readelf(*flags):
    return subprocess.run(["readelf", *flags, "--wide", PROGRAM], capture_output=True, text=True, check=True).stdout


def undefined_in(archive):
    return subprocess.run(["nm", "--undefined-only", archive], check=True, capture_output=True, text=True).stdout


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

    def test_its_own_code_is_hardened(self):
        """Static libraries of the system bring such functions, too: only our own objects say how ours was compiled."""
        everywhere = {"the stack protector": r"U __stack_chk_fail\n"}
        somewhere = {"checked string functions": r"U __(memcpy|snprintf)_chk\n", "assertions of libstdc++": r"U _ZSt\d+__glibcxx_assert_fail"}
        used = {room.parent.name: undefined_in(room) for room in sorted((BUILD / "src").glob("*/libstalltrace_*.a"))
                if room.name != "libstalltrace_test_support.a"}
        self.assertGreater(len(used), 10)
        for what, pattern in everywhere.items():
            self.assertEqual([room for room, symbols in used.items() if not re.search(pattern, symbols)], [], f"without {what}")
        for what, pattern in somewhere.items():
            self.assertRegex("".join(used.values()), pattern, f"without {what}")

    def test_it_does_not_name_the_folder_of_its_sources(self):
        """The path of the sources would be in messages and debug information, and would differ on the next host."""
        with open(PROGRAM, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = content.find(f"{ROOT}/".encode())
            self.assertEqual(found, -1, content[max(found - 80, 0):found + 160])

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
