# SPDX-License-Identifier: Apache-2.0
"""Tests assert sentences in golden files only: tests/support/sentences.txt, testdata/texts.txt and the like.

A rewritten sentence then changes one file, and its diff shows all that changed.
"""

import ast
import collections
import re

from stalltrace import ROOT, Case, sentence, sentences

# The position of the literal: assertions, and what looks for a text by itself (of a string or of the module re).
ASSERTIONS = {
    **{"assertIn": 0, "assertNotIn": 0, "assertRegex": 1, "assertNotRegex": 1},
    **dict.fromkeys(("search", "match", "fullmatch", "findall", "finditer", "compile", "split", "rsplit", "partition", "rpartition"), 0),
    **dict.fromkeys(("count", "find", "index", "startswith", "endswith"), 0),
}
PY_SENTENCE = re.compile(r"[A-Za-z]{2,}\s+[a-z]{2,}")
# As OTHERS_TEXT below, of tests in Python.
PY_OTHERS_TEXT = {
    "tests/cli/usage_test.py": ("stalltrace lab:",),
    "tests/jobs/imports_test.py": (r"counter packets (\d+)",),
    "tests/jobs/service_test.py": ("stalltrace trace (.*?) --out",),
}
SAYS = re.compile(r'assert_(?:not_)?says\("([^"]+)"')
# Two words of a sentence, in a literal that a C++ test looks for, wherever it does.
CPP_PROSE = re.compile(
    r"(?:\.find|\.contains|\.starts_with|\.ends_with|HasSubstr|EndsWith|StartsWith|MatchesRegex|ContainsRegex)"
    r'\(\s*"([^"]*?\b[a-z]{2,} [a-z]{2,}\b[^"]*)"'
)
CPP_ASSERTION = re.compile(r"\b(?:(?:EXPECT|ASSERT)_\w+|(?!expect_golden_text|expect_text|expect_section)expect_\w+)(?=\()")
CPP_TOKEN = re.compile(
    r'(?P<raw>R"(?P<mark>\w*)\(.*?\)(?P=mark)")|(?P<literal>"(?:[^"\\\n]|\\.)*")'
    r"|(?<!\w)'(?:[^'\\\n]|\\.)+'|//[^\n]*|(?P<bracket>[()])|(?P<other>[^\s])",
    re.DOTALL,
)
# What makes a literal in any call of an assertion a sentence: names, paths and values are none.
CPP_SENTENCE = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b|\b(?:is|has|had|was|were|are|not|no|it) [a-z]{2,}\b")
# Literals that are no sentence of this program, by test: what another program, a library or a file format has, input, and
# names. One that is in no assertion of its test (any more) is an error.
OTHERS_TEXT = {
    # what other programs and libraries print
    "lab/nccl/tests/error_test.cpp": ("exceeded error retry count",),
    "lab/nccl/tests/profiler/profiler_test.cpp": (
        "NCCL_PROFILER_PLUGIN set by environment to",
        "PROFILER/Plugin: Could not find: ",
        "External profiler plugin ",
    ),
    "lab/workload/tests/train_test.cpp": ("remote process exited or there was a network error",),
    "src/analysis/order/judge_raised_test.cpp": ("Connection reset by peer",),
    "src/analysis/order/torch_reports_test.cpp": ("NET/IB : collective mismatch error",),
    "src/import/kernel_log/import_test.cpp": ("NVRM: Xid ",),
    "src/import/nccl_log/import_test.cpp": ("(most recent call last):",),
    "src/import/nccl_log/tracebacks_test.cpp": (
        "(most recent call last):",
        "During handling of the above exception",
        "CUDA out of memory.",
    ),
    "src/import/nccl_tests/import_test.cpp": ("Test NCCL failure", "# Out of bounds values", "# size count type of things"),
    "src/model/events/imported/torch_report_test.cpp": ("which did not receive grad for rank", "failed to pass monitoredBarrier"),
    "src/model/events/imported/watchdog_report_test.cpp": (
        "Watchdog caught collective operation timeout",
        "an ordinary line of a job",
    ),
    # command lines, and what a command that the test wrote prints
    "lab/cluster/cluster_test.cpp": ("ip netns exec ", "--mca btl ", " --node-fault hangs"),
    "src/base/process/procfs_test.cpp": ("train --token two words",),
    "src/base/process/subprocess_test.cpp": ("kept new added", " one two words", "nft add rule "),
    # the test's own errors, input and files
    "src/export/encode/encoders_test.cpp": ("no space 1",),
    "src/serve/http/tls_test.cpp": ("no key",),
    # names of cases, of tracks and of counters
    "src/analysis/partial_faults_test.cpp": ("connection_reset, ", "out of memory, ", "a rank was not started", "a rank is kept out"),
    "src/analysis/reference_test.cpp": ("how ends are known",),
    "src/export/trace_export_test.cpp": ("no rank · node1 · pid 109",),
    "src/export/trace_export_waits_test.cpp": (
        " / packets dropped by the host",
        "congestion window in packets",
        "round trip time in us",
        "unacknowledged in bytes",
        "not yet sent in bytes",
        "not yet read in bytes",
    ),
}


