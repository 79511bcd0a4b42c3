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
from tachograph.replay.shelf import Shelves
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
        self._begun, self._of_library = Shelves(playback.is_free), Shelves(playback.is_free)
        for one in effects:
            self._begun.add((one.library, one.method, one.url), one)
            self._of_library.add(one.library, one)
        # Most runs have none, and then a connection costs one look-up, however many effects wait.
        self._failures = {(one.library, one.url, one.path) for one in effects if failed_at(one)}
        self._unsent = {(one.library, one.method, one.url) for one in effects if not one.body_complete}

    def ask(self, library: str, url: str) -> tuple[Played, bytes] | None:
        """Return the failure that was recorded of the connection made next there, and where it failed, or None."""
        path = context.here().path
        if (library, url, path) not in self._failures:
            return None
        effect = self._playback.take(lambda: self._next_failure(library, url, path))
        return None if effect is None else (Played(self._playback, effect), failed_at(effect))

    def refuses(self, library: str, url: str) -> bool:
        """Say whether the connection made next there failed in the record."""
        path = context.here().path
        if (library, url, path) not in self._failures:
            return False
        with self._playback.ledger:
            return self._next_failure(library, url, path) is not None

    def stops(self, library: str, method: str, url: str, headers: Headers, parts: list[bytes]) -> bool:
        """Say whether sending such a request failed when so much of its body had been handed over."""
        begun = library, method, redact_url(url)[0]
        if begun not in self._unsent:
            return False
        wanted, body = significant(redact_headers(headers)[0]), b"".join(parts)
        with self._playback.ledger:
            alike = list(self._begun.left(begun, context.here().path))
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
            effect = self._with_head(begun, path, wanted)
        if effect is None:
            return [], True
        arrived = [arrival for arrival in effect.arrivals if arrival.kind == WIRE]
        if not effect.body_complete:
            return [arrival.data for arrival in arrived], False
        return [arrival.data for arrival in arrived if arrival.at_ns < effect.sent_at_ns], True

    def _with_head(
        self, begun: tuple[str, str, str], path: str, wanted: dict[bytes, tuple[bytes, ...]]
    ) -> Effect | None:
        for effect in self._begun.left(begun, path):
            if significant(effect.headers) == wanted:
                return effect
        return None

    def _next_failure(self, library: str, url: str, path: str) -> Effect | None:
        first = self._of_library.next(library, path)
        mine = first is not None and first.path == path and first.url == url
        return first if first is not None and mine and failed_at(first) else None


def _send_failed(effect: Effect) -> bool:
    return any(one.kind == MOVE and one.data.startswith(SEND_FAILED) for one in effect.arrivals)
