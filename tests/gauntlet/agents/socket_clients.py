"""The same face for clients that stand on `http.client`: urllib, urllib3, requests, botocore. They only block."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

LIBRARIES = ("urllib", "urllib3", "requests", "botocore")


class Raw:
    """Headers as pairs of bytes, where httpx has them."""

    def __init__(self, pairs: Any) -> None:
        self.raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


class Answer:
    """An open answer: its head, and its body as it comes."""

    def __init__(self, status: int, headers: Any, parts: Callable[[], Iterator[bytes]]) -> None:
        self.status_code = status
        self.headers = Raw(headers)
        self.iter_raw = parts

    @property
    def content(self) -> bytes:
        """All of the body."""
        return b"".join(self.iter_raw())


def _read(answer: Any) -> Iterator[bytes]:
    while part := answer.read1(65536):
        yield part
    if answer.length:  # what `read` would say
        raise http.client.IncompleteRead(b"", answer.length)


class Client:
    """One library, `post` and `stream` as httpx has them."""

    def __init__(self, library: str, *, timeout: float, headers: dict[str, str]) -> None:
        self._headers = {"content-type": "application/json", **headers}
        self._timeout = timeout
        opened: Any = getattr(self, f"_{library}")()
        self._open, self.refused = opened

    def _urllib(self) -> tuple[Callable[..., Any], type[Exception]]:
        def asked(url: str, body: bytes) -> tuple[Answer, Any]:
            request = urllib.request.Request(url, body, self._headers)
            try:
                got: Any = urllib.request.urlopen(request, timeout=self._timeout)
            except urllib.error.HTTPError as fault:
                got = fault
            return Answer(got.status, got.headers.items(), lambda: _read(got)), got

        return asked, urllib.error.URLError

    def _urllib3(self) -> tuple[Callable[..., Any], type[Exception]]:
        urllib3 = importlib.import_module("urllib3")
        pool = urllib3.PoolManager(timeout=self._timeout, retries=False)

        def asked(url: str, body: bytes) -> tuple[Answer, Any]:
            got = pool.request("POST", url, body=body, headers=self._headers, preload_content=False)
            return Answer(got.status, got.headers.items(), lambda: got.stream(65536)), got

        return asked, urllib3.exceptions.NewConnectionError

    def _requests(self) -> tuple[Callable[..., Any], type[Exception]]:
        requests = importlib.import_module("requests")
        session = requests.Session()

        def asked(url: str, body: bytes) -> tuple[Answer, Any]:
            got = session.post(url, data=body, headers=self._headers, timeout=self._timeout, stream=True)
            return Answer(got.status_code, got.headers.items(), lambda: got.iter_content(None)), got

        return asked, requests.exceptions.ConnectionError

    def _botocore(self) -> tuple[Callable[..., Any], type[Exception]]:
        request = importlib.import_module("botocore.awsrequest").AWSRequest
        exceptions = importlib.import_module("botocore.exceptions")
        session = importlib.import_module("botocore.httpsession").URLLib3Session(timeout=self._timeout)

        def asked(url: str, body: bytes) -> tuple[Answer, Any]:
            made = request(method="POST", url=url, data=body, headers=self._headers, stream_output=True)
            got = session.send(made.prepare())
            return Answer(got.status_code, got.headers.items(), lambda: got.raw.stream(65536)), got.raw

        return asked, exceptions.EndpointConnectionError

    def post(self, url: str, json: Any) -> Answer:
        """Ask and read all of the answer."""
        with self.stream(method="POST", url=url, json=json) as answer:
            body = answer.content
        answer.iter_raw = lambda: iter((body,))
        return answer

    @contextlib.contextmanager
    def stream(self, *, method: str, url: str, json: Any) -> Iterator[Answer]:
        """Ask and give the open answer."""
        answer, got = self._open(url, _dumped(json))
        try:
            yield answer
        finally:
            got.close()


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()
