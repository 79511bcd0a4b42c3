"""First on PYTHONPATH of a watched program: takes itself out again, lets the next sitecustomize run, and starts the
module that the environment names. Any Python must be able to parse this file: no annotations, no f-strings.
"""

import os
import sys

PREFIX = "TACHO_IN_"


class _Lender(object):
    """Finds tachograph in its own folder, and (asked last) what it needs and the program lacks."""

    def __init__(self, folder, names, finder):
        self._folder, self._names, self._finder = folder, names, finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self._names or (path is not None and "." in name):
            return None
        return self._finder.find_spec(name, [self._folder], target)


def _take_out():
    here = os.path.dirname(os.path.abspath(__file__))
    taken = {}
    for name in list(os.environ):
        if name.startswith(PREFIX):
            taken[name] = os.environ.pop(name)
    if taken.get(PREFIX + "NOSEED"):
        os.environ.pop("PYTHONHASHSEED", None)
    first, mark, rest = os.environ.get("PYTHONPATH", "").partition(os.pathsep)
    if first == here and mark:
        os.environ["PYTHONPATH"] = rest
    elif first == here:
        del os.environ["PYTHONPATH"]
    sys.path[:] = [part for part in sys.path if os.path.abspath(part) != here]
    return taken


def _next():
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - the one that the program would have had
    except ImportError as fault:
        if getattr(fault, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)


def _bypassed(taken, reason):
    folder, run = taken.get(PREFIX + "SPOOL"), taken.get(PREFIX + "RUN")
    if folder and run:
        try:
            with open(os.path.join(folder, "%s.%d.bypassed" % (run, os.getpid())), "w") as file:
                file.write("%s: %s" % (sys.executable, reason))
        except (IOError, OSError):
            _say("tachograph: this process is not recorded (%s); it goes on\n" % reason)
    if taken.get(PREFIX + "REQUIRE"):
        said = "tachograph: cannot watch %s (%s) and capture is required: stopping\n"
        _say(said % (sys.executable, reason))
        os._exit(3)
    status = taken.get(PREFIX + "UNWATCHED_EXIT")
    if status:  # it must be watched, or must not run
        _say("tachograph: cannot watch %s (%s): stopping\n" % (sys.executable, reason))
        os._exit(int(status))


def _say(text):
    if sys.stderr is not None:  # the process was started with it closed
        sys.stderr.write(text)


def _start(taken):
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
        _bypassed(taken, "Tachograph needs CPython 3.11 or later")
        return
    from _frozen_importlib_external import PathFinder

    sys.meta_path.insert(0, _Lender(taken[PREFIX + "HOME"], ("tachograph",), PathFinder))
    if taken.get(PREFIX + "LIBS"):
        lent = ("cryptography", "cffi", "_cffi_backend", "pycparser")
        sys.meta_path.append(_Lender(taken[PREFIX + "LIBS"], lent, PathFinder))
    try:
        from tachograph.seams import injection

        injection.take(taken)
        entry = __import__(taken[PREFIX + "ENTRY"], fromlist=["start"])
        entry.start({name[len(PREFIX) :]: value for name, value in taken.items()})
    except Exception as fault:  # noqa: BLE001 - the program goes on as if we were not there
        _bypassed(taken, "%s: %s" % (type(fault).__name__, fault))


_taken = _take_out()
try:
    _next()
finally:  # whatever the next one raises, Python tells it and goes on
    if _taken.get(PREFIX + "ENTRY"):
        _start(_taken)