def asserted_literals(source):
    """The literals in the brackets of the source's assertions, adjacent ones joined."""
    for assertion in CPP_ASSERTION.finditer(source):
        depth, literal = 0, None
        for token in CPP_TOKEN.finditer(source, assertion.end()):
            if token["raw"] or token["literal"]:
                mark = len(token["mark"] or "")
                text = token["raw"][3 + mark : -2 - mark] if token["raw"] else token["literal"][1:-1]
                literal = (literal or "") + text
                continue
            if literal is not None and (token["bracket"] or token["other"]):
                yield literal
                literal = None
            depth += {"(": 1, ")": -1}.get(token["bracket"], 0)
            if depth == 0:
                break


def sentences_expected(source):
    """The sentences in the assertions of a C++ test, except those that it gave to the code itself."""
    asserted = collections.Counter(asserted_literals(source))
    expected = [text for text, times in asserted.items() if CPP_SENTENCE.search(text) and source.count(text) <= times]
    return list(dict.fromkeys([*CPP_PROSE.findall(source), *expected]))


def columns_of(loop):
    """What each variable of a loop over a written tuple or list becomes: name -> its literals."""
    if not isinstance(loop.iter, ast.Tuple | ast.List):
        return {}
    targets, rows = [loop.target], [[row] for row in loop.iter.elts]
    if isinstance(loop.target, ast.Tuple):
        targets, rows = loop.target.elts, [row.elts for row in loop.iter.elts if isinstance(row, ast.Tuple | ast.List)]
    return {target.id: list(values) for target, values in zip(targets, zip(*rows)) if isinstance(target, ast.Name)}


def literals_in(node, variables):
    """The literals that an argument may be."""
    if isinstance(node, ast.IfExp):
        return literals_in(node.body, variables) + literals_in(node.orelse, variables)
    if isinstance(node, ast.Name):
        return [literal for value in variables.get(node.id, []) for literal in literals_in(value, {})]
    return [node] if isinstance(node, ast.Constant | ast.JoinedStr) else []


def looked_for(node):
    """What a call or a comparison looks for in a text."""
    if isinstance(node, ast.Compare):
        return [node.left] if isinstance(node.ops[0], ast.In | ast.NotIn) else []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if node.func.attr == "refused":
        return node.args[2:]
    position = ASSERTIONS.get(node.func.attr, len(node.args))
    arguments = node.args[position : position + 1]
    several = arguments and node.func.attr in ("startswith", "endswith") and isinstance(arguments[0], ast.Tuple)
    return arguments[0].elts if several else arguments


def prose_in(tree):
    """The lines where a test looks for two or more words of a sentence, itself or by a variable of a loop, each with the words. Names of
    sentences and queries are none."""
    known = sentences()
    variables = {}  # of each call or comparison, those of the loops around it
    for loop in (node for node in ast.walk(tree) if isinstance(node, ast.For)):
        for node in ast.walk(loop):
            if isinstance(node, ast.Call | ast.Compare):
                variables.setdefault(node, {}).update(columns_of(loop))
    for node in ast.walk(tree):
        refusal = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "refused"
        for argument in looked_for(node):
            for literal in literals_in(argument, variables.get(node, {})):
                parts = literal.values if isinstance(literal, ast.JoinedStr) else [literal]
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else " " for part in parts)
                if PY_SENTENCE.search(text) and not text.startswith("SELECT ") and not (refusal and text in known):
                    yield literal.lineno, text


