"""What rendering a brief yields, the same on every platform."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPart:
    """One platform-sized piece of a brief.

    `payload` is what the platform's file hands to its SDK as it is (JSON-able). `text` is the Markdown source
    of exactly this part: all parts' texts in a row are the brief as delivered; what is presentation only (a
    re-opened fence, a repeated table header, "(2/3)") stands in the payload alone. `degraded` says what could
    not be shown as asked.
    """

    payload: Mapping[str, object]
    text: str
    degraded: str | None = None
