"""From markdown-it's inline tokens to lines of spans."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

from delivery.render.blocks import Mark, MarkKind, Span, TextLine

_OPENING = {"strong_open": MarkKind.BOLD, "em_open": MarkKind.ITALIC, "s_open": MarkKind.STRIKE}
_CLOSING = frozenset({"strong_close", "em_close", "s_close", "link_close"})
_BACKTICKS = re.compile("`+")


def read_inline(tokens: Sequence[Token], places: Sequence[tuple[int, int]], ids: Iterator[int]) -> tuple[TextLine, ...]:
    """Return the lines that inline tokens spell.

    `places` maps positions in the block's content to offsets in the source: pairs (position, offset), one for
    each line of the content, ascending; `ids` gives each mark its own number. At least one line is returned,
    maybe an empty one.
    """
    reader = _Reader(places, ids)
    for token in tokens:
        reader.read(token)
    return reader.finish()


class _Reader:
    def __init__(self, places: Sequence[tuple[int, int]], ids: Iterator[int]) -> None:
        self.positions = [position for position, _ in places]
        self.offsets = [offset for _, offset in places]
        self.lines: list[list[Span]] = [[]]
        self.open: list[Mark] = []
        self.ids = ids
        self.latest = 0
        self.opened_at: int | None = None
        self.held: list[str] = []
        self.held_marks: tuple[Mark, ...] = ()
        self.held_start = self.held_cut = self.held_end = 0

    def read(self, token: Token) -> None:
        start = self._offset(token)
        match token.type:
            case "softbreak" | "hardbreak":
                self._flush()
                self.lines.append([])
            case "link_open":
                self._open(MarkKind.LINK, str(token.attrs.get("href", "")), start - (token.markup != "autolink"))
            case "image":
                self._image(token, start)
            case "code_inline":
                longest = max((len(run) for run in _BACKTICKS.findall(token.content)), default=0)
                self._text(token.content, start, self._mark(MarkKind.CODE, "`" * (longest + 1)))
            case kind if kind in _OPENING:
                self._open(_OPENING[kind], token.markup, start)
            case kind if kind in _CLOSING:
                self.open.pop()
            case _:
                self._text(token.content, start)

    def finish(self) -> tuple[TextLine, ...]:
        self._flush()
        return tuple(tuple(line) for line in self.lines)

    def _offset(self, token: Token) -> int:
        position = int(token.meta.get("at", 0))
        row = max(0, bisect_right(self.positions, position) - 1)
        self.latest = max(self.latest, self.offsets[row] + position - self.positions[row])
        return self.latest

    def _open(self, kind: MarkKind, value: str, start: int) -> None:
        self.open.append(self._mark(kind, value))
        if self.opened_at is None:
            self.opened_at = start

    def _mark(self, kind: MarkKind, value: str) -> Mark:
        return Mark(kind=kind, value=value, id=next(self.ids))

    def _text(self, text: str, start: int, *marks: Mark) -> None:
        if not text:
            return
        kinds = {mark.kind for mark in marks}
        under: list[Mark] = []
        for mark in self.open:
            if mark.kind not in kinds:  # bold within bold is bold
                kinds.add(mark.kind)
                under.append(mark)
        cut = start if self.opened_at is None else self.opened_at
        self.opened_at = None
        marks = (*under, *marks)
        if self.held and self.held_marks == marks and self.held_end == cut:
            self.held.append(text)  # after an asterisk that marks nothing, and the like
        else:
            self._flush()
            self.held, self.held_marks, self.held_start, self.held_cut = [text], marks, start, cut
        self.held_end = start + len(text)

    def _flush(self) -> None:
        """End the run of text that may still grow."""
        if self.held:
            text = "".join(self.held)
            span = Span(text=text, marks=self.held_marks, start=self.held_start, cut=self.held_cut)
            self.lines[-1].append(span)
            self.held = []

    def _image(self, token: Token, start: int) -> None:
        """A picture's address becomes a link under its description: neither platform shows it in a text."""
        address = str(token.attrs.get("src", ""))
        text = _plain(token.children or []) or address
        if any(mark.kind is MarkKind.LINK for mark in self.open):
            self._text(text, start)
        else:
            self._text(text, start, self._mark(MarkKind.LINK, address))


def _plain(tokens: Sequence[Token]) -> str:
    pieces = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
        elif token.type == "image":
            pieces.append(_plain(token.children or []))
        else:
            pieces.append(token.content)
    return "".join(pieces)
