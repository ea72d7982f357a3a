# SPDX-License-Identifier: Apache-2.0
"""The short ones of the field cases (tests/field/table.py); scripts/field_cases.sh plays all of them."""

import sys

from stalltrace import ROOT, Case

sys.path.append(str(ROOT / "tests" / "field"))

from judging import WRONG, judge  # noqa: E402
from playing import play  # noqa: E402
from table import ROWS  # noqa: E402

SHORT = ("warm_up", "mpi", "nccl", "assertion_mpi_mpirun_trace", "segfault_nccl_ranks_trace", "out_of_memory_gloo_ranks_trace")


class Field(Case):
    """A test for each of SHORT, made below."""

    def expect_right(self, row):
        self.need_root()
        verdict = judge(row.expects, play(row))
        self.assertNotEqual(verdict.word, WRONG, verdict.problems)


def test_of(row):
    return lambda self: self.expect_right(row)


BY_NAME = {row.name: row for row in ROWS}
for short in SHORT:
    setattr(Field, f"test_{short}", test_of(BY_NAME[short]))
