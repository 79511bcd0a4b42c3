"""The filter: a BPF program over system call numbers, put before the program and all that it starts.

Every call that it stops is asked of a listener (`notify`), which reports it and lets it fail. Two shapes:

- in a network of its own (`HELD`): calls that would reach past the namespaces or hide what is done, and, so that every
  attempt is known, calls that name an address; those that stay inside go on;
- without one (`SHUT`): no socket can be made but a TCP one, which Landlock holds, a unix stream, a netlink one, and a
  `socketpair`; no call that names an address goes on. Other protocols over IP and TCP's fast open would pass Landlock,
  and are stopped.

io_uring is stopped in both: it makes and connects sockets past any filter.
"""

from __future__ import annotations

import struct

from tachograph.replay.confinement import system_calls as sc

HELD, SHUT = "held", "shut"
FAMILIES = (1, 2, 10, 16, 17, 38)
"""What may be made in a network of its own: unix, inet, inet6, netlink, packet, alg; all of them end in it."""

_LOAD, _JUMP_EQUAL, _JUMP_NOT_BELOW, _JUMP_SET, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_X32 = 0x40000000
_FAST_OPEN = 0x20000000  # MSG_FASTOPEN of linux/socket.h
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


def _code(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def stopped(numbers: sc.Numbers) -> frozenset[int]:
    """The calls that are stopped in every shape."""
    return frozenset((
        sc.IO_URING_SETUP, sc.IO_URING_ENTER, sc.IO_URING_REGISTER, numbers.ptrace, numbers.process_vm_readv,
        numbers.process_vm_writev, numbers.add_key, numbers.request_key, numbers.keyctl, numbers.bpf,
        numbers.perf_event_open, numbers.open_by_handle_at,
    ))  # fmt: skip


def program(shape: str) -> bytes:
    """The filter of one shape for this machine. Raises OSError where its system calls are not known."""
    numbers = sc.NUMBERS
    if numbers is None:
        raise OSError(38, "the system calls of this architecture are not known")
    allow, notify = _code(_RETURN, _ALLOW), _code(_RETURN, _NOTIFY)
    code = [
        _code(_LOAD, _ARCHITECTURE), _code(_JUMP_EQUAL, numbers.audit, 1, 0), notify,
        _code(_LOAD, _NUMBER), _code(_JUMP_NOT_BELOW, _X32, 0, 1), notify,
    ]  # fmt: skip
    asked = {*stopped(numbers), numbers.connect, numbers.sendmsg, numbers.sendmmsg}
    if shape == SHUT:
        asked -= {numbers.sendmsg, numbers.sendmmsg}
    for number in sorted(asked):
        code += [_code(_JUMP_EQUAL, number, 0, 1), notify]
    family = _family_held() if shape == HELD else _family_shut()
    code += [_code(_JUMP_EQUAL, numbers.socket, 0, len(family)), *family]
    if shape == SHUT:
        for number, place in ((numbers.sendto, 3), (numbers.sendmsg, 2), (numbers.sendmmsg, 3)):
            code += [
                _code(_JUMP_EQUAL, number, 0, 4), _code(_LOAD, _argument(place)),
                _code(_JUMP_SET, _FAST_OPEN, 0, 1), notify, _code(_LOAD, _NUMBER),
            ]  # fmt: skip
    code += [  # sendto with an address: its fifth argument is not null
        _code(_JUMP_EQUAL, numbers.sendto, 0, 6),
        _code(_LOAD, _argument(4)), _code(_JUMP_EQUAL, 0, 0, 2), _code(_LOAD, _argument(4) + 4),
        _code(_JUMP_EQUAL, 0, 1, 0), notify, allow,
    ]  # fmt: skip
    code.append(allow)
    return b"".join(code)


def _argument(place: int) -> int:
    return _FIRST_ARGUMENT + 8 * place


def _family_held() -> list[bytes]:
    code = [_code(_LOAD, _argument(0))]
    for family in FAMILIES:
        code += [_code(_JUMP_EQUAL, family, 0, 1), _code(_RETURN, _ALLOW)]
    return [*code, _code(_RETURN, _NOTIFY)]


def _family_shut() -> list[bytes]:
    """Netlink; or unix and inet streams of TCP, or of no protocol named."""
    return [
        _code(_LOAD, _argument(0)), _code(_JUMP_EQUAL, 16, 10, 0), _code(_JUMP_EQUAL, 1, 2, 0),
        _code(_JUMP_EQUAL, 2, 1, 0), _code(_JUMP_EQUAL, 10, 0, 6), _code(_LOAD, _argument(1)), _code(_AND, 15),
        _code(_JUMP_EQUAL, 1, 0, 3), _code(_LOAD, _argument(2)), _code(_JUMP_EQUAL, 0, 2, 0),
        _code(_JUMP_EQUAL, 6, 1, 0), _code(_RETURN, _NOTIFY), _code(_RETURN, _ALLOW),
    ]  # fmt: skip
