# SPDX-License-Identifier: Apache-2.0
"""Tests assert sentences in golden files only: tests/support/sentences.txt, testdata/texts.txt and the like.

A rewritten sentence then changes one file, and its diff shows all that changed.
"""

import ast
import re

from stalltrace import ROOT, Case, sentence, sentences

ASSERTIONS = {"assertIn": 0, "assertNotIn": 0, "assertRegex": 1, "assertNotRegex": 1}  # the position of the literal
SAYS = re.compile(r'assert_(?:not_)?says\("([^"]+)"')
# Two words of a sentence, in a literal that a C++ test looks for.
CPP_PROSE = re.compile(
    r"(?:\.find|\.contains|\.starts_with|\.ends_with|HasSubstr|EndsWith|StartsWith|MatchesRegex|ContainsRegex)"
    r'\(\s*"[^"]*?\b[a-z]{2,} [a-z]{2,}\b'
)
# A literal that a C++ test compares a text with, and what makes it a sentence: names, paths and values are none.
CPP_EQUALS = re.compile(r"(?:EXPECT|ASSERT)_(?:EQ|NE|STREQ)\(")
LITERAL = r'"(?:[^"\\]|\\.)*"'
LAST_LITERALS = re.compile(rf"((?:{LITERAL}\s*)+)$")
CPP_SENTENCE = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b|\b(?:is|has|had|was|were|are|not|no|it) [a-z]{2,}\b")
# What these look for was written by the lab's job, another program or a file format.
OTHERS_TEXT = re.compile(
    r"^(lab/nccl/|lab/workload/|plugin/box/heartbeat_test|lab/cluster/cluster_test|src/stacks/python/images_test"
    r"|src/base/process/(procfs|subprocess)_test|src/export/encode/encoders_test|src/import/nccl_(log|tests)/import_test)"
)


def sentences_expected(source):
    """The sentences that a C++ test compares texts with, except those that it gave to the code itself."""
    for match in CPP_EQUALS.finditer(source):
        statement = re.split(r"\)\s*(?:<<|;)", source[match.end() : match.end() + 2000])[0]
        literals = LAST_LITERALS.search(statement)
        text = "".join(re.findall(LITERAL, literals[1])).replace('""', "") if literals else ""
        if CPP_SENTENCE.search(text) and source.count(text.strip('"')) < 2:
            yield text


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


def prose_in(tree):
    """The lines where a test asserts two or more words of a sentence, itself or by a variable of a loop. Names of sentences are none."""
    known = sentences()
    variables = {}  # of each call, those of the loops around it
    for loop in (node for node in ast.walk(tree) if isinstance(node, ast.For)):
        for node in ast.walk(loop):
            if isinstance(node, ast.Call):
                variables.setdefault(node, {}).update(columns_of(loop))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        refusal = node.func.attr == "refused"
        if not refusal and node.func.attr not in ASSERTIONS:
            continue
        for argument in node.args[2:] if refusal else [node.args[ASSERTIONS[node.func.attr]]]:
            for literal in literals_in(argument, variables.get(node, {})):
                parts = literal.values if isinstance(literal, ast.JoinedStr) else [literal]
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else " " for part in parts)
                if re.search(r"[A-Za-z]{2,}\s+[a-z]{2,}", text) and not (refusal and text in known):
                    yield literal.lineno


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
        for path in sorted(path for folder in ("cli", "e2e", "jobs") for path in ROOT.glob(f"tests/{folder}/*_test.py")):
            lines = list(prose_in(ast.parse(path.read_text())))
            self.assertEqual(lines, [], f"{path.relative_to(ROOT)}: use assert_says() and sentences.txt")

    def test_no_unit_test_has_its_own(self):
        paths = [path for top in ("src", "lab", "plugin", "tests") for path in sorted((ROOT / top).rglob("*_test.cpp"))]
        names = {str(path.relative_to(ROOT)): path for path in paths}
        sources = {name: path.read_text() for name, path in names.items() if not OTHERS_TEXT.match(name)}
        found = {name: CPP_PROSE.findall(text) + list(sentences_expected(text)) for name, text in sources.items()}
        self.assertEqual({name: texts for name, texts in found.items() if texts}, {}, "use golden::expect_text()")

    def test_prose_is_recognised(self):
        self.assertEqual(list(prose_in(ast.parse('self.assertIn("had not entered", text)'))), [1])
        self.assertEqual(list(prose_in(ast.parse('self.assertRegex(text, f"{who} had not entered")'))), [1])
        self.assertEqual(list(prose_in(ast.parse('self.assertIn("--out", text)'))), [])
        for refusal, lines in (('self.refused(run("a"), FAILED, "a.db", "had not entered")', [1]),
                               ('self.refused(run("a"), FAILED,\n  f"{who} had not entered")', [2]),
                               ('self.refused(run("a"), FAILED, "had not entered" if late else "a.db")', [1]),
                               ('self.refused(run("is not run"), FAILED, "a.db", words="run it again")', []),
                               ('self.refused(run("a"), FAILED, "no such file")', []),
                               ('for text in ("a.db",\n "had not entered"):\n  self.refused(run("a"), FAILED, text)', [2]),
                               ('for code, text in ((1, "had not entered"), (2, "no such file")):\n  self.refused(run("a"), code, text)', [1]),
                               ('for text in ("a.db",\n "had not entered"):\n  self.assertIn(text, page)', [2]),
                               ('for name in ("had not entered", "a.db"):\n  self.assert_says(name, page)', [])):
            self.assertEqual(list(prose_in(ast.parse(refusal))), lines, refusal)
        self.assertTrue(CPP_PROSE.search('text.find("had not entered")'))
        self.assertTrue(CPP_PROSE.search('EXPECT_TRUE(text.starts_with("had not entered"))'))
        self.assertEqual(list(sentences_expected('EXPECT_EQ(f("a"), "1 is "\n  "no number") << x;')), ['"1 is no number"'])
        self.assertEqual(list(sentences_expected('EXPECT_EQ(f("a"), "in read") << "it is none";')), [])
        self.assertEqual(list(sentences_expected('fail("no room"); EXPECT_EQ(error, "no room");')), [])
        self.assertFalse(CPP_PROSE.search('text.find("\\"rank\\":")'))
