"""Which calls of native code go on inside, which are attempts, and which are refused without a word."""

from __future__ import annotations

import pytest

from tachograph.formats import frame as fr
from tests.replay.confinement.closed import NAMESPACES, Closed, python

pytestmark = NAMESPACES


def _attempts(closed: Closed) -> list[tuple[str, str]]:
    return [(said["what"], said["where"].split(" by ")[0]) for said in closed.of(fr.ATTEMPT)]


def _run(source: str) -> Closed:
    closed = python("if True:\n    import socket as s, os, threading, ctypes\n" + source)
    assert closed.err == "", closed
    return closed


def test_the_world_s_own_servers_are_reached_over_every_kind_of_socket() -> None:
    closed = _run("""
    for host, family in (("127.0.0.1", s.AF_INET), ("::1", s.AF_INET6)):
        server = s.create_server((host, 0), family=family)
        s.create_connection(server.getsockname()[:2]).send(b"tcp"); print(server.accept()[0].recv(9))
        udp = s.socket(family, s.SOCK_DGRAM); udp.bind((host, 0))
        s.socket(family, s.SOCK_DGRAM).sendto(b"udp", udp.getsockname()); print(udp.recv(9))
        s.socket(family, s.SOCK_DGRAM).sendmsg([b"msg"], [], 0, udp.getsockname()); print(udp.recv(9))
    named = s.socket(s.AF_UNIX); named.bind("\\0own"); named.listen()
    s.socket(s.AF_UNIX).connect("\\0own"); print("abstract")
    one, other = s.socketpair(); one.sendmsg([b"pair"]); print(other.recv(9))
    """)
    assert closed.out.split() == ["b'tcp'", "b'udp'", "b'msg'"] * 2 + ["abstract", "b'pair'"]
    assert _attempts(closed) == []


def test_every_other_address_is_an_attempt_that_is_refused() -> None:
    closed = _run("""
    def tried(act):
        try: act(); print("OUT")
        except OSError as fault: print(type(fault).__name__)
    tried(lambda: s.socket().connect(("192.0.2.1", 80)))
    tried(lambda: s.socket().connect(("127.0.0.1", 9)))
    tried(lambda: s.socket(s.AF_INET6).connect(("2001:db8::1", 80)))
    tried(lambda: s.socket(s.AF_INET6).connect(("::ffff:192.0.2.1", 80)))
    tried(lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).connect(("192.0.2.1", 53)))
    tried(lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).connect(("127.0.0.1", 53)))
    tried(lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 80)))
    tried(lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("127.0.0.1", 9)))
    tried(lambda: s.socket(s.AF_UNIX).connect("\\0other"))
    tried(lambda: s.socket(40, s.SOCK_STREAM))
    """)
    assert closed.out == "PermissionError\n" * 8 + "ConnectionRefusedError\nPermissionError\n"
    assert _attempts(closed) == [
        ("connect", "192.0.2.1:80"), ("connect", "127.0.0.1:9"), ("connect", "[2001:db8::1]:80"),
        ("connect", "[::ffff:192.0.2.1]:80"), ("connect", "192.0.2.1:53"), ("connect", "127.0.0.1:53"),
        ("sendto", "192.0.2.1:80"), ("sendmsg", "127.0.0.1:9"), ("connect", "unix:@other"),
        ("socket", "AF_VSOCK, SOCK_STREAM"),
    ]  # fmt: skip
    assert all(" by /" in said["where"] for said in closed.of(fr.ATTEMPT))


def test_sendmmsg_is_looked_at_message_by_message() -> None:
    closed = _run("""
    import struct
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.create_string_buffer(struct.pack("=H", 2) + struct.pack(">H4B8x", 9, 192, 0, 2, 1), 16)
    data = ctypes.create_string_buffer(b"x", 1)
    vector = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(data), 1), 16)
    named = [(0, 0), (ctypes.addressof(address), 16)]
    layout, rest = "=QIxxxxQQQQixxxxIxxxx", (ctypes.addressof(vector), 1, 0, 0, 0, 0)
    messages = ctypes.create_string_buffer(b"".join(struct.pack(layout, *one, *rest) for one in named), 128)
    one = s.socket(s.AF_INET, s.SOCK_DGRAM)
    print(libc.sendmmsg(one.fileno(), messages, 2, 0), ctypes.get_errno())
    """)
    assert closed.out == "-1 13\n"
    assert _attempts(closed) == [("sendmmsg", "192.0.2.1:9")]


def test_what_the_c_library_does_by_itself_is_not_told() -> None:
    closed = _run("""
    import pwd, grp
    print(s.getaddrinfo("localhost", 80)[0][1].name)
    print(pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name)
    probe = s.socket(s.AF_INET, s.SOCK_DGRAM); probe.connect(("127.0.0.1", 80))
    """)
    assert closed.out == "SOCK_STREAM\nroot root\n"
    assert _attempts(closed) == []


@pytest.mark.parametrize(
    ("size", "flags", "told"), [(256, 0, False), (256, 0x10000, False), (64, 2, False), (4, 0, True)]
)
def test_a_ring_is_refused_and_told_unless_it_is_libuv_s(size: int, flags: int, told: bool) -> None:
    closed = _run(f"""
    import struct
    buffer = ctypes.create_string_buffer(struct.pack("=III", 0, 0, {flags}), 120)
    print(ctypes.CDLL(None, use_errno=True).syscall(425, {size}, buffer), ctypes.get_errno())
    """)
    assert closed.out == "-1 38\n"
    assert _attempts(closed) == ([("io_uring", f"a ring of {size} entries")] if told else [])


def test_an_address_that_cannot_be_read_is_refused_and_told() -> None:
    closed = _run("""
    libc = ctypes.CDLL(None, use_errno=True)
    print(libc.connect(s.socket().fileno(), ctypes.c_void_p(8), 16), ctypes.get_errno())
    """)
    assert closed.out == "-1 13\n"
    assert _attempts(closed) == [("connect", "an address that could not be read")]


def test_other_processes_memory_and_keys_are_refused() -> None:
    closed = _run("""
    libc = ctypes.CDLL(None, use_errno=True)
    for name, *words in (("ptrace", 0, 0, 0, 0), ("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)):
        print(getattr(libc, name)(*words), ctypes.get_errno())
    """)
    assert closed.out == "-1 1\n-1 1\n"
    assert [what for what, _ in _attempts(closed)] == ["ptrace", "process_vm_readv"]


def test_a_program_that_goes_on_trying_is_refused_for_ever_and_told_a_thousand_times() -> None:
    closed = _run("""
    held = 0
    for _ in range(1100):
        with s.socket() as one: held += one.connect_ex(("127.0.0.1", 9)) == 13
    print(held)
    """)
    assert closed.out == "1100\n"
    assert len(_attempts(closed)) == 1000


def test_threads_and_children_are_answered_as_well() -> None:
    closed = _run("""
    server = s.create_server(("127.0.0.1", 0)); address = server.getsockname()
    def call(): s.create_connection(address).close()
    threads = [threading.Thread(target=call) for _ in range(20)]
    [one.start() for one in threads]; [one.join() for one in threads]
    if os.fork() == 0:
        call()
        try: s.create_connection(("127.0.0.1", 9))
        except PermissionError: os._exit(7)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
    """)
    assert closed.out == "7\n"
    assert _attempts(closed) == [("connect", "127.0.0.1:9")]
