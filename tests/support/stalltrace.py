# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests: paths, running the program, and the form of an error line."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STALLTRACE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "stalltrace"

SENTENCES = pathlib.Path(__file__).parent / "sentences.txt"

DONE, FAILED, USAGE, FINDINGS = 0, 1, 2, 3


def run(*words, timeout=60, program=PROGRAM, prefix=(), environment=None, stdout=subprocess.PIPE):
    """Runs the program; the result has returncode, stdout, stderr as text."""
    return subprocess.run(
        [*prefix, str(program), *map(str, words)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
        text=True, timeout=timeout, check=False, env={**os.environ, **(environment or {})})


def sentences():
    """What programs are expected to say (sentences.txt): name -> regular expression."""
    lines = [line for line in SENTENCES.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def sentence(name, **values):
    """The regular expression of a sentence, with `values` in it."""
    pattern = sentences()[name]
    for key, value in values.items():
        pattern = pattern.replace("{" + key + "}", re.escape(str(value)))
    return pattern


class Case(unittest.TestCase):
    """A test with a folder of its own, removed afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stalltrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Tests also run the program as another user, who must be able to reach the folder.
        self.folder.chmod(0o755)

    def need_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")

    def need_program(self, name):
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not installed")

    def need_namespaces(self, *command):
        """`command` makes namespaces; mounts in them are allowed too. Containers and AppArmor may refuse either."""
        tried = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"no mounts of its own here: {tried.stderr.strip()}")

    def refused(self, result, code, *parts, **values):
        """It ended with `code` and one line on stderr, and nothing on stdout. Each of `parts` is in that line: the name of a
        sentence of sentences.txt, with `values` in it, or a word, path or value. A check refuses sentences of a test's own."""
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout or "", "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("stalltrace: "), lines[0])
        known = sentences()
        for part in parts:
            self.assertRegex(lines[0], sentence(part, **values) if part in known else re.escape(part))

    def assert_says(self, name, text, because=None, **values):
        """`text` has the sentence `name` of sentences.txt."""
        self.assertRegex(text, sentence(name, **values), because)

    def assert_not_says(self, name, text, because=None, **values):
        self.assertNotRegex(text, sentence(name, **values), because)

    def done(self, result):
        self.assertEqual(result.returncode, DONE, f"{result.stdout}\n{result.stderr}")
        return result.stdout
