# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, unknown arguments, streams, colour."""

import os
import pathlib
import pty
import subprocess

import help_pages
import recordings
from stalltrace import DONE, FAILED, PROGRAM, USAGE, Case, run


class Help(Case):
    def test_every_subcommand_has_a_page_with_an_example(self):
        for subcommand in help_pages.subcommands():
            with self.subTest(subcommand=subcommand):
                page = self.done(run(*subcommand.split(), "--help"))
                self.assertIn(f"Usage:\n  stalltrace {subcommand}", page)
                self.assertRegex(page, rf"Example:\n  (sudo |srun --\S+ )?stalltrace {subcommand}")
                self.assertEqual([line for line in page.splitlines() if len(line) > 100], [])

    def test_no_subcommand_is_wrong_usage(self):
        self.refused(run(), USAGE, "no subcommand", "--help")

    def test_unknown_subcommand_names_the_nearest(self):
        self.refused(run("explian"), USAGE, "not a subcommand", "suggests explain")
        self.refused(run("frobnicate"), USAGE, "a word is no subcommand", "--help", word="frobnicate")
        self.refused(run("TRACE"), USAGE, "suggests trace")
        self.refused(run("lab", "rn"), USAGE, "suggests lab run")
        self.refused(run("lab", "frobnicate"), USAGE, "subcommands of lab")
        self.refused(run("-v"), USAGE, "suggests --version")
        self.refused(run("--json", "explain"), USAGE, "'--json'", "flags come after")

    def test_help_names_the_page(self):
        for subcommand in help_pages.subcommands():
            with self.subTest(subcommand=subcommand):
                self.assertEqual(self.done(run("help", *subcommand.split())), self.done(run(*subcommand.split(), "--help")))
        self.assertEqual(self.done(run("help")), self.done(run("--help")))
        self.refused(run("help", "explian"), USAGE, "suggests explain")

    def test_the_pages_say_how_values_are_written(self):
        self.assert_says("how a duration is written", self.done(run("trace", "--help")))
        self.assert_says("how a size is written", self.done(run("trace", "--help")))
        self.assert_says("how a time is written", self.done(run("explain", "--help")))

    def test_the_pages_say_what_a_newcomer_asks(self):
        page = self.done(run("trace", "--help"))
        for word in ("root", "CAP_BPF", "--max-size"):
            self.assertIn(word, page)
        for name in ("jobs of all users", "how much is written"):
            self.assert_says(name, page)
        self.assertIn("sqlite_master", self.done(run("query", "--help")))
        self.assert_says("usage of run", self.done(run("run", "--help")))
        self.assert_says("usage of trace", self.done(run("trace", "--help")))

    def test_the_page_of_a_group(self):
        page = self.done(run("lab", "--help"))
        self.assert_says("example of lab run", page)
        self.assertTrue(page.startswith("stalltrace lab:"), page)
        self.assertNotIn("explain ", page.split("Subcommands:")[1].split("Example:")[0].replace("explain it", ""))
        self.assertEqual(page, self.done(run("help", "lab")))

    def test_unknown_flag(self):
        for subcommand in help_pages.subcommands():
            with self.subTest(subcommand=subcommand):
                self.refused(run(*subcommand.split(), "--frobnicate"), USAGE, "'--frobnicate'",
                             "a command line to use", words=f"{subcommand} --help")

    def test_missing_argument(self):
        self.refused(run("query"), USAGE, "an argument is missing", argument="SQL")
        self.refused(run("query", "a.db"), USAGE, "an argument is missing", argument="SQL")
        self.refused(run("explain"), USAGE, "an argument is missing", argument="FILE")
        self.refused(run("run", "--out", "r1"), USAGE, "the command is missing", "a command line to use", words="run --out r1 -- COMMAND")

    def test_a_flag_without_its_value(self):
        self.refused(run("trace", "--out"), USAGE, "a flag needs a value", "--out FILE", flag="--out")
        self.refused(run("trace", "--duration"), USAGE, "a flag needs a value", "500ms, 20s or 2m", flag="--duration")
        self.refused(run("trace", "--duration", "--out", "x.db"), USAGE, "a flag needs a value", flag="--duration")

    def test_an_empty_value(self):
        """An unset shell variable gives an empty argument."""
        for words in (["explain", "a.db", "--instance", ""], ["trace", "--node", ""], ["run", "--node=", "--", "true"],
                      ["trace", "--out", ""], ["trace", "--library", ""]):
            with self.subTest(words=words):
                self.refused(run(*words), USAGE, "an empty value")

    def test_a_flag_that_was_probably_meant(self):
        self.refused(run("explain", "a.db", "--jsn"), USAGE, "'--jsn'", "suggests --json")
        self.refused(run("trace", "-o", "x.db"), USAGE, "'-o'", "suggests --out")

    def test_a_command_without_the_dashes(self):
        self.refused(run("run", "python", "train.py", "--lr", "1"), USAGE, "a word is no flag",
                     "a command line to use", word="python", words="run -- python train.py --lr 1")
        self.refused(run("trace", "--duration", "1s", "torchrun", "x"), USAGE, "a word is no flag",
                     "a command line to use", word="torchrun", words="trace --duration 1s -- torchrun x")

    def test_a_flag_given_twice(self):
        self.refused(run("trace", "--out", "a.db", "--out", "b.db"), USAGE, "--out")


