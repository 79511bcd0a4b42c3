"""Why a bundle is not read: one typed refusal with a stable reason, the member and the byte of the file."""

from __future__ import annotations

from tachograph.errors import Refused


class BundleRefused(Refused):
    """This file is no bundle, or not the one that was written.

    `reason` is a stable code, `member` the member concerned ("" where it is none's affair), `at` the byte of the file
    at which the fault begins: of a header, or of a member's first byte where its content is at fault. The message is
    safe to print: names from the file stand in it as escapes.
    """

    code = "bundle_refused"

    def __init__(self, what: str, *, reason: str, member: str = "", at: int = 0) -> None:
        of = f"{ascii(member)[:200]}: " if member else ""
        super().__init__(f"not a bundle to rely on: {of}{what} (byte {at})", reason=reason)
        self.member, self.at = member, at
