"""Slack: one `markdown` block a part, and a plain `text` for notifications and old clients.

What is written is a careful subset of Markdown: what Slack's block does not know (tables, tasks, rules, quotes in
quotes, fences inside lists) has become something that it does. https://docs.slack.dev/reference/block-kit/blocks/markdown-block
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from delivery.render.blocks import Mark, MarkKind, Span, TextLine
from delivery.render.layout import Dialect, Line, Piece, lay_out
from delivery.render.paging import render_parts
from delivery.render.parts import RenderedPart
from delivery.render.slack_text import JOINER, PING, escape, escape_html, weigh
from delivery.render.tree import parse

MAX_CHARACTERS = 11_000
"""Of a part's Markdown, each `&`, `<` and `>` counted as the entity that Slack makes of it (limit: 12,000)."""

MAX_BYTES = 24_000
"""UTF-8 bytes of a part's Markdown."""

MAX_FALLBACK_BYTES = 3_800
"""UTF-8 bytes of `text`; Slack splits longer ones into several messages, and refuses them in an update."""


def render_slack(markdown: str) -> tuple[RenderedPart, ...]:
    """Return the parts of a brief, each payload `{"text": ..., "blocks": [...]}`; none for an empty one.

    Nothing in it pings: the spellings that would (`<!channel>`, `<@U...>`, `@here`, ...) carry an invisible
    joiner, in code too, and look the same to a reader.
    """
    document = parse(markdown)
    return render_parts(document, lay_out(document, _DIALECT), SlackWriter)


