"""Becoming the program: what happens between fork and exec.

Guarantees:
- The program starts with the dispositions and the signal mask that our process was started with: what the interpreter
  or the supervisor changed is put back.
- Live, every descriptor that our process was given is passed on, as a shell does; in a replay all above 2 are closed
  but those named.
- The search for the executable, and what is said when there is none, follow the shell: 127 where nothing has the name,
  126 where it cannot be executed; a text file without an interpreter line is given to /bin/sh.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PROBLEM = struct.Struct("<ii")  # a number, and what it is:
IN_EXEC, IN_FOLDER, STARTED_AS = 0, 1, 2  # errno of exec, errno of the working folder, the program's process
_SHELL = "/bin/sh"


class Surrounding(Protocol):
    """What is put around a program between fork and exec."""

    def surround(self, start: Callable[[], None], problem: int) -> None:
        """Called in a process of its own, with every signal blocked and the program's descriptors in place.

        Either returns, and this process becomes the program; or calls `start`, which never returns, in a descendant
        that leads no group yet, and ends here as that one ends. `problem` must not stay open in any other
        process than that; `STARTED_AS` tells its number there.
        """


class Program(NamedTuple):
    """What is started, and in which surroundings.

    `files`: what becomes its descriptors 0, 1 and 2, None where that number is closed. `keep`: the other descriptors
    that it gets, None for all that are inheritable. `ignored`: signals that it inherits as ignored. `caught`: those for
    which our process has a handler. `mask`: its signal mask. `own_group`: it leads a process group of its own.
    `terminal`: the pseudo-terminal that controls its session, None where it stays in ours or has none; `foreground`:
    whether it starts in that terminal's foreground.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    umask: int | None = None
    files: tuple[int | None, ...] = (0, 1, 2)
    keep: tuple[int, ...] | None = None
    ignored: frozenset[int] = frozenset()
    caught: frozenset[int] = frozenset()
    mask: frozenset[int] = frozenset()
    own_group: bool = False
    terminal: int | None = None
    foreground: bool = True
    surrounding: Surrounding | None = None


def candidates(name: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The paths that a shell would try for `name`, in order; an empty entry of PATH is the working folder."""
    if "/" in name:
        return (name,)
    return tuple(os.path.join(folder or ".", name) for folder in env.get("PATH", os.defpath).split(os.pathsep))


def refusal_sentence(name: str, number: int, *, of_folder: str | None = None) -> tuple[int, str]:
    """Exit code and sentence for a program that could not be started because of errno `number`."""
    if of_folder is not None:
        return 126, f"{of_folder}: {os.strerror(number)}"
    if number in (errno.ENOENT, errno.ENOTDIR):
        return 127, f"{name}: {'No such file or directory' if '/' in name else 'command not found'}"
    if number == errno.EACCES and "/" in name and os.path.isdir(name):
        return 126, f"{name}: Is a directory"
    return 126, f"{name}: {os.strerror(number)}"


def become(program: Program, problem: int) -> NoReturn:
    """Turn this freshly forked process into the program. On failure errno goes to `problem` and the process ends."""
    try:
        _take_group(program)
        _arrange_files(program.files)
        if program.surrounding is not None:
            _surround(program, program.surrounding, problem)
    except OSError as fault:
        os.write(problem, PROBLEM.pack(fault.errno or 0, IN_EXEC))
        os._exit(127)
    _become_now(program, problem)


def _surround(program: Program, surrounding: Surrounding, problem: int) -> None:
    def start() -> None:
        _take_group(program)
        _become_now(program, problem)

    needed = {problem} if program.terminal is None else {problem, program.terminal}
    if program.keep is not None:
        _close_all_but({*program.keep, *needed})
    surrounding.surround(start, problem)


def _become_now(program: Program, problem: int) -> NoReturn:
    where = IN_EXEC
    try:
        if program.keep is not None:
            _close_all_but({*program.keep, problem})
        if program.cwd is not None:
            where = IN_FOLDER
            os.chdir(program.cwd)
            where = IN_EXEC
        if program.umask is not None:
            os.umask(program.umask)
        for fd in program.keep or ():
            os.set_inheritable(fd, True)
        _restore_signals(program)
        _execute(program.argv, program.env)
    except OSError as fault:
        os.write(problem, PROBLEM.pack(fault.errno or 0, where))
    except ValueError:  # a NUL in argv or in the environment: what execve(2) cannot express
        os.write(problem, PROBLEM.pack(errno.EINVAL, IN_EXEC))
    finally:
        os._exit(127)


def _take_group(program: Program) -> None:
    if program.own_group:
        os.setpgid(0, 0)
    if program.terminal is not None and program.foreground:
        os.tcsetpgrp(program.terminal, os.getpgrp())  # every signal is blocked, SIGTTOU among them


def _arrange_files(files: tuple[int | None, ...]) -> None:
    for number, fd in enumerate(files):
        if fd is None:
            try:
                os.close(number)
            except OSError:  # it is closed
                continue
        elif fd == number:
            os.set_inheritable(fd, True)
        else:
            os.dup2(fd, number)


def _restore_signals(program: Program) -> None:
    # Python ignores these two from its start; whether we had inherited them so is no longer to be known, and rare.
    default = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD, *program.caught}
    signal.set_wakeup_fd(-1)
    for number in default:
        signal.signal(number, signal.SIG_IGN if number in program.ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, program.mask)


def _close_all_but(kept: Iterable[int]) -> None:
    low = 3
    for fd in sorted(kept):
        if fd >= low:
            os.closerange(low, fd)
            low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _execute(argv: tuple[str, ...], env: Mapping[str, str]) -> NoReturn:
    """execvp(3), over the program's own PATH."""
    denied: OSError | None = None
    missing = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in candidates(argv[0], env):
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as fault:
            denied = denied or fault
        except OSError as fault:
            if fault.errno != errno.ENOEXEC:
                raise
            os.execve(_SHELL, (_SHELL, path, *argv[1:]), env)
    raise denied or missing
