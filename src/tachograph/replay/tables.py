"""A SQLite database as values: the rows of each table, and the statements that made them.

Read from copies in a temporary folder, so that no lock, journal or change counter of a user's file is touched. Nothing
that a database brings along is run: its views and triggers are only text here, its virtual tables are left out.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from typing import Any

_MAGIC = b"SQLite format 3\0"


def is_database(data: bytes) -> bool:
    """Say whether these bytes are a SQLite database."""
    return data.startswith(_MAGIC)


def tables(data: bytes, wal: bytes = b"") -> dict[str, Any] | None:
    """Return `{table: {"rows": [{column: value}], "sql": ...}}`, and what else its schema holds by name.

    `wal` is the content of the write-ahead log beside it. None where SQLite cannot read it.
    """
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        path = os.path.join(folder, "copy.db")
        for name, content in ((path, data), (path + "-wal", wal)):
            if content:
                with open(name, "wb") as file:
                    file.write(content)
        try:
            with closing(sqlite3.connect(path)) as database:
                database.execute("pragma trusted_schema = off")
                return _read(database)
        except sqlite3.Error:
            return None


def _read(database: sqlite3.Connection) -> dict[str, Any]:
    database.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
    found: dict[str, Any] = {}
    schema = database.execute("select type, name, sql from sqlite_schema order by type, name").fetchall()
    for kind, name, sql in schema:
        if kind != "table":
            if sql is not None:  # an index that a constraint made by itself has none
                found[name] = {"sql": sql}
            continue
        virtual = str(sql or "").upper().startswith("CREATE VIRTUAL")
        found[name] = {"rows": [] if virtual else _rows(database, name), "sql": sql}
    return found


def _rows(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    quoted = '"' + table.replace('"', '""') + '"'
    cursor = database.execute(f"select * from {quoted}")
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor]
