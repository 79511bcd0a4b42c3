"""An agent with a memory: a SQLite database, a JSON checkpoint, a journal that it appends to; each run counts on.

Settings: `url` of a server, `notes` that it reads, `stray` to write a file that it usually does not.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

import httpx

settings = json.loads(sys.argv[1])
checkpoint = Path("state") / "checkpoint.json"
before = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"runs": 0}
notes = Path("notes.txt").read_text() if Path("notes.txt").exists() else ""
database = sqlite3.connect("memory.db")
database.execute("create table if not exists said (n integer primary key, answer text)")
known = database.execute("select count(*) from said").fetchone()[0]
question = {"model": "m", "messages": [{"role": "user", "content": f"run {before['runs']}, known {known}, {notes}"}]}
answer = httpx.post(settings["url"] + "/v1/chat/completions", json=question).json()
text = answer["choices"][0]["message"]["content"]
database.execute("insert into said (answer) values (?)", (text,))
database.commit()
database.close()
checkpoint.parent.mkdir(exist_ok=True)
with tempfile.NamedTemporaryFile("w", dir=checkpoint.parent, delete=False) as file:
    json.dump({"runs": before["runs"] + 1, "last": text}, file)
os.replace(file.name, checkpoint)
with open("journal.txt", "a", encoding="utf-8") as journal:
    journal.write(f"{before['runs']} {text}\n")
print(before["runs"], known, text)
