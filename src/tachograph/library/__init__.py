"""The library: what the command line answers, as typed objects.

`tachograph.Store(path)` opens a store; its methods return the models of `formats.answers`, which the commands print. So
a script and a person get the same answers, and neither can see more than the other.
"""

from tachograph.library.store import Store, doctor_of

__all__ = ["Store", "doctor_of"]
