# SPDX-License-Identifier: Apache-2.0
"""Packed fuzz corpora unpack to the same entries, and a replay names the entry that fails."""

import gzip
import pathlib
import re
import subprocess
import sys

from stalltrace import BUILD, ROOT, Case

CORPUS = ROOT / "scripts" / "fuzz" / "corpus.py"
REPLAY = BUILD / "tests" / "fuzz" / "replay_refusing"


def corpus(action, *paths):
    return subprocess.run([sys.executable, CORPUS, action, *paths], capture_output=True, text=True, check=False)


def replay(pack):
    return subprocess.run([REPLAY, pack], capture_output=True, text=True, timeout=60, check=False)


class FuzzCorpus(Case):
    def setUp(self):
        super().setUp()
        self.packed = self.folder / "test.pack"

    def make(self, *entries):
        """Packs the entries; returns each one's number in the pack."""
        source, back = self.folder / "source", self.folder / "back"
        source.mkdir()
        for number, entry in enumerate(entries):
            (source / f"any name {number}").write_bytes(entry)
        self.assertEqual(corpus("pack", source, self.packed).returncode, 0)
        self.assertEqual(corpus("unpack", self.packed, back).returncode, 0)
        numbers = {file.read_bytes(): int(file.name) for file in back.iterdir()}
        return [numbers[entry] for entry in entries]

    def test_entries_come_back_once_each_and_make_the_same_pack(self):
        numbers = self.make(b"", b"one", b"\0" * 70000, b"one")
        self.assertEqual(sorted(set(numbers)), [0, 1, 2])
        again = self.folder / "again.pack"
        self.assertEqual(corpus("pack", self.folder / "back", again).returncode, 0)
        self.assertEqual(again.read_bytes(), self.packed.read_bytes())

    def test_a_replay_runs_all_entries_and_names_those_that_fail(self):
        aborts, exits, _ = self.make(b"abort", b"exit", b"fine")
        result = replay(self.packed)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, rf"(?m)^entry {aborts} \(5 bytes\): signal 6 ")
        self.assertRegex(result.stderr, rf"(?m)^entry {exits} \(4 bytes\): exit code 3$")
        self.assertEqual(result.stdout, "3 entries, 2 failed\n")

    def test_a_replay_without_a_fault_passes(self):
        self.make(b"fine", b"too")
        self.assertEqual((replay(self.packed).returncode, replay(self.packed).stdout), (0, "2 entries, 0 failed\n"))

    def test_what_is_no_pack_fails(self):
        self.make(b"fine", b"x" * 5000)
        whole = gzip.decompress(self.packed.read_bytes())
        for name, content in (("empty", gzip.compress(b"")), ("half", gzip.compress(whole[:-1])), ("odd", gzip.compress(whole + b"\1")),
                              ("cut", self.packed.read_bytes()[:-20]), ("plain", whole), ("huge", gzip.compress(b"\xff" * 5000))):
            with self.subTest(name):
                path = self.folder / name
                path.write_bytes(content)
                self.assertEqual(replay(path).returncode, 1)
                if name != "empty":
                    self.assertEqual(corpus("unpack", path, self.folder / f"{name}.out").returncode, 1)
        self.assertEqual(replay(self.folder / "nowhere").returncode, 1)

    def test_the_kept_corpora_are_not_small(self):
        for target in ("profiler_file", "agent", "stacks"):
            kept = corpus("unpack", ROOT / "tests" / "fuzz" / "corpus" / f"{target}.pack", self.folder / target)
            self.assertEqual(kept.returncode, 0, kept.stderr)
            self.assertGreater(len(list((self.folder / target).iterdir())), 100)

    def test_all_sources_that_the_script_names_exist(self):
        words = [word for word in re.findall(r"(?:src|tests)/[\w/{},.*-]+", (ROOT / "scripts" / "fuzz.sh").read_text()) if "$" not in word and "TARGET" not in word]
        self.assertGreater(len(words), 10)
        for word in words:
            with self.subTest(word):
                listed = subprocess.run(["bash", "-c", f"ls -d {word}"], cwd=ROOT, capture_output=True, text=True, check=False)
                self.assertEqual(listed.returncode, 0, listed.stderr)

    def test_a_target_has_the_units_that_it_needs(self):
        """What it includes, and what that includes in turn; files of a folder whose files stand alone are asked for by name."""
        script = [sys.executable, ROOT / "scripts" / "fuzz" / "units.py", self.folder / "units"]
        rooms = ["src/base", "src/model", "src/analysis", "src/stacks", "src/fleet", "src/serve"]

        def units(target):
            given = [*script, *rooms, "--without", "src/fleet/client.cpp", "--of", f"tests/fuzz/{target}_target.cpp"]
            result = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=True)
            return {pathlib.Path(line).stem for line in result.stdout.split()}

        self.assertEqual({name for name in units("stacks") if name.startswith("src_analysis")}, set())
        self.assertLessEqual({"src_base", "src_base_process", "src_stacks_python"}, units("stacks"))
        self.assertLessEqual({"src_fleet_node_list", "src_serve_http"}, units("words"))
        self.assertNotIn("src_fleet_client", units("words"))

    def test_its_compiler_takes_the_ranges_that_its_sources_use(self):
        """clang 14 refuses GCC 12's views, and what returns a std::ranges::subrange."""
        refused = re.compile(r"views::\w|std::ranges::(stable_partition|partition|unique|remove|remove_if|rotate|search|find_end|equal_range|subrange)\b")
        rooms = re.search(r"rooms=\(([^)]*)\)", (ROOT / "scripts" / "fuzz.sh").read_text())[1].split()
        sources = [path for room in rooms for path in (ROOT / room).rglob("*.[ch]*") if not path.name.endswith("_test.cpp")]
        self.assertGreater(len(sources), 400)
        found = [f"{path.relative_to(ROOT)}: {match[0]}" for path in sources for match in refused.finditer(path.read_text())]
        self.assertEqual(found, [])
