# SPDX-License-Identifier: Apache-2.0
"""A copy of the program with file capabilities, run by the user nobody: neither that user's environment nor options may choose
files that it opens with rights that the user lacks (docs/security.md, H14).
"""

import os
import shutil
import struct

from stalltrace import DONE, PROGRAM, USAGE, Case, run
from unprivileged import AS_NOBODY

# linux/capability.h: VFS_CAP_REVISION_2 with the effective bit, and struct vfs_cap_data.
REVISION_2 = 0x02000000 | 1
CAP_SYS_PTRACE = 1 << 19


class SecureMode(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.program = self.folder / "stalltrace-with-capabilities"
        shutil.copy(PROGRAM, self.program)
        self.program.chmod(0o755)

    def give_capabilities(self):
        # What setcap cap_sys_ptrace=ep does, which not every host has.
        os.setxattr(self.program, "security.capability", struct.pack("<5I", REVISION_2, CAP_SYS_PTRACE, 0, 0, 0))

    def as_nobody(self, *words, **environment):
        return run(*words, program=self.program, prefix=AS_NOBODY, environment=environment)

    def test_options_that_choose_files_are_refused(self):
        for words in (("--library", "/etc/shadow"), ("--config", "/etc/shadow"), ("--trust-owner", "any"),
                      ("--sysfs-root", "/root")):
            before = self.as_nobody("trace", *words, "--out", self.folder / "x.db")
            self.assert_not_says("option_refused_in_secure_mode", before.stderr, option=words[0])
        self.give_capabilities()
        for words in (("--library", "/etc/shadow"), ("--config", "/etc/shadow"), ("--trust-owner", "any"),
                      ("--sysfs-root", "/root")):
            result = self.as_nobody("trace", *words, "--out", self.folder / "x.db")
            self.assertEqual(result.returncode, USAGE, result.stderr)
            self.assert_says("option_refused_in_secure_mode", result.stderr, option=words[0])

    def test_variables_that_choose_files_are_ignored_with_one_line(self):
        btf = str(self.folder / "no-such-btf")
        self.assertNotIn("ignored:", self.as_nobody("--version", STALLTRACE_BTF=btf).stderr)
        self.assertIn(btf, str(self.as_nobody("check", STALLTRACE_BTF=btf)))
        self.give_capabilities()
        result = self.as_nobody("--version", STALLTRACE_BTF=btf, TMPDIR="/root")
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertIn("ignored: STALLTRACE_BTF", result.stderr)  # the C library has removed TMPDIR by then
        self.assertEqual(result.stderr.count("ignored:"), 1)
        self.assertNotIn(btf, str(self.as_nobody("check", STALLTRACE_BTF=btf)))