class Sentences(Case):
    def test_each_is_expected_by_a_test(self):
        tests = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*_test.py")))
        for name in sentences():
            self.assertIn(f'"{name}"', tests, "remove it from sentences.txt")
        self.assertEqual(sorted(set(SAYS.findall(tests)) - set(sentences())), [])

    def test_a_value_is_text(self):
        self.assertRegex("Rank 1 is in f (a.py:1)", sentence("where rank 1 is", reading="f (a.py:1)"))
        self.assertNotRegex("Rank 1 is in f (aXpy:1)", sentence("where rank 1 is", reading="f (a.py:1)"))

    def test_no_python_test_has_its_own(self):
        paths = sorted(path for folder in ("cli", "e2e", "jobs") for path in ROOT.glob(f"tests/{folder}/*_test.py"))
        found = {str(path.relative_to(ROOT)): list(prose_in(ast.parse(path.read_text()))) for path in paths}
        self.assertEqual(sorted(set(PY_OTHERS_TEXT) - set(found)), [], "no such test")
        for name, texts in found.items():
            others = PY_OTHERS_TEXT.get(name, ())
            own = [(line, text) for line, text in texts if text not in others]
            self.assertEqual(own, [], f"{name}: use assert_says() or sentence(), and sentences.txt")
            unused = [other for other in others if other not in (text for _, text in texts)]
            self.assertEqual(unused, [], f"{name}: remove them from PY_OTHERS_TEXT")

    def test_no_unit_test_has_its_own(self):
        paths = [path for top in ("src", "lab", "plugin", "tests") for path in sorted((ROOT / top).rglob("*_test.cpp"))]
        found = {str(path.relative_to(ROOT)): sentences_expected(path.read_text()) for path in paths}
        self.assertEqual(sorted(set(OTHERS_TEXT) - set(found)), [], "no such test")
        for name, texts in found.items():
            others = OTHERS_TEXT.get(name, ())
            own = [text for text in texts if not any(other in text for other in others)]
            self.assertEqual(own, [], f"{name}: use golden::expect_text()")
            unused = [other for other in others if not any(other in text for text in texts)]
            self.assertEqual(unused, [], f"{name}: remove them from OTHERS_TEXT")

    def test_prose_is_recognised(self):
        for code, lines in (('self.assertIn("had not entered", text)', [1]),
                            ('self.assertRegex(text, f"{who} had not entered")', [1]),
                            ('self.assertIn("--out", text)', []),
                            ('self.refused(run("a"), FAILED, "a.db", "had not entered")', [1]),
                            ('self.refused(run("a"), FAILED,\n  f"{who} had not entered")', [2]),
                            ('self.refused(run("a"), FAILED, "had not entered" if late else "a.db")', [1]),
                            ('self.refused(run("is not run"), FAILED, "a.db", words="run it again")', []),
                            ('self.refused(run("a"), FAILED, "no such file")', []),
                            ('for text in ("a.db",\n "had not entered"):\n  self.refused(run("a"), FAILED, text)', [2]),
                            ('for code, text in ((1, "had not entered"), (2, "no such file")):\n  self.refused(run("a"), code, text)', [1]),
                            ('for text in ("a.db",\n "had not entered"):\n  self.assertIn(text, page)', [2]),
                            ('for name in ("had not entered", "a.db"):\n  self.assert_says(name, page)', []),
                            ('found = re.search(r"had not entered (\\S+)", text)', [1]),
                            ('self.assertTrue(line.startswith(("a.db", "had not entered")))', [1]),
                            ('self.assertEqual(text.count("had not entered"), 0)', [1]),
                            ('page.split("had not entered")[1]', [1]),
                            ('self.count("SELECT count(*) FROM had_not")', []),
                            ('wait_until(lambda: "had not entered" in read(), "the words of it")', [1]),
                            ('self.assertEqual(1 if "had not entered" not in text else 2, lines)', [1]),
                            ('for text in ("had not entered",):\n  found = text in page', [1]),
                            ('found = way in ("had not entered", "a.db") or "in.db" in text', [])):
            self.assertEqual([line for line, _ in prose_in(ast.parse(code))], lines, code)
        self.assertTrue(CPP_PROSE.search('text.find("had not entered")'))
        self.assertTrue(CPP_PROSE.search('EXPECT_TRUE(text.starts_with("had not entered"))'))
        self.assertEqual(sentences_expected('EXPECT_EQ(f("a"), "1 is "\n  "no number") << x;'), ["1 is no number"])
        self.assertEqual(sentences_expected('EXPECT_EQ(f("a"), "in read") << "it is none";'), [])
        self.assertEqual(sentences_expected('fail("no room"); EXPECT_EQ(error, "no room");'), [])
        self.assertEqual(sentences_expected('EXPECT_TRUE(has_note(of(\'(\', 1\'000), "what this one says"));'), ["what this one says"])
        self.assertEqual(sentences_expected('ASSERT_THAT(all, ElementsAre(R"(it is one)", "b c"));'), ["it is one"])
        self.assertEqual(sentences_expected('auto has = [] { return text.contains("two words"); };'), ["two words"])
        self.assertEqual(sentences_expected('EXPECT_TRUE(f(a)); g("what this one says");'), [])
        self.assertFalse(CPP_PROSE.search('text.find("\\"rank\\":")'))
