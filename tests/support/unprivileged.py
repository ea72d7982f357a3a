# SPDX-License-Identifier: Apache-2.0
"""Runs the program as the user nobody, from a copy that this user can read."""

import shutil

from stalltrace import PROGRAM, run

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")


def copy_for_nobody(folder):
    program = folder / "stalltrace-unprivileged"
    if not program.exists():
        shutil.copy(PROGRAM, program)
        program.chmod(0o755)
    return program


def run_as_nobody(folder, *words, **options):
    return run(*words, program=copy_for_nobody(folder), prefix=AS_NOBODY, **options)
