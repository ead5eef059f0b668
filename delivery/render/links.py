"""Links that a platform cannot put under words are written out after them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from delivery.render.blocks import Mark, MarkKind, Note, Span, TextLine, plain_span

LONGEST_LINK = 2_000
"""Characters of the longest address that is put under a word."""


def write_out_links(
    lines: tuple[TextLine, ...], can_link: Callable[[str], bool]
) -> tuple[tuple[TextLine, ...], list[Note]]:
    """Return a paragraph's lines with "words (address)" for each link that `can_link` refuses or that is too long.

    An address within the document (`#part`) is left out: it leads nowhere in a chat.
    """

    def is_refused(mark: Mark) -> bool:
        return mark.kind is MarkKind.LINK and (len(mark.value) > LONGEST_LINK or not can_link(mark.value))

    if not any(is_refused(mark) for line in lines for span in line for mark in span.marks):
        return lines, []
    writer = _LinkWriter(is_refused=is_refused)
    written = tuple(writer.line(line, is_last=line is lines[-1]) for line in lines)
    return written, writer.notes


@dataclass(slots=True, kw_only=True)
class _LinkWriter:
    """Follows the links through a paragraph; `label` is what has been seen of the open one."""

    is_refused: Callable[[Mark], bool]
    notes: list[Note] = field(default_factory=list)
    link: Mark | None = None
    label: str = ""

    def line(self, line: TextLine, *, is_last: bool) -> TextLine:
        written: list[Span] = []
        for span in line:
            link = next((mark for mark in span.marks if self.is_refused(mark)), None)
            if self.link is not None and link != self.link:
                written.extend(self._end(span.cut))
            if link is not None:
                self.link = link
                self.label += span.text
                span = replace(span, marks=tuple(mark for mark in span.marks if mark != link))
            written.append(span)
        if is_last and self.link is not None:
            written.extend(self._end(line[-1].start + len(line[-1].text) if line else 0))
        return tuple(written)

    def _end(self, at: int) -> Iterator[Span]:
        link, label = self.link, self.label
        self.link, self.label = None, ""
        address = (link.value if link is not None else "").removeprefix("mailto:")
        if len(address) > LONGEST_LINK:
            self.notes.append(Note(start=at, reason="a link too long for the platform is written out"))
        if address and address != label and not address.startswith("#"):
            yield plain_span(f" ({address})", at)
