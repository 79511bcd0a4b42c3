"""Programs for clients of `http.client`, written once over `call(method, path, body, headers)` and `parts(path)`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.testing.scripted import ScriptedServer
from tests.seams.driver import Recorded, Session
from tests.seams.tls import TlsServer

HEAD = """
import http.client, json, os, socket, ssl, sys, threading, urllib.request
BASE, CA = sys.argv[1], os.environ.get("CA")
HOST = BASE.split("//")[1]
def told(*words):
    print(*words, flush=True)
def links(fault):
    names = []
    while fault is not None:
        names.append(f"{type(fault).__module__}.{type(fault).__name__}: {fault}".split("object at")[0])
        fault = fault.__cause__ or next((a for a in fault.args if isinstance(a, BaseException)), None)
    return names
def tried(what, *args):
    try:
        told("gave", what(*args))
    except Exception as fault:
        told("raised", links(fault))
"""
CLIENTS = {
    "http.client": """
context = ssl.create_default_context(cafile=CA) if CA else None
def opened():
    if CA:
        return http.client.HTTPSConnection(HOST, timeout=LIMIT, context=context)
    return http.client.HTTPConnection(HOST, timeout=LIMIT)
kept = opened()
def asked(method, path, body=None, headers={}):
    global kept
    kept.request(method, path, body, headers)
    return kept.getresponse()
def call(*given):
    try:
        r = asked(*given)
        return r.status, r.reason, r.getheaders(), r.read(), r.isclosed()
    except Exception:
        kept.close()
        raise
def parts(path):
    r, found = asked("GET", path), []
    while part := r.read1(65536):
        found.append(part)
    r.close()
    return found
""",
    "urllib": """
context = ssl.create_default_context(cafile=CA) if CA else None
def asked(method, path, body=None, headers={}):
    return urllib.request.urlopen(
        urllib.request.Request(BASE + path, body, headers, method=method), timeout=LIMIT, context=context
    )
def call(*given):
    with asked(*given) as r:
        return r.status, r.reason, r.getheaders(), r.read(), r.url
def parts(path):
    with asked("GET", path) as r:
        return list(r)
""",
    "urllib3": """
import urllib3
pool = urllib3.PoolManager(timeout=LIMIT, retries=False, ca_certs=CA)
def call(method, path, body=None, headers={}):
    r = pool.request(method, BASE + path, body=body, headers=headers)
    return r.status, r.reason, list(r.headers.items()), r.data
def parts(path):
    r = pool.request("GET", BASE + path, preload_content=False)
    found = list(r.stream(65536))
    r.release_conn()
    return found
""",
    "requests": """
import requests
session = requests.Session()
def call(method, path, body=None, headers={}):
    r = session.request(method, BASE + path, data=body, headers=headers, timeout=LIMIT, verify=CA or True)
    return r.status_code, r.reason, list(r.headers.items()), r.content, r.url, len(r.history)
def parts(path):
    with session.get(BASE + path, stream=True, timeout=LIMIT) as r:
        return list(r.iter_content(None))
""",
    "botocore": """
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session
aws = URLLib3Session(verify=CA or True, timeout=LIMIT)
def asked(method, path, body=None, headers={}, stream=False):
    request = AWSRequest(method=method, url=BASE + path, data=body, headers=headers, stream_output=stream)
    return aws.send(request.prepare())
def call(*given):
    r = asked(*given)
    return r.status_code, list(r.headers.items()), r.content
def parts(path):
    return list(asked("GET", path, stream=True).raw.stream(65536))
""",
}
each_client = pytest.mark.parametrize("client", list(CLIENTS))


def written(body: str, client: str, limit: float = 10) -> str:
    """A program that does `body` with this client."""
    return HEAD + f"LIMIT = {limit}\n" + CLIENTS[client] + textwrap.dedent(body)


def twice(folder: Path, source: str, server: ScriptedServer, *args: str, alone: bool = True) -> Recorded:
    """Run without us, record, replay: the same words each time, and not one connection in the replay."""
    session = Session(folder, source)
    environment = {"CA": str(server.authority)} if isinstance(server, TlsServer) else {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        without = session.plain(server.url, *args) if alone else None
        recorded = session.record(server.url, *args)
        if without is not None:
            assert without.status == 0, without.err
            assert recorded.out == without.out
        assert recorded.notes() == []
        before = server.hits, server.connections
        replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (server.hits, server.connections) == before
    assert replayed.clean, (replayed.misses, replayed.attempts, replayed.said(fr.UNORDERED), replayed.said(fr.CHUNK))
    assert replayed.drift == []
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    return recorded
