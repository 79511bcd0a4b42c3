"""A second verifier of `*.tacho` bundles, on about a page, written from the formats alone: it imports nothing of ours.

Usage: python verify_bundle.py FILE.tacho [DIGEST-OF-A-KEY-YOU-TRUST ...]
Python 3.11 and `cryptography`, no network, nothing written. It prints by name: format (what MANIFEST lists), every
signature, inclusion under the log's signed checkpoint, content against its commitments. Exit code 0: nothing failed.
What is not there is counted: whether it was rightly withheld says EXPORT.
"""

# fmt: off
import json
import re
import sys
import zipfile
from base64 import b64decode
from contextlib import suppress
from decimal import Decimal
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

UNSIGNED = {"salts", "signature", "log", "disclosure", "views"}
BESIDE = {"requestPayload": "requestPayloadHash", "systemPromptText": "systemPromptHash", "input": "inputHash",
          "developerPromptText": "developerPromptHash", "toolSchemaJson": "toolSchemaHash", "output": "outputHash",
          "renderedContent": "renderedContentHash", "finalOutputText": "finalOutputHash"}

def hexed(data):
    return sha256(data).hexdigest()

def must(fits, what):
    if not fits:
        raise ValueError(what)

def strict(data):
    def once(pairs):
        must(len(dict(pairs)) == len(pairs), "a key stands twice")
        return dict(pairs)
    return json.loads(data.decode(), object_pairs_hook=once)

def canonical(value):  # RFC 8785
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and (1e-6 <= abs(value) < 1e-4 or (value == int(value) and abs(value) < 1e21)):
        return format(Decimal(text), "f").removesuffix(".0")
    return re.sub("e([+-])0", r"e\1", text) if isinstance(value, float) else text

def signed_by(keys, signature, data):
    for digits, key in keys.items():
        with suppress(InvalidSignature):
            key.verify(signature, data)
            return digits
    raise ValueError("none of these keys made this signature")

