"""The seam of `http.client`: urllib, requests, urllib3 and botocore, and whatever else makes its connections with it.

They read past `HTTPResponse` in ways of their own, so they are watched where all of them end: at the socket. `connect`
of every class of connections is patched, those that are made later too, and only the outermost counts. What it leaves
in `sock` is wrapped (`http_client_watched`, `http_client_played`), above TLS and behind a proxy's tunnel: the bytes of
the conversation.

- a connection that fails is an effect of its own, method `CONNECT`. Kept is the error under the client's own: in a
  replay it is raised where the client reaches for the network, and the client builds upon it what it built then;
- in a replay nothing connects: no name is looked up, no tunnel and no TLS is made;
- a connection that stood before anybody listened is watched from its next request on.
"""

from __future__ import annotations

from tachograph.seams import context, listeners, port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_connecting: set[int] = set()  # connections inside their outermost `connect`, by id: nothing of ours is left on them


def _is_tls(connection: Any) -> bool:
    return getattr(connection, "default_port", 80) == 443


def endpoint_of(connection: Any) -> str:
    """Return whom a connection talks to, `scheme://host[:port]`: behind a tunnel, the one at its end."""
    tls = _is_tls(connection)
    host, number = connection.host, connection.port
    if getattr(connection, "_tunnel_host", None):
        host, number = connection._tunnel_host, connection._tunnel_port
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    known = number in (None, 443 if tls else 80)
    return f"{'https' if tls else 'http'}://{host}" + ("" if known else f":{number}")


def _patch(module: ModuleType) -> None:
    from tachograph.seams.http_client_played import PlayedSocket  # here and not at the top: they import `socket`
    from tachograph.seams.http_client_sockets import LIBRARY
    from tachograph.seams.http_client_watched import WatchedSocket

    def watch(connection: Any, listener: Any, connect: Callable[[], Any]) -> Any:
        endpoint = endpoint_of(connection)
        tokens = context.claimed.set(True), context.connecting.set(True)
        try:
            result = connect()
        except BaseException as fault:
            error, where = _lowest(connection, fault)
            exchange = listener.call(LIBRARY, "CONNECT", endpoint + "/", [(port.FAILED_AT, where)], b"")
            exchange.end(port.how_of(fault), error)
            raise
        finally:
            context.claimed.reset(tokens[0])
            context.connecting.reset(tokens[1])
        if connection.sock is not None:
            connection.sock = WatchedSocket(connection.sock, endpoint)
        return result

    def play(connection: Any, listener: Any, connect: Callable[[], Any]) -> None:
        endpoint = endpoint_of(connection)
        failure = listener.connections.ask(LIBRARY, endpoint + "/")
        if failure is not None:
            answer, where = failure
            _fail(connection, answer.wait().error(), where, connect)
        timeout = connection.timeout if isinstance(getattr(connection, "timeout", None), (int, float)) else None
        connection.sock = PlayedSocket(endpoint, tls=_is_tls(connection), timeout=timeout)
        _settle(connection)

    def patched(original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: Any, *args: Any, **kwargs: Any) -> Any:
            listener = port.current
            if listener is None or id(self) in _connecting or _stays_inside(self):
                return original(self, *args, **kwargs)
            _connecting.add(id(self))
            try:
                handle = play if listener.answers else watch
                return handle(self, listener, lambda: original(self, *args, **kwargs))
            finally:
                _connecting.discard(id(self))

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(connect, name, getattr(original, name, None))
        connect.__wrapped__ = original  # type: ignore[attr-defined]
        connect._tachograph = True  # type: ignore[attr-defined]
        return connect

    def patch(cls: Any) -> None:
        found = next((one.__dict__["connect"] for one in cls.__mro__ if "connect" in one.__dict__), None)
        if callable(found) and not getattr(found, "_tachograph", False):
            cls.connect = patched(found)

    def patch_all(cls: Any) -> None:
        patch(cls)
        for one in cls.__subclasses__():
            patch_all(one)

    base: Any = module.HTTPConnection

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)
        patch(cls)

    send = base.send

    def send_watched(self: Any, data: Any) -> None:
        sock = self.sock
        if sock is not None and type(sock) is not WatchedSocket and type(sock) is not PlayedSocket:
            listener = port.current
            if listener is not None and not listener.answers and id(self) not in _connecting and _goes_out(sock):
                self.sock = WatchedSocket(sock, endpoint_of(self))
        send(self, data)

    for name in ("__module__", "__qualname__", "__doc__"):
        setattr(send_watched, name, getattr(send, name))
    send_watched.__name__ = "send"
    base.__init_subclass__ = classmethod(__init_subclass__)
    base.send = send_watched
    patch_all(base)


def _stays_inside(connection: Any) -> bool:
    """Whether the run itself listens there: such a call is no effect, and passes in a replay as well."""
    return listeners.is_own(connection.host, connection.port)


def _goes_out(sock: Any) -> bool:
    # A pair that the program made itself is no connection to anybody, and one to its own listener none to elsewhere.
    if int(getattr(sock, "family", 0)) not in (2, 10):
        return False
    try:
        return not listeners.is_own_address(sock.getpeername())
    except OSError:
        return True


def _lowest(connection: Any, fault: BaseException) -> tuple[BaseException, bytes]:
    """The error to keep of a connection that failed: where the client wrapped what the network said, that."""
    cause = fault.__cause__
    if isinstance(cause, OSError) and not isinstance(fault, OSError):
        step = cause.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_name == "create_connection":
                return cause, port.DIAL
            step = step.tb_next
    return fault, port.BEHIND if getattr(connection, "_has_connected_to_proxy", False) else port.LATER


def _fail(connection: Any, error: BaseException, where: bytes, connect: Callable[[], Any]) -> None:
    """Raise the recorded error of a connection where it was raised."""
    if where == port.DIAL:
        token = context.failing.set(error)
        try:
            connect()
        finally:
            context.failing.reset(token)
    elif where == port.BEHIND:
        connection._has_connected_to_proxy = True  # urllib3 then knows that it is not the proxy's fault
    raise error


def _settle(connection: Any) -> None:
    """Leave on a connection of urllib3 what its own `connect` leaves there."""
    if not hasattr(type(connection), "is_verified"):
        return
    tls, proxied = _is_tls(connection), bool(getattr(connection, "proxy", None))
    tunnelled = bool(getattr(connection, "_tunnel_host", None))
    wanted = getattr(connection, "cert_reqs", None)
    verified = tls and (str(wanted).endswith("REQUIRED") or wanted == 2 or bool(connection.assert_fingerprint))
    connection.is_verified = verified and (tunnelled or not proxied)
    if hasattr(connection, "_has_connected_to_proxy"):
        connection._has_connected_to_proxy = proxied
    if proxied:
        over_tls = tls and (not tunnelled or getattr(connection, "_tunnel_scheme", None) == "https")
        connection.proxy_is_verified = verified and over_tls


def install() -> None:
    """Watch every connection of `http.client`, when the program imports it."""
    when_imported("http.client", _patch)
