"""Cut a stream of pieces into parts: at a block's end if that can be, else at a line's, else at a space.

Pure. A piece is the smallest thing that is moved about: a few words, or a stretch of a very long one that ends between
two characters as a reader counts them. What a platform's limit means is the writer's business.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

LONGEST_PIECE = 256
"""UTF-16 units of the longest piece; every writer's limit is far above it."""

_ZWJ = "\u200d"
_LEAST_FILLED = 0.5
_HARDLY_FILLED = 0.25


class Rank(IntEnum):
    """How good a place for a cut is, best first: just before a piece that ..."""

    BLOCK = 0
    """... begins a block."""
    LINE = 1
    """... begins a line, a list item, a table's row or a line of code."""
    SPACE = 2
    """... follows a space, or ends a sentence in a script without spaces."""
    INSIDE = 3
    """... follows a space inside a link, inline code or emphasis: its marks are closed and opened again."""
    GLUED = 4
    """... stands right after other text."""


class Ranked(Protocol):
    """What the splitter looks at in a piece."""

    @property
    def rank(self) -> Rank:
        """How well a part may begin with this piece."""


Piece_ = TypeVar("Piece_", bound=Ranked, contravariant=True)
P = TypeVar("P", bound=Ranked)


class Writer(Protocol[Piece_]):
    """Something that takes pieces of one part and knows how full it is."""

    def add(self, piece: Piece_) -> None:
        """Take the next piece of the part."""

    def size(self) -> float:
        """Return how much of the limit the part uses, once everything open is closed; over 1 is too much."""


def split(pieces: Sequence[P], new_writer: Callable[[], Writer[P]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges [begin, end) of `pieces` that make one part each, in order, without a gap.

    Every part holds at least one piece and fits its writer (a lone piece always fits, see LONGEST_PIECE).
    """
    begin = 0
    while begin < len(pieces):
        writer = new_writer()
        sizes: list[float] = []
        end = begin
        while end < len(pieces):
            writer.add(pieces[end])
            if writer.size() > 1 and end > begin:
                end = _best_cut(pieces, begin, end, sizes)
                break
            sizes.append(writer.size())
            end += 1
        yield begin, end
        begin = end


def _best_cut(pieces: Sequence[Ranked], begin: int, end: int, sizes: Sequence[float]) -> int:
    """Choose where the part [begin, ...) ends; all of [begin, end) fits, pieces[end] does not."""
    latest: dict[Rank, int] = {}
    for at in range(end, begin, -1):
        latest.setdefault(pieces[at].rank, at)
    for least, ranks in (
        (_LEAST_FILLED, (Rank.BLOCK, Rank.LINE)),
        (_HARDLY_FILLED, (Rank.BLOCK, Rank.LINE, Rank.SPACE)),
        (0.0, tuple(Rank)),
    ):
        for rank in ranks:
            if rank in latest and sizes[latest[rank] - begin - 1] >= least:
                return latest[rank]
    return end


def utf16_units(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def stretches(word: str) -> Iterator[str]:
    """Cut a long word into stretches of at most LONGEST_PIECE units, between characters as a reader counts them.

    A character of a reader that is longer than half of that (accents piled up) is cut too.
    """
    start = 0
    while start < len(word):
        end = min(len(word), start + LONGEST_PIECE)
        if utf16_units(word[start:end]) > LONGEST_PIECE:
            end = start + LONGEST_PIECE // 2
        if end < len(word):
            end = _last_boundary(word, start, end)
        yield word[start:end]
        start = end


def _last_boundary(text: str, start: int, end: int) -> int:
    """Return the last place in (start, end] between two characters as a reader counts them, else `end`."""
    for at in range(end, start + (end - start) // 2, -1):
        if not _is_joined(text, start, at):
            return at
    return end


def _is_joined(text: str, start: int, at: int) -> bool:
    """Say whether the characters before and at `at` belong together, near enough to Unicode's rules."""
    before, after = text[at - 1], text[at]
    if is_extender(after) or before == _ZWJ:
        return True
    if _is_flag(after) and _is_flag(before):
        run = at
        while run > start and _is_flag(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    return _is_jamo(before) and _is_jamo(after)


def is_extender(char: str) -> bool:
    """Say whether a character belongs to the one before it: accents, skin tones, joiners, emoji tags."""
    if char < "\u0300":
        return False
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in (_ZWJ, "\u200c")
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_jamo(char: str) -> bool:
    """Letters and syllables of Hangul: a vowel or final after either joins it."""
    return "\u1100" <= char <= "\u11ff" or "\ua960" <= char <= "\ua97f" or "\ud7b0" <= char <= "\ud7ff"
