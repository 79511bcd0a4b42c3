"""A decision as the program holds it: opened with `with`, told its output, closed.

Everything said here becomes a frame of that decision; effects inside belong to it, in every thread and task that it
starts. A decision's id is minted while recording and given again in a replay.
"""

from __future__ import annotations

from tachograph.formats import frame as fr
from tachograph.seams import context, port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

_STOPS = ("end_turn", "max_tokens", "tool_call", "error", "incomplete")


class Decision:
    """One agent turn, from request to final output. Use it as `with` or `async with`."""

    __slots__ = ("_closing", "_facts", "_number", "_said_output", "_token", "entry", "id")

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._number = 0
        self._token: Any = None
        self._said_output = False
        self._closing: dict[str, Any] = {}
        self.id: str | None = None
        self.entry: dict[str, Any] | None = None  # how the function that opened it can be called again

    def __enter__(self) -> Self:
        listener: Any = port.current
        if listener is not None:
            self._number, self.id = listener.open(
                self._facts if self.entry is None else {**self._facts, "entry": self.entry}
            )
            self._token = context.decision.set(self._number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        if fault is not None:
            self._closing["raised"] = f"{type(fault).__module__}.{type(fault).__qualname__}"
        self._tell(fr.CLOSE, self._closing)
        try:
            context.decision.reset(self._token)
        except ValueError:  # closed in another context than it was opened in: a copy, which goes its own way
            pass
        self._token = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, fault, trace)

    def _tell(self, kind: int, facts: dict[str, Any]) -> None:
        listener: Any = port.current
        if listener is not None and self._token is not None:
            listener.tell(kind, self._number, facts)

    def output(self, text: str, *, stop_reason: str = "end_turn") -> None:
        """Say the decision's final output. `stop_reason` is one of end_turn, max_tokens, tool_call, error, incomplete.

        Raises ValueError for another stop reason.
        """
        if stop_reason not in _STOPS:
            raise ValueError(f"stop_reason is one of {', '.join(_STOPS)}, not {stop_reason!r}")
        self._said_output = True
        self._tell(fr.OUTPUT, {"text": text, "stopReason": stop_reason})

    def configure(self, *, system_prompt_version: str | None = None, tool_schema_version: str | None = None) -> None:
        """Declare which versions of prompt and tool schema this decision uses."""
        said = {"systemPromptVersion": system_prompt_version, "toolSchemaVersion": tool_schema_version}
        self._tell(fr.CONFIGURE, {name: value for name, value in said.items() if value is not None})

    def fail(self, reason: str) -> None:
        """Say that this decision failed, and why: it is listed as failed."""
        self._tell(fr.FAIL, {"reason": reason})

    def returned(self, value: Any) -> Any:
        """Keep what the agent function returned, and return it."""
        if self._token is not None:
            self._closing["value"] = value
            if isinstance(value, str) and not self._said_output:
                self.output(value)
        return value


def decision(
    *, agent: str | None = None, user: str | None = None, session: str | None = None, request: Any = None,
    tenant: str | None = None,
) -> Decision:  # fmt: skip
    """Open a decision: `with tachograph.decision(agent=..., user=..., session=..., request=...) as d:`."""
    return Decision({"agent": agent, "user": user, "session": session, "tenant": tenant, "request": request})
