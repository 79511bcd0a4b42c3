"""`python -m tests.store.sample FOLDER` writes a small store as this version writes it, and what must be read from it.

Done once per format; the result is committed under `tests/store/samples/` and never changed again.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from tachograph.store.entry import CAPTURE, RUN
from tachograph.store.journal import Journal
from tachograph.store.keytable import SECRET
from tachograph.store.segments import ContentStore, Place
from tachograph.store.summary import seal_title
from tests.store.kept import DOMAIN, OTHER_DOMAIN, Kept, conversation, entry


def write(folder: Path) -> None:
    """Write the store, its keys, and `expected.json`."""
    kept = Kept(folder)
    keys = kept.keys(write=True)
    content = ContentStore(kept.store.segments, keys)
    journal = Journal(kept.store.journal, write=True)
    expected = []
    for number, (log, cuts) in enumerate(conversation(6)):
        domain = OTHER_DOMAIN if number > 3 else DOMAIN
        place = content.append(domain, log, cuts)
        one, secret = entry(number, place), sha256(b"%d" % number).digest()
        keys.add(SECRET, one.decision.encode(), domain, secret)
        title = seal_title(secret, one.decision, f"title {number}")
        kind = RUN if number == 5 else CAPTURE
        one = replace(one, domain=domain, kind=kind, summary=replace(one.summary, title=title, failed=number == 1))
        content.commit()
        journal.append_batch([replace(one, signature=b"s" * 64, leaf=number) if number == 2 else one])
        expected.append({"decision": one.decision, "log": sha256(log).hexdigest(), "title": f"title {number}",
                         "payload": one.payload.decode(), "place": place, "kind": kind})  # fmt: skip
    content.seal(Place(*expected[0]["place"]).segment)
    for part in (content, journal, keys):
        part.close()
    shutil.move(kept.store.path, folder / "store")
    (folder / "store" / ".gitignore").unlink()
    for name in ("spool", "log"):
        (folder / "store" / name).rmdir()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