class Values(Case):
    def test_bad_durations(self):
        for text in ["10", "-5s", "2 m", "fast", "1e300h", "0s"]:
            with self.subTest(text=text):
                self.refused(run("trace", f"--duration={text}", "--out", self.folder / "x.db"), USAGE, "--duration")

    def test_bad_sizes(self):
        for text in ["2 g", "big", "2q", "-1m"]:
            with self.subTest(text=text):
                self.refused(run("trace", f"--max-size={text}", "--out", self.folder / "x.db"), USAGE, "--max-size")

    def test_bad_choice(self):
        self.refused(run("query", "a.db", "SELECT 1", "--format", "xml"), USAGE, "'xml'", "table, json, csv")

    def test_a_campaign_of_what_is_not(self):
        out = self.folder / "matrix"
        self.refused(run("lab", "matrix", "--only", "gremlins", "--out", out), USAGE, "no such setting")
        self.refused(run("lab", "matrix", "--workload", "solitaire", "--out", out), USAGE, "no such workload")
        self.refused(run("lab", "matrix", "--runs", "0", "--out", out), USAGE, "--runs")
        self.refused(run("lab", "matrix", "--simulated", "--live", "--out", out), USAGE, "it runs nothing, so no such flag", "--live")
        for words in (["--live"], ["--keep"], ["--simulated"], ["--workload", "nccl"], ["--runs", "50"], ["--seed", "1"]):
            with self.subTest(words=words):
                self.refused(run("lab", "matrix", "--shift", "5s", *words, "--out", out), USAGE, "--shift", "--out", "--only")
        self.refused(run("lab", "matrix", "--shift", "5s", "--out", out), FAILED, str(out), "--keep")
        self.assertFalse(out.exists())

    def test_bad_pid(self):
        for text in ["0", "-1", "x", "99999999999"]:
            with self.subTest(text=text):
                self.refused(run("trace", f"--pid={text}", "--out", self.folder / "x.db"), USAGE, "--pid")

    def test_bad_fault(self):
        self.refused(run("lab", "run", "--fault", "gremlins:rank=1", "--out", self.folder / "lab"), USAGE, "gremlins")
        self.refused(run("lab", "fault", "packet_loss"), USAGE, "a fault needs a rank", "packet_loss:rank=2", fault="packet_loss")

    def test_nodes_that_no_configuration_names(self):
        if pathlib.Path("/etc/stalltrace/stalltrace.toml").exists():
            self.skipTest("this host has a configuration")
        for words in (["nodes"], ["nodes", "--nodes", "config"]):
            self.refused(run(*words), USAGE, "the configuration names no nodes", "stalltrace.toml")

    def test_files_that_are_not_there(self):
        out = self.folder / "x.db"
        self.refused(run("trace", "--config", self.folder / "nosuch.toml", "--out", out), FAILED, "nosuch.toml", "--config")
        self.refused(run("trace", "--library", self.folder / "nosuch.so", "--out", out), FAILED, "nosuch.so", "libnccl.so.2")
        (self.folder / "text.so").write_text("no library")
        self.refused(run("trace", "--library", self.folder / "text.so", "--out", out), FAILED, "text.so: not a library",
                     "libnccl.so.2")
        self.assertFalse(out.exists())


class Streams(Case):
    def test_data_on_stdout_only(self):
        result = run("version")
        self.assertRegex(result.stdout, r"^stalltrace \d+\.\d+\.\d+\n$")
        self.assertEqual(result.stderr, "")

    def test_a_full_disk_under_the_output_is_reported(self):
        with open("/dev/full", "w") as full:
            result = run("--help", stdout=full)
        self.refused(result, FAILED, "the output cannot be written", "no space left")

    def test_a_reader_that_leaves_is_no_error(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = run("--help", stdout=write_end)
        os.close(write_end)
        self.assertEqual((result.returncode, result.stderr), (DONE, ""))


class Colour(Case):
    ESCAPE = "\x1b["

    def on_terminal(self, *words, **environment):
        """stdout and stderr of the program on a terminal, as one text."""
        leader, follower = pty.openpty()
        full = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        with subprocess.Popen([PROGRAM, *words], stdin=follower, stdout=follower, stderr=follower,
                              env={**full, "TERM": "xterm", **environment}) as process:
            os.close(follower)
            text = b""
            try:
                while chunk := os.read(leader, 4096):
                    text += chunk
            except OSError:
                pass  # the terminal closes when the program ends
            process.wait(timeout=60)
        os.close(leader)
        return text.decode()

    def test_only_on_a_terminal_that_wants_it(self):
        words = ("explain", recordings.make(self.folder / "a.db"))
        self.assertIn(self.ESCAPE, self.on_terminal(*words))
        self.assertNotIn(self.ESCAPE, self.on_terminal(*words, NO_COLOR="1"))
        self.assertNotIn(self.ESCAPE, self.on_terminal(*words, TERM="dumb"))
        self.assertNotIn(self.ESCAPE, run(*words, environment={"TERM": "xterm"}).stdout)
