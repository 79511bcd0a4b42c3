"""What a replay knows of a connection before a whole request has gone over it.

A client that is watched at the socket connects first and asks then. So a playback must say two things early, and says
them only where the record does:

- whether the connection made next failed: the next effect of this task path, among those of the same library, is that
  failure, at the same endpoint;
- what was read before a request was sent whole (`100 Continue`, or a final answer that came first).

Only a failure that is given is consumed. Standard library only.
"""

from __future__ import annotations

from tachograph.comparison.headers import significant
from tachograph.formats.credentials import redact_headers, redact_url
from tachograph.model.effect import MOVE, WIRE
from tachograph.replay.played import Played
from tachograph.seams import context
from tachograph.seams.port import FAILED_AT, SEND_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tachograph.model.effect import Effect
    from tachograph.replay.playback import Playback
    from tachograph.seams.port import Headers


def failed_at(effect: Effect) -> bytes:
    """Say where a connection failed; empty where the effect is a request."""
    first = effect.headers[0] if effect.method == "CONNECT" and effect.headers else (b"", b"")
    return first[1] if first[0] == FAILED_AT else b""


class Connections:
    """What a playback's record says of connections, among the effects that are still free."""

    def __init__(self, playback: Playback, effects: list[Effect]) -> None:
        self._playback = playback
        # Most runs have none, and then a connection costs one look-up, however many effects wait.
        self._failures = {(one.library, one.url, one.path) for one in effects if failed_at(one)}
        self._unsent = {(one.library, one.method, one.url) for one in effects if not one.body_complete}

    def ask(self, library: str, url: str) -> tuple[Played, bytes] | None:
        """Return the failure that was recorded of the connection made next there, and where it failed, or None."""
        path = context.here().path
        if (library, url, path) not in self._failures:
            return None
        effect = self._playback.take(lambda free: _next_failure(free, library, url, path))
        return None if effect is None else (Played(self._playback, effect), failed_at(effect))

    def refuses(self, library: str, url: str) -> bool:
        """Say whether the connection made next there failed in the record."""
        path = context.here().path
        if (library, url, path) not in self._failures:
            return False
        with self._playback.ledger:
            return _next_failure(self._playback.left(), library, url, path) is not None

    def stops(self, library: str, method: str, url: str, headers: Headers, parts: list[bytes]) -> bool:
        """Say whether sending such a request failed when so much of its body had been handed over."""
        begun = library, method, redact_url(url)[0]
        if begun not in self._unsent:
            return False
        wanted, body = significant(redact_headers(headers)[0]), b"".join(parts)
        with self._playback.ledger:
            alike = [one for one in self._playback.left() if (one.library, one.method, one.url) == begun]
        return any(
            one.body == body and _send_failed(one) and significant(one.headers) == wanted
            for one in alike
            if not one.body_complete
        )

    def foresee(self, library: str, method: str, url: str, headers: Headers) -> tuple[list[bytes], bool]:
        """Return what was read before a request with this head was sent whole, and whether it ever was."""
        path, wanted = context.here().path, significant(redact_headers(headers)[0])
        begun = library, method, redact_url(url)[0]
        with self._playback.ledger:
            alike = [one for one in self._playback.left() if (one.library, one.method, one.url) == begun]
        fitting = [one for one in alike if significant(one.headers) == wanted]
        if not fitting:
            return [], True
        effect = min(fitting, key=lambda one: (one.path != path, one.index))
        arrived = [arrival for arrival in effect.arrivals if arrival.kind == WIRE]
        if not effect.body_complete:
            return [arrival.data for arrival in arrived], False
        return [arrival.data for arrival in arrived if arrival.at_ns < effect.sent_at_ns], True


def _send_failed(effect: Effect) -> bool:
    return any(one.kind == MOVE and one.data.startswith(SEND_FAILED) for one in effect.arrivals)


def _next_failure(free: list[Effect], library: str, url: str, path: str) -> Effect | None:
    mine = [one for one in free if one.library == library and one.path == path]
    first = min(mine, key=lambda one: one.index, default=None)
    return first if first is not None and first.url == url and failed_at(first) else None
