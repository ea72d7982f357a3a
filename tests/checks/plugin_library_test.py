# SPDX-License-Identifier: Apache-2.0
"""The profiler plugin loads into jobs on old systems, and the program that makes collectives starts there: RHEL 8 has glibc 2.28 and
GCC 8's C++ library."""

import re
import subprocess

from stalltrace import BUILD, Case

PLUGIN = BUILD / "libnccl-profiler-stalltrace.so"
COLLECTIVES = BUILD / "plugin/st-collectives"
FILES = (PLUGIN, COLLECTIVES)
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}


def too_new(version):
    """True for a version that RHEL 8 does not have, and for each of unknown kind, such as GLIBC_ABI_DT_RELR."""
    kind, _, number = version.rpartition("_")
    return kind not in NEWEST or re.fullmatch(r"[0-9.]+", number) is None or tuple(map(int, number.split("."))) > NEWEST[kind]


def readelf(file, *flags):
    return subprocess.run(["readelf", "--wide", *flags, file], capture_output=True, text=True, check=True).stdout


class PluginLibrary(Case):
    def test_needs_no_symbol_version_that_rhel_8_lacks(self):
        for file in FILES:
            undefined = re.findall(r"\sUND (\S+)@(\S+)", readelf(file, "--dyn-syms"))
            self.assertIn("dlopen", [name for name, _ in undefined], file)
            self.assertEqual([f"{name}@{version}" for name, version in undefined if too_new(version)], [], file)
            needed = re.findall(r"Name: (\S+)", readelf(file, "--version-info").partition(".gnu.version_r")[2])
            self.assertLessEqual({version for _, version in undefined}, set(needed), file)
            self.assertEqual([version for version in needed if too_new(version)], [], file)

    def test_needs_the_c_library_alone(self):
        """All of these are parts of glibc: libpthread and libdl have the functions of threads and dlopen before 2.34, and on
        arm64 the dynamic linker has the stack protector's value.
        """
        for file in FILES:
            libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(file, "--dynamic"))
            self.assertEqual(sorted(set(libraries) - {"ld-linux-aarch64.so.1"}), ["libc.so.6", "libdl.so.2", "libpthread.so.0"], file)

    def test_versions_are_compared_as_numbers(self):
        for version in ("GLIBC_2.2.5", "GLIBC_2.28", "GLIBCXX_3.4.25", "CXXABI_1.3.11"):
            self.assertFalse(too_new(version), version)
        for version in ("GLIBC_2.29", "GLIBC_2.100", "GLIBC_3", "GLIBCXX_3.4.26", "CXXABI_1.3.12", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR",
                        "GCC_7.0.0"):
            self.assertTrue(too_new(version), version)
