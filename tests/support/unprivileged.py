# SPDX-License-Identifier: Apache-2.0
"""Runs the program as nobody, from a place nobody can reach."""

import shutil

from stalltrace import PROGRAM, run

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")


def run_as_nobody(folder, *words, **options):
    program = folder / "stalltrace-for-nobody"
    if not program.exists():
        shutil.copy(PROGRAM, program)
        program.chmod(0o755)
    return run(*words, program=program, prefix=AS_NOBODY, **options)