def _can_link(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "mailto" or (parts.scheme in ("http", "https") and bool(parts.netloc))


def defuse(line: TextLine) -> TextLine:
    """Put an invisible joiner into every spelling that pings, also where marks part its characters."""
    text = "".join(span.text for span in line)
    ends = [match.end() for match in PING.finditer(text)]
    if not ends:
        return line
    defused: list[Span] = []
    begin = 0
    for span in line:
        end = begin + len(span.text)
        cuts = [at - begin for at in ends if begin < at <= end]
        pieces = [span.text[a:b] for a, b in zip([0, *cuts], [*cuts, len(span.text)], strict=True)]
        defused.append(replace(span, text=JOINER.join(pieces)))
        begin = end
    return tuple(defused)


_DIALECT = Dialect(bullet="-", can_link=_can_link, defuse=defuse)


@dataclass(slots=True)
class SlackWriter:
    """Writes one part; `room` is what may be put at its end."""

    room: str
    chunks: list[str] = field(default_factory=list)
    characters: int = 0
    bytes: int = 0
    closing: int = 0
    open: list[Mark] = field(default_factory=list)
    spaces: str = ""
    is_at_start: bool = True
    before: Line | None = None
    fence: str = ""
    dedent: int | None = None
    fallback: list[str] = field(default_factory=list)
    fallback_size: int = 0

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        if piece.is_first or self.before is None:
            self._begin_line(piece)
        self.before = piece.line
        self._note_fallback(piece)
        if piece.line.frame is not None:
            self._write(piece.text)
        else:
            self._add_text(piece)

    def size(self) -> float:
        """Return how much of the limit is used, of characters or of bytes."""
        extra = len(self.room) + self.closing + len(self.spaces) + (len(self.fence) + 1 if self.fence else 0)
        return max((self.characters + extra) / MAX_CHARACTERS, (self.bytes + extra) / MAX_BYTES)

    def finish(self, marker: str) -> dict[str, object]:
        """Return the payload, ending in `marker` on a line of its own (if it is not empty)."""
        self._close_marks(0)
        self._close_fence()
        end = f"\n\n{marker}" if marker else ""
        text = "".join(self.chunks).rstrip() + end
        return {"text": self._short(end), "blocks": [{"type": "markdown", "text": text}]}

    def _begin_line(self, piece: Piece) -> None:
        self._close_marks(0)
        self.spaces, self.is_at_start = "", True
        line, before = piece.line, self.before
        if before is not None and before.frame != line.frame:
            self._close_fence()
        self._write(_separator(before, line))
        if line.frame is not None:
            self._begin_code(line, is_first_line=before is None or before.frame != line.frame)
        else:
            self._begin_text(piece)

    def _begin_code(self, line: Line, *, is_first_line: bool) -> None:
        frame = line.frame
        if frame is None or not is_first_line:
            return
        self.fence = "`" * max(3, frame.ticks + 1)
        self.dedent = None
        self._write(f"{self.fence}\n")
        if not line.is_header:
            for text in frame.header:
                self._write(f"{text}\n")

    def _begin_text(self, piece: Piece) -> None:
        line, before = piece.line, self.before
        if before is not None and (before.quote_id != line.quote_id or before.frame is not None):
            self.dedent = None  # whatever list there was has ended: four columns would make code of a line
        indent = line.indent if piece.is_first else line.indent + len(line.marker)
        self.dedent = indent if self.dedent is None else min(self.dedent, indent)
        quote = "> " + "\u203a " * (line.quote - 1) if line.quote else ""
        marker = " " * (indent - self.dedent) + line.marker if piece.is_first else ""
        # After the sign of an inner quote a heading's signs would be text.
        heading = "#" * line.level + " " if line.level and line.quote < 2 else ""
        self._write(quote + marker + heading)

    def _add_text(self, piece: Piece) -> None:
        marks = piece.marks
        kinds = {mark.kind for mark in marks}
        is_code = MarkKind.CODE in kinds
        core = piece.text if is_code else piece.text.strip()
        if not core:
            self.spaces += piece.text
            return
        lead, _, tail = ("", "", "") if is_code else piece.text.partition(core)
        self._close_marks(_common(self.open, marks))
        # Spaces stand outside of marks: `** bold**` is none. At the start of a line they would mean code.
        self._write("" if self.is_at_start else self.spaces + lead)
        self.spaces = tail
        is_at_start, self.is_at_start = self.is_at_start, False
        for mark in marks[len(self.open) :]:
            self._open_mark(mark)
        if is_code:
            self._write(core)
            return
        in_link, level = MarkKind.LINK in kinds, piece.line.level
        text = escape(f"{core} " if tail else core, at_start=is_at_start, in_link=in_link, level=level)
        self._write(text.removesuffix(" "))

    def _open_mark(self, mark: Mark) -> None:
        if mark.kind is MarkKind.LINK and self.chunks and self.chunks[-1].endswith("!"):
            self.chunks[-1] = self.chunks[-1][:-1]
            self._write("\\!")  # or the link would be read as a picture
        self.open.append(mark)
        self.closing += weigh(_closer(mark))
        self._write(_opener(mark))

    def _close_marks(self, kept: int) -> None:
        while len(self.open) > kept:
            closer = _closer(self.open.pop())
            self.closing -= weigh(closer)
            self._write(closer)

    def _close_fence(self) -> None:
        if self.fence:
            self._write(f"\n{self.fence}")
            self.fence = ""

    def _write(self, text: str) -> None:
        if text:
            self.chunks.append(text)
            self.characters += weigh(text)
            self.bytes += len(text.encode())

    def _note_fallback(self, piece: Piece) -> None:
        if self.fallback_size > MAX_FALLBACK_BYTES:
            return
        before = ("\n" if self.fallback else "") + " " * piece.line.indent + piece.line.marker if piece.is_first else ""
        text = escape_html(before + piece.text)
        self.fallback.append(text)
        self.fallback_size += len(text.encode())

    def _short(self, end: str) -> str:
        """Return the fallback within its limit, cut between words."""
        room = MAX_FALLBACK_BYTES - len(end)
        if self.fallback_size <= room:
            return "".join(self.fallback).strip() + end
        kept: list[str] = []
        for text in self.fallback:
            room -= len(text.encode())
            if room < len("\u2026".encode()):
                break
            kept.append(text)
        return "".join(kept).strip() + "\u2026" + end


def _separator(before: Line | None, line: Line) -> str:
    """Return what ends one line and stands before the next."""
    if before is None:
        return ""
    if before.frame is not None and before.frame == line.frame:
        return "\n"
    # Without a blank line the next text would be read as more of the quote.
    is_other_quote = before.quote_id != line.quote_id or before.quote != line.quote
    has_gap = line.is_after_gap or is_other_quote
    if line.quote and before.quote_id == line.quote_id and before.frame is None and line.frame is None:
        return "\n>\n" if has_gap else "\n"
    return "\n\n" if has_gap else "\n"


def _common(opened: Sequence[Mark], marks: Sequence[Mark]) -> int:
    kept = 0
    while kept < min(len(opened), len(marks)) and opened[kept] == marks[kept]:
        kept += 1
    return kept


def _opener(mark: Mark) -> str:
    if mark.kind is MarkKind.LINK:
        return "["
    # A delimiter of several backticks means that the code holds some, maybe at its edge.
    return f"{mark.value} " if mark.kind is MarkKind.CODE and len(mark.value) > 1 else mark.value


def _closer(mark: Mark) -> str:
    if mark.kind is MarkKind.LINK:
        return f"]({_address(mark.value)})"
    return _opener(mark)[::-1]


def _address(address: str) -> str:
    """Return an address that can stand in parentheses, and in Slack's own `<address|label>`."""
    address = address.replace("|", "%7C")
    depth = 0
    for char in address:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth < 0:
            break
    return address if depth == 0 else address.replace("(", "%28").replace(")", "%29")
