"""Confinement: the world in which a replayed program runs, closed by the kernel where the kernel allows it.

`possible` looks at what this machine allows, `launcher` sets it up between fork and exec, and what held is told by the
probes that run inside, never by what was asked for.
"""
