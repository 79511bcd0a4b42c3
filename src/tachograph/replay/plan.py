"""The plan of a replay: what will be started, and what each boundary will do; or why nothing is.

Pure but for reading today's environment and files, which come in as arguments. A refusal is a typed result: it says
which boundary was not recorded, or what the record lacks, and what would help.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tachograph.formats import frame as fr
from tachograph.intake.skeleton import is_watched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tachograph.formats.effect_log import EffectLog
    from tachograph.replay.alone import Alone
    from tachograph.replay.lending import Lent
    from tachograph.replay.requested import Inbound
    from tachograph.supervision.supervisor import Kind

BASIS = "sealed_program_rerun"
RECORDED, NOT_USED = "recorded_outputs", "not_used"


@dataclass(frozen=True)
class Refusal:
    """Why a replay was not attempted: `reason` is a stable code."""

    reason: str
    message: str


@dataclass(frozen=True)
class Launch:
    """What will be started, and in which world."""

    argv: list[str]
    cwd: str
    umask: int
    environment: dict[str, str]
    placeholders: list[str]
    hash_seed: str
    stdin: bytes
    kinds: tuple[Kind, Kind, Kind]
    columns: int
    rows: int
    boundaries: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ports: tuple[int, ...] = ()
    """Ports of its own that the program is connected to, beside those that it was given."""


def make_plan(
    log: EffectLog, *, lent: Lent, cwd: str | None = None, command: Sequence[str] | None = None
) -> Launch | Refusal:
    """Plan the replay of a run from its log. `lent` stands for the credentials that the record never held."""
    facts = log.first(fr.RUN) or _from_process(log)
    argv = list(command or facts.get("argv", ()))
    if not argv:
        return Refusal(
            "no_entry_point", "the record does not say how the program was started, so it cannot be run again"
        )
    if not is_watched(log):
        return Refusal(
            "not_watched",
            f"{argv[0]} did not load the recorder (no Python 3.11+, or started with -I, -E or -S): a replay could not "
            "hold it, and it would run live",
        )
    unclaimed = [fact.said for fact in log.of(fr.NOTE) if fact.said["what"] in UNCLAIMED]
    if unclaimed:
        first = min(unclaimed, key=lambda said: not said["what"].startswith("bypassed."))  # what has a name says more
        return Refusal(
            "unrecorded_boundary",
            f"the program made {len(unclaimed)} connection(s) that no seam recorded (first: {first['what']} "
            f"{first['detail']}); its answers are not in the record, so a closed replay cannot give them",
        )
    recorded = dict(facts.get("environment", {}))
    kinds = {e.kind for e in log.effects}
    return Launch(
        argv=argv,
        cwd=cwd or facts.get("cwd", "."),
        umask=facts.get("umask", 0o022),
        environment={**recorded, **lent.variables},
        placeholders=sorted(lent.placeholders),
        hash_seed=facts.get("hashSeed", "") or "random",
        stdin=log.streams[0],
        kinds=_kinds(facts.get("streams", {})),
        columns=facts.get("columns", 80),
        rows=facts.get("rows", 24),
        boundaries={kind: RECORDED if kind in kinds else NOT_USED for kind in BOUNDARIES},
    )


def call_alone(launch: Launch, said: Alone, log: EffectLog) -> Launch:
    """Plan to call the decision's function again instead of running its whole program."""
    process = log.first(fr.PROCESS)
    return replace(
        launch, argv=[process["executable"], "-m", ENTRY], stdin=b"", kinds=("null", "pipe", "pipe"),
        settings={"ALONE": str(said.number)},
        notes=[f"replayed alone: {said.name} was called again with its recorded arguments, not the whole program run"],
    )  # fmt: skip


def send_alone(launch: Launch, said: Inbound) -> Launch:
    """Plan to start the program again and send it the decision's inbound request, over its own listener."""
    return replace(
        launch, settings={"INBOUND": str(said.number)}, ports=(said.port,) if said.port else (),
        notes=[f"replayed alone: the program was started again and sent the recorded request {said.name}"],
    )  # fmt: skip


ENTRY = "tachograph.replay.entry"
BOUNDARIES = ("http", "subprocess", "tool", "retrieval", "external")
UNCLAIMED = ("socket.connect", "socket.sendto", "socket.sendmsg", "bypassed.grpc", "bypassed.websocket")


def temp_folders(plan: Launch) -> tuple[str, ...]:
    """The temp folders of the run: its TMPDIR, or those that a system has; and memory shared by name."""
    named = plan.environment.get("TMPDIR")
    return ((named,) if named else ("/tmp", "/var/tmp")) + ("/dev/shm",)


def _kinds(recorded: Mapping[str, Kind]) -> tuple[Kind, Kind, Kind]:
    """What the standard streams were; a run that `tacho run` did not see gets no stdin and pipes."""
    return recorded.get("stdin", "null"), recorded.get("stdout", "pipe"), recorded.get("stderr", "pipe")


def _from_process(log: EffectLog) -> dict[str, Any]:
    """Where `tachograph.install()` recorded and no `tacho run` did: the process's own account of how it was started."""
    said = log.first(fr.PROCESS)
    if not said.get("argv"):
        return {}
    return {**said, "argv": [said["executable"], *said["argv"][1:]]}
