# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/ pass, and each of them can fail."""

import os
import pathlib
import re
import subprocess
import sys

from stalltrace import ROOT, Case

sys.path += [str(ROOT / "scripts"), str(ROOT / "tests")]

import file_index  # noqa: E402
import run_suite  # noqa: E402
import soak  # noqa: E402

INCLUDES = ROOT / "scripts" / "check_includes.py"


def check_includes(root):
    return subprocess.run([sys.executable, INCLUDES, root], capture_output=True, text=True, check=False)


class FileIndex(Case):
    def test_the_page_has_every_file(self):
        result = subprocess.run([sys.executable, ROOT / "scripts" / "file_index.py", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_entries_are_first_sentences(self):
        file = pathlib.Path(self.folder / "a.h")
        for text, comment in [("// SPDX-License-Identifier: X\n// One. Two\n// lines.\n\nint a;\n", "One. Two lines."),
                              ("/* SPDX-License-Identifier: X */\n/*\n * One, in\n * C.\n */\n", "One, in C."),
                              ("int a;\n/// Of a function.\nint b();\n", "Of a function."), ("int a;\n", "")]:
            file.write_text(text)
            self.assertEqual(file_index.comment_of(file), comment)
        script = pathlib.Path(self.folder / "a.py")
        for text, comment in [('#!/usr/bin/env python3\n# SPDX\n"""One.\n\nTwo."""\n', "One. Two."),
                              ('# SPDX\nimport os\n\n\ndef f():\n    """Not of the file."""\n', "")]:
            script.write_text(text)
            self.assertEqual(file_index.comment_of(script), comment)


class Includes(Case):
    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_this_tree_is_layered(self):
        result = check_includes(ROOT)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_each_kind_of_violation_is_found(self):
        for path, include, reason in [
                ("src/base/a.h", '"model/events.h"', "base/ must not include model/"),
                ("src/model/a.h", '"store/write/writer.h"', "model/ must not include store/"),
                ("src/store/a.cpp", '"analysis/explain.h"', "store/ must not include analysis/"),
                ("src/analysis/a_test.cpp", '"report/report_text.h"', "analysis/ must not include report/"),
                ("src/analysis/timeline/a.h", '"analysis/stalls/stall.h"', "analysis/timeline must not include analysis/stalls"),
                ("src/analysis/evidence/a.cpp", '"analysis/causes/cause.h"', "analysis/evidence must not include analysis/causes"),
                ("src/analysis/causes/network/a.cpp", '"analysis/findings/inspect.h"',
                 "analysis/causes must not include analysis/findings"),
                ("src/analysis/findings/a.h", '"analysis/explain.h"', "analysis/findings must not include analysis/explain"),
                ("src/analysis/intervals.h", '"analysis/timeline/clock.h"', "analysis/base must not include analysis/timeline"),
                ("src/analysis/deeper/a.h", '"analysis/intervals.h"', "'deeper' is no layer of analysis/"),
                ("src/capture/a.cpp", '"cli/framework/subcommand.h"', "capture/ must not include cli/"),
                ("src/analysis/a.cpp", "<sqlite3.h>", "only store/"),
                ("src/cli/a.cpp", "<bpf/libbpf.h>", "only bench, capture/"),
                ("src/store/a.cpp", '"collective.skel.h"', "only capture/"),
                ("src/store/a.cpp", '"wire/collective.h"', "store/ must not include wire/"),
                ("lab/nccl/a.cpp", '"base/result.h"', "job/ must not include base/"),
                ("lab/nccl/a.cpp", '"plugin/wire/blackbox.h"', "job/ must not include plugin/wire/"),
                ("src/store/a.cpp", '"plugin/abi/v5.h"', "store/ must not include plugin/abi/"),
                ("lab/cluster/a.cpp", '"analysis/explain.h"', "lab/ must not include analysis/"),
                ("bpf/a.bpf.c", '"model/events.h"', "bpf/ must not include model/"),
                ("plugin/box/a.cpp", '"plugin/abi/v5.h"', "plugin/box/ must not include plugin/abi/"),
                ("plugin/recorder/a.cpp", '"base/result.h"', "plugin/recorder/ must not include base/"),
                ("plugin/a.cpp", '"plugin/testing/host.h"', "plugin/ must not include plugin/testing/"),
                ("src/newroom/a.cpp", '"base/result.h"', "is not a room")]:
            with self.subTest(path=path, include=include):
                self.write(path, f"// a comment\n#include {include}\n")
                result = check_includes(self.folder)
                self.assertEqual(result.returncode, 1)
                self.assertIn(reason, result.stdout)
                (self.folder / path).unlink()

    def test_a_violation_is_found_however_its_header_is_named(self):
        for header in ("store/write/writer.h", "analysis/stalls/stall.h", "tests/support/golden_text.h"):
            self.write(header if header.startswith("tests/") else f"src/{header}", "")
        for path, include, reason in [
                ("src/model/a.h", '"../store/write/writer.h"', "model/ must not include store/"),
                ("src/model/events/a.h", '"../../store/write/writer.h"', "model/ must not include store/"),
                ("src/model/a.h", '"../store/of_a_later_branch.h"', "model/ must not include store/"),
                ("src/model/a.h", '"../model/../store/write/writer.h"', "model/ must not include store/"),
                ("src/model/a.h", "<store/write/writer.h>", "model/ must not include store/"),
                ("src/store/a.h", '"../../tests/support/golden_text.h"', "store/ must not include tests/"),
                ("src/store/a.h", '"tests/support/golden_text.h"', "store/ must not include tests/"),
                ("src/main.cpp", '"store/write/writer.h"', "main/ must not include store/"),
                ("src/analysis/timeline/a.h", '"../stalls/stall.h"', "analysis/timeline must not include analysis/stalls"),
                ("src/analysis/intervals.h", '"stalls/stall.h"', "analysis/base must not include analysis/stalls")]:
            with self.subTest(path=path, include=include):
                self.write(path, f"#include {include}\n")
                result = check_includes(self.folder)
                self.assertEqual((result.returncode, result.stdout.splitlines()[1:]), (1, []))
                self.assertTrue(result.stdout.startswith(f"{path}:1: {reason}"), result.stdout)
                (self.folder / path).unlink()

    def test_a_cycle_of_folders_is_found(self):
        self.write("src/base/deep/a/x.h", '#include "base/deep/b/x.h"\n')
        self.write("src/base/deep/b/x.h", '\n#include "base/deep/c/more/x.h"\n')
        self.write("src/base/deep/c/more/x.h", "")
        self.assertEqual(check_includes(self.folder).returncode, 0)
        self.write("src/base/deep/c/x.cpp", '#include "base/deep/a/x.h"\n')
        result = check_includes(self.folder)
        cycle = "is part of a cycle in src/base/deep/: a -> b -> c -> a"
        self.assertEqual((result.returncode, result.stdout.splitlines()),
                         (1, [f"src/base/deep/a/x.h:1: a -> b (base/deep/b/x.h) {cycle}",
                              f"src/base/deep/b/x.h:2: b -> c (base/deep/c/more/x.h) {cycle}",
                              f"src/base/deep/c/x.cpp:1: c -> a (base/deep/a/x.h) {cycle}"]))

    def test_a_cycle_is_found_however_its_headers_are_named(self):
        for files in [{"lab/nccl/api/x.h": "links/y.h", "lab/nccl/links/y.h": "api/x.h"},
                      {"lab/cluster/a/x.h": "lab/cluster/b/y.h", "lab/cluster/b/y.h": "../a/x.h"},
                      {"plugin/box/x.h": "plugin/wire/y.h", "plugin/wire/y.h": "plugin/box/x.h"},
                      {"bpf/one/x.h": "two/y.h", "bpf/two/y.h": "one/x.h"},
                      {"lab/cuda/include/x.h": "y.h", "lab/nccl/include/y.h": "x.h"},
                      {"src/base/a/x.h": "<base/b/y.h>", "src/base/b/y.h": "base/a/x.h"}]:
            with self.subTest(files=files):
                for path, header in files.items():
                    self.write(path, "#include " + (header if header.startswith("<") else f'"{header}"') + "\n")
                self.assertEqual(check_includes(self.folder).stdout.count("is part of a cycle"), 2)
                for path in files:
                    (self.folder / path).unlink()

    def test_assembling_files_and_tests_form_no_cycle(self):
        self.write("src/base/whole.h", '#include "base/a/x.h"\n')
        self.write("src/base/a/x.h", '#include "base/b/x.h"\n')
        self.write("src/base/b/x.h", '#include "base/whole.h"\n')
        self.write("src/base/b/x_test.cpp", '#include "base/a/x.h"\n')
        self.write("src/base/b/testing/x.h", '#include "base/a/x.h"\n')
        result = check_includes(self.folder)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_a_folder_of_too_many_files_is_found(self):
        for folder, name in (("src/base", "part{}.h"), ("scripts", "part{}.sh"), ("cmake", "part{}.cmake"), ("packaging", "part{}.service")):
            with self.subTest(folder):
                for number in range(26):
                    self.write(f"{folder}/{name.format(number)}", "")
                result = check_includes(self.folder)
                self.assertEqual((result.returncode, result.stdout.split(";")[0]), (1, f"{folder}: 26 files side by side"))
                (self.folder / folder / name.format(0)).unlink()
                self.assertEqual(check_includes(self.folder).returncode, 0)

    def test_what_is_allowed_passes(self):
        self.write("bpf/wire/collective.h", "")
        self.write("bpf/calls.h", "")
        self.write("src/store/a.cpp", '#include <sqlite3.h>\n#include "store/b.h"\n#include "model/events.h"\n')
        self.write("src/capture/a.cpp", '#include <bpf/libbpf.h>\n#include "wire/collective.h"\n#include "calls.h"\n')
        self.write("src/analysis/live/a.h", '#include "analysis/explain.h"\n#include "analysis/intervals.h"\n')
        self.write("src/analysis/timeline/a_test.cpp", '#include "analysis/explain.h"\n')
        self.write("src/analysis/testing/a.h", '#include "analysis/explain.h"\n')
        self.write("src/cli/a.cpp", '#include "analysis/explain.h"\n#include <CLI/CLI.hpp>\n')
        self.write("src/cli/deep/a.h", '#include "../a.h"\n#include "../../analysis/explain.h"\n')
        self.write("src/store/a_test.cpp", '#include "tests/support/golden_text.h"\n')
        self.write("src/main.cpp", '#include "base/result.h"\n#include "cli/a.h"\n')
        self.write("lab/nccl/a.cpp", '#include "nccl.h"\n#include "plugin/abi/v5.h"\n')
        self.write("bpf/a.bpf.c", '#include <bpf/bpf_helpers.h>\n#include "wire/collective.h"\n')
        result = check_includes(self.folder)
        self.assertEqual((result.returncode, result.stdout), (0, ""))


class Words(Case):
    def found(self, name, text):
        subprocess.run(["git", "init", "-q", self.folder], check=True)
        (self.folder / "src").mkdir(exist_ok=True)
        (self.folder / "src" / name).write_text(text)
        subprocess.run(["git", "-C", self.folder, "add", "-A"], check=True)
        result = subprocess.run([ROOT / "scripts" / "check_words.py", self.folder], capture_output=True, text=True, check=False)
        return result.returncode, [line.split("'")[1] for line in result.stdout.splitlines()]

    def test_replaced_words_are_found_in_sentences_and_names(self):
        self.need_program("git")
        for text, words in [("// It tells who died.\n", ["tells"]), ("int told_by;\n", ["told"]),
                            ("class LaneTable;\n", ["lane"]), ("make_trace_verb();\n", ["verb"]), ("st_box_event box;\n", ["box"]),
                            ("// Stalls of one cause and place.\n", ["place"]), ("struct Place place_;\n", ["place", "place"]),
                            ("// Whoever reads so many bytes.\n", ["whoever", "so many"]),
                            ("// One part in so many; it waits so long.\n", ["so many"]),
                            ('json["place"] = {{"said_ms", 1}};\n', ["place", "said"]), ("| `said_ms` |\n", ["said"]),
                            ("kUnsaid\n", ["unsaid"]), ("TEST(Log, DamageIsSaid) {\n", ["said"]),
                            ("// Nobody's clock is off; somebody else may, and anyone.\n", ["nobody", "somebody", "anyone"]),
                            ("TEST(Hang, EverybodyWaits) { nobody_left(); }\n", ["everybody", "nobody"]),
                            ("// Between two looks.\n", ["look"]), ("// The last look at it.\n", ["look"]),
                            ("// (in 3 of 4 looks)\n", ["look"]), ("// After the look's CPU time.\n", ["look"]),
                            ("// Looks never change a cause.\n", ["look"]), ("void say(int said);\n", ["said", "say"]),
                            ("const Say& announce;\n", ["say"]), ("bool says_no = node_that_says();\n", ["say"]),
                            ('rings(); a = "rings.db";\n', ["ring"]), ("std::string ring_folder();\n", ["ring"]),
                            ("TEST_F(Rings, AreSaved) { import_rings(); }\n", ["ring"]), ("// An empty rings folder.\n", ["ring"])]:
            with self.subTest(text=text):
                self.assertEqual(self.found("a.h", text), (1, words))

    def test_some_words_are_found_only_in_what_users_read(self):
        self.need_program("git")
        words = "a note says so; say which"
        found = (1, ["say"])
        self.assertEqual(self.found("a.md", f"{words}\n"), found)
        self.assertEqual(self.found("a.md", "nothing\n") and self.found("b.cpp", f'print("{words}");\n')[1], found[1])
        (self.folder / "src" / "b.cpp").unlink()
        self.assertEqual(self.found("c.cpp", f"int a;  // {words}\n#include \"cli/say/a.h\"\n"), (0, []))
        self.assertEqual(self.found("d_test.cpp", f'print("{words}"); say();\n'), (0, []))

    def test_other_words_pass(self):
        self.need_program("git")
        for line in ("// A planet reports; the ring buffer is unwrapped in place.", "st_box_event* e;", "bool in_place; InPlace();",
                     "// 0: out of place, as the out-of-place result", "// in its place, in a file's place; takes its place, and is placed",
                     "constexpr uid_t kNobody = 65534; become_nobody();", "// the user nobody; run_as_nobody(), AS_NOBODY",
                     'return "nobody_waits";', "// so many that it fails, so long as it lasts", "// look at it; the log looks like ours",
                     "// The rings fill; a ring of four, NCCL's Ring: the tracer's rings. ring_share(ring)",
                     "// All ranks look the same, and a look-up of names; it looks for the file"):
            with self.subTest(line=line):
                self.assertEqual(self.found("a.h", f"{line}\n"), (0, []))


class Soak(Case):
    GOOD = {"failed": 0, "collectives": 9, "losses": {"pruned:process": 1}, "limit_mib": 1}

    def test_a_soak_whose_jobs_do_nothing_is_no_soak(self):
        self.assertEqual(soak.idleness(**self.GOOD), [])
        self.assertEqual(soak.idleness(**{**self.GOOD, "losses": {}, "limit_mib": 64}), [])
        for worse in ({"failed": 1}, {"collectives": 0}, {"losses": {"pruned:collective": 9}}):
            with self.subTest(**worse):
                self.assertEqual(len(soak.idleness(**{**self.GOOD, **worse})), 1)

    def test_only_a_job_that_lost_a_rank_may_fail(self):
        for words, loses_a_rank, failed in (("true", False, False), ("false", False, True), ("false", True, False)):
            with self.subTest(words=words, loses_a_rank=loses_a_rank):
                job = soak.Job([subprocess.Popen([words])], 0, loses_a_rank)
                job.processes[0].wait()
                job.end()
                self.assertEqual(job.failed(), failed)

    def test_what_grows_is_found(self):
        def samples(last):
            return [{"rss_mib": 50, "fds": 80, "file_mib": 0.5}] * 6 + [{"rss_mib": 50, "fds": 80, "file_mib": 0.5, **last}] * 3

        self.assertEqual(soak.growth(samples({"fds": 81, "rss_mib": 56}), 1), [])
        for last in ({"fds": 82}, {"rss_mib": 57}, {"file_mib": 1.5}):
            with self.subTest(**last):
                self.assertEqual(len(soak.growth(samples(last), 1)), 1)


class Scripts(Case):
    def passes(self, name):
        result = subprocess.run([ROOT / "scripts" / name], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, (result.stdout + result.stderr)[-3000:])

    def need_git(self):
        self.need_program("git")
        if not (ROOT / ".git").exists():
            self.skipTest("not a git checkout")

    def test_every_file_names_its_licence(self):
        self.need_git()
        self.passes("check_spdx.sh")

    def test_vocabulary(self):
        self.need_git()
        self.passes("check_words.py")

    def test_layout(self):
        self.need_git()
        self.passes("check_format.sh")

    def test_every_package_is_installed(self):
        self.passes("install_packages.sh")


class Workplace(Case):
    def test_scripts_are_executable(self):
        for name in ["demo.sh", "test.sh", ".ci/run"]:
            self.assertTrue(pathlib.Path(ROOT / name).stat().st_mode & 0o111, name)

    def test_all_of_test_sh_is_in_its_help(self):
        shown = subprocess.run([ROOT / "test.sh", "--help"], capture_output=True, text=True, check=True).stdout
        suites = re.findall(r"^stalltrace_suite\((\w+)", (ROOT / "tests" / "CMakeLists.txt").read_text(), re.MULTILINE)
        self.assertGreater(len(suites), 3)
        for subset in ("unit", "root", *suites):
            self.assertRegex(shown, rf"(?m)^  {subset} ")

    def test_odd_words_to_test_sh_are_refused(self):
        for words in (["everything"], ["e2e", "one", "two"], ["e2e", ""], ["--quick"]):
            with self.subTest(words=words):
                result = subprocess.run([ROOT / "test.sh", *words], capture_output=True, text=True, timeout=30, check=False)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, r"\Ausage: \./test\.sh .*\n\Z")


class SecondAttempts(Case):
    """A case that fails at first, and what the totals say of it."""

    def totals(self, suite, failing):
        folder = self.folder / suite
        folder.mkdir()
        (folder / "some_test.py").write_text(f"""\
import pathlib, unittest
SEEN = pathlib.Path(__file__).with_suffix(".seen")

class Some(unittest.TestCase):
    def attempt(self, number):
        with SEEN.open("a") as seen:
            seen.write(str(number))
        self.assertNotEqual(SEEN.read_text().count(str(number)), 1, "the first attempt")
""" + "".join(f"    def test_{number}(self): self.attempt({number})\n" for number in range(failing))
            + "    def test_passes(self): pass\n")
        results = self.folder / "results"
        ended = subprocess.run([sys.executable, ROOT / "tests" / "run_suite.py", folder], capture_output=True, text=True, check=False,
                               env={**os.environ, "GTEST_OUTPUT": f"xml:{results}/", "GTEST_FILTER": "*"}).returncode
        (results / "ctest.xml.ctest").write_text(
            f'<testsuite><testcase name="suite_{suite}" status="{"fail" if ended else "run"}"/></testsuite>')
        return subprocess.run([sys.executable, ROOT / "scripts" / "totals.py", results, results / "ctest.xml.ctest"], capture_output=True,
                              text=True, check=False).stdout.splitlines()

    def test_few_cases_of_e2e_are_repeated_and_named(self):
        *repeated, _, total = self.totals("e2e", run_suite.MOST_REPEATED)
        self.assertEqual(len(repeated), run_suite.MOST_REPEATED)
        for number, line in enumerate(repeated):
            self.assertRegex(line, rf"^passed at the second attempt only: some_test.Some.test_{number}: .*the first attempt")
        self.assertEqual(total, f"{run_suite.MOST_REPEATED + 1} passed, 0 failed, 0 skipped")

    def test_many_are_not(self):
        many = run_suite.MOST_REPEATED + 1
        self.assertEqual(self.totals("e2e", many)[-1], f"1 passed, {many} failed, 0 skipped")

    def test_other_suites_have_one_attempt(self):
        self.assertEqual(self.totals("cli", 1)[-1], "1 passed, 1 failed, 0 skipped")