def opened(data, keys):  # DSSE: the payload is parsed once its signature fits
    envelope = strict(data)
    kind, payload = envelope["payloadType"].encode(), b64decode(envelope["payload"], validate=True)
    signature = b64decode(envelope["signatures"][0]["sig"], validate=True)
    key = signed_by(keys, signature, b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    must(strict(payload)["sealing"]["signer"]["keyDigest"] == "sha256:" + key, "it names another key than its signer's")
    return strict(payload), payload, signature, key

def log_signed(checkpoint, keys):  # C2SP signed-note; the log's own signature, of type 1
    text, lines = checkpoint.split("\n\n", 1)
    origin, size, root = text.split("\n")[:3]
    own = [b64decode(line.rsplit(" ", 1)[1]) for line in lines.splitlines() if line.startswith(f"\u2014 {origin} ")]
    key = keys[signed_by(keys, own[0][4:], text.encode() + b"\n")]
    must(own[0][:4] == sha256(origin.encode() + b"\n\1" + key.public_bytes_raw()).digest()[:4], "it names another key")
    return origin, int(size), b64decode(root)

def included(entry, proof, size, root):  # C2SP tlog-proof, RFC 9162 section 2.1.3.2
    lines = [line for line in proof.split("\n\n")[0].split("\n") if not line.startswith("extra ")]
    index, node = int(lines[1].removeprefix("index ")), sha256(b"\0" + entry).digest()
    place, last = index, size - 1
    for step in map(b64decode, lines[2:]):
        left = place & 1 or place == last
        node = sha256(b"\1" + (step + node if left else node + step)).digest()
        while left and place and not place & 1:
            place, last = place >> 1, last >> 1
        place, last = place >> 1, last >> 1
    must(0 <= index < size and not last and node == root, "it is not the leaf of its number under the checkpoint")
    return index

def examine(id, members, keys):  # capture-v1 rule 3: content opens its commitment, the rest was signed
    document, payload = strict(members[f"captures/{id}.json"]), opened(members[f"envelopes/{id}.dsse.json"], keys)[0]
    states, salts, signer = [], document.get("salts", {}), payload["sealing"]["signer"]
    must(document["signature"]["publicKeyRef"] == signer["publicKeyRef"], "its signature names another key")
    for pointer, said in payload["commitments"].items():
        *path, name = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        holder, kind, salt = document, said.split(" ")[0], str(salts.get(pointer))
        for part in path:
            holder = holder[int(part)] if isinstance(holder, list) else holder.get(part, {})
        states.append("intact" if name in holder else "not there")
        if name not in holder:
            continue
        value, beside = holder.pop(name), holder.pop(BESIDE.get(name), None)
        data = value.encode() if kind == "text" else canonical(value).encode()
        if kind == "blob":
            data, _ = members[f"blobs/{value[7:]}"], holder.pop("hashOf", None)
        digest = value if kind == "tree" else "sha256:" + hexed(data)
        made = hexed(f"tachograph-commit-v1 {kind} {pointer} {salt} {digest}".encode())
        fits = re.fullmatch("[0-9a-f]{32}", salt) and said == f"{kind} sha256:{made}" and beside in (None, digest)
        must(fits and (kind != "blob" or value == digest), f"{pointer} is not what was committed")
    must(canonical({n: document[n] for n in document.keys() - UNSIGNED}) == canonical(payload), "unsigned parts")
    return f"({states.count('intact')} intact, {states.count('not there')} not there)"

def main(path, *trusted):
    with zipfile.ZipFile(path) as archive:
        must(sum(one.file_size for one in archive.infolist()) <= 1 << 30, "over 1 GiB")
        names, members = archive.namelist(), {name: archive.read(name) for name in archive.namelist()}
    pems = [load_pem_public_key(data) for name, data in members.items() if re.fullmatch(r"keys/.*\.pem", name)]
    keys, log, failed = {hexed(key.public_bytes_raw()): key for key in pems}, [], []
    def check(where, what, run, *given):
        try:
            print(ascii(f"{where}: {what}: ok {run(*given) or ''}".rstrip())[1:-1])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as fault:
            failed.append(print(ascii(f"{where}: {what}: FAILED, {fault}")[1:-1]))
    def lists():
        listed = {name: one["digest"] for name, one in strict(members["MANIFEST.json"])["members"].items()}
        there = {name: "sha256:" + hexed(data) for name, data in members.items()}
        manifest, *_ = (there.pop(name) for name in ("MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS"))
        must(listed == there and len(members) == len(names), "MANIFEST.json does not fit the members")
        read, *_, key = opened(members["EXPORT.dsse.json"], keys)
        must(read["body"]["manifest"] == manifest, "EXPORT.dsse.json signs another MANIFEST.json")
        return f"(exported by {'known' if key in trusted else 'unknown'} key {key})"
    def record(id):
        read, payload, signature, key = opened(members[f"envelopes/{id}.dsse.json"], keys)
        must(id in map(read.get, ("decisionId", "statementId")), "it is another record")
        kind = read["type"] if id.startswith("stm_") else "capture" if id.startswith("dec_") else "addendum"
        entry = {"payload": "sha256:" + hexed(payload), "signature": "sha256:" + hexed(signature), "type": kind}
        index = included(canonical(entry).encode(), members[f"log/proofs/{id}.tlog-proof"].decode(), *log[1:])
        must([read["sealing"][name] for name in ("origin", "sequence")] == [log[0], index], "it has another place")
        return f"(leaf {index} of {log[1]}, {'known' if key in trusted else 'identity NOT CHECKED, unknown'} key {key})"
    check("bundle", "format", lists)
    def logged():  # by a key that a statement registers as the log's, signed by a key that you know if you know any
        stated = (opened(data, keys) for name, data in members.items() if name.startswith("envelopes/stm_"))
        known = (read["body"] for read, *_, key in stated if key in (trusted or keys))
        own = {body["keyDigest"][7:]: keys[body["keyDigest"][7:]] for body in known if body.get("role") == "log"}
        log.extend(log_signed(members["log/checkpoint"].decode(), own))
    check("log", "signature", logged)
    for folder, what, run, *given in (("envelopes", "record", record), ("captures", "content", examine, members, keys)):
        for id in sorted(name.split("/")[1].split(".")[0] for name in members if name.startswith(folder + "/")):
            check(id, what, run, id, *given)
    return len(failed) > 0

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
