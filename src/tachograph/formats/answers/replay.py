"""`tacho replay --json`: what happened when a decision was run again (DESIGN section 10)."""

from __future__ import annotations

from typing import Any

from tachograph.formats.answers.parts import Answer, DivergenceItem, Unavailable


class CallItem(Answer):
    """A call that the replayed program made."""

    kind: str
    """`http`, `subprocess`, `tool`, `retrieval` or `external`."""
    method: str | None = None
    """HTTP method; null for other kinds."""
    endpoint: str
    """Address without credentials, command, or name."""


class FirstDifference(Answer):
    """The first leaf in which the call differs from the nearest recording."""

    path: str
    """JSON pointer within the call: `/method`, `/url/...`, `/headers/NAME`, `/body/...`, `/input/...`."""
    recorded: Any
    """The recorded value there."""
    replayed: Any
    """The replayed value there."""


class MissItem(Answer):
    """A call that no recording fits, and the recording that comes nearest."""

    effect: int | None
    """The nearest recording's number; null where nothing is near."""
    call: CallItem
    """What was asked."""
    nearest: int | None = None
    """The same number as `effect`."""
    firstDifference: FirstDifference | None = None
    """Where the call differs from that recording; null where nothing is near."""


class UnconsumedItem(Answer):
    """A recorded effect that the replayed program never asked for."""

    effect: int
    """Its number in the run."""
    kind: str
    """Its kind."""
    summary: str
    """One line: method and address, command, or name."""


class AttemptItem(Answer):
    """An attempt to leave the closed world, and what stopped it."""

    what: str
    """The event: `socket.connect`, `subprocess.Popen`, ..."""
    where: str
    """The address or the program."""
    stoppedBy: str
    """What refused it."""


class Confinement(Answer):
    """The closed world as probed from inside the child: what held, how, and what could not be closed."""

    network: str
    """`namespace`: a network of its own; `seccomp+landlock`: no way to the machine's; `python`: only Python code is
    held; `open` otherwise. Each only where probes from inside did not come out."""
    filesystem: str
    """`overlay`: what the program wrote vanished with its world; `landlock`: it could write to a scratch folder alone;
    `open`: what it wrote is really written."""
    how: str
    """What closed it."""
    open: list[str]
    """What could not be closed."""


class ReplayOutcome(Answer):
    """How the replayed program ended and what it wrote (bytes that are no UTF-8 are escaped)."""

    exitCode: int
    """128 and the signal's number where one ended it."""
    stdout: str
    """What it wrote to stdout."""
    stderr: str
    """What it wrote to stderr."""
    endedBy: str | None = None
    """Why we ended it; null where it ended by itself."""


class ReplayAnswer(Answer):
    """One replay of one decision."""

    replayId: str
    """`rep_` and a ULID."""
    decisionId: str
    """The decision that was replayed."""
    comparison_basis: str
    """`sealed_program_rerun`: the run's program was started again."""
    origin_state: str
    """`sealed`; `running` where the decision is and its run still goes on; `damaged` where something was lost before
    sealing."""
    plan: dict[str, str]
    """What was done at each boundary: `recorded_outputs` or `not_used`."""
    equivalent: bool
    """True only if nothing below differs, missed, stayed unconsumed or tried to get out."""
    divergences: list[DivergenceItem]
    """What differs; the first one is where to look first."""
    misses: list[MissItem]
    """Calls that no recording fits. Nothing was sent instead."""
    unconsumed: list[UnconsumedItem]
    """Recorded effects that were never asked for."""
    attempts: list[AttemptItem]
    """Connections and programs that were refused."""
    drift: list[dict[str, Any]]
    """Draws that were not recorded or not drawn again, and effects whose order was not imposed."""
    inputsChanged: list[dict[str, Any]]
    """Files of the program that are not what they were: path, what, both SHA-256 digests."""
    liveEffects: int
    """How many effects went out for real."""
    modelCallsSent: int
    """How many model calls were sent for real."""
    confinement: Confinement
    """The closed world as it was probed."""
    fidelity: Unavailable
    """How much this replay proves."""
    outcome: ReplayOutcome
    """How the replayed program ended."""
    served: int
    """How many recorded effects were consumed."""
    notes: list[str]
    """What was overlooked to find a match, stood in for, or could not be done."""
    timings: dict[str, float]
    """Milliseconds: `totalMs` of the program, `inPlaybackMs` inside our code."""
