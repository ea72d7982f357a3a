# SPDX-License-Identifier: Apache-2.0
"""Recordings: queried with an SQLite library that is not ours, and made for tests, intact and damaged."""

import contextlib
import sqlite3
import subprocess

from stalltrace import BUILD


def rows(path, sql):
    """All rows, read-only; also works while the recording is being written."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchall()


def make(path, collectives=200, stalled=-1, evidence=False):
    """One of `collectives` every 40 ms, 10 ms each; number `stalled` takes 3 s and delays the following ones. With
    `evidence` each call has rows of the other tables, too."""
    subprocess.run([BUILD / "tests" / "make_recording", path, str(collectives), str(stalled), *(["evidence"] if evidence else [])],
                   check=True)
    return path


def make_half(path):
    whole = make(path.with_suffix(".whole"), 5000).read_bytes()
    path.write_bytes(whole[:len(whole) // 2])
    return path


def make_foreign(path):
    """A SQLite database that is not a recording."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE shopping(item)")
    database.close()
    return path


def damaged(folder):
    """(what, path, required part of the message) for everything that is not a recording."""
    text = folder / "notes.db"
    text.write_text("these are my notes, not a recording\n" * 100)
    empty = folder / "empty.db"
    empty.touch()
    directory = folder / "folder.db"
    directory.mkdir()
    return [
        ("missing", folder / "nowhere.db", "nowhere.db"),
        ("text", text, "notes.db"),
        ("empty", empty, "empty.db"),
        ("directory", directory, "folder.db"),
        ("foreign", make_foreign(folder / "shop.db"), "shop.db"),
    ]
