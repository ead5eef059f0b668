"""Where a stream of pieces is cut."""

from dataclasses import dataclass, field

import pytest

from delivery.split import LONGEST_PIECE, Rank, split, stretches, utf16_units


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    text: str
    rank: Rank


@dataclass(slots=True)
class TenLetters:
    """A writer whose limit is ten letters."""

    words: list[str] = field(default_factory=list)

    def add(self, piece: Word) -> None:
        self.words.append(piece.text)

    def size(self) -> float:
        return len("".join(self.words)) / 10


def parts(*words: tuple[str, Rank]) -> list[str]:
    pieces = [Word(text=text, rank=rank) for text, rank in words]
    return ["".join(piece.text for piece in pieces[a:b]) for a, b in split(pieces, TenLetters)]


def test_nothing_makes_no_part() -> None:
    assert parts() == []


def test_what_fits_stays_together() -> None:
    assert parts(("aaaaa", Rank.BLOCK), ("bbbbb", Rank.BLOCK)) == ["aaaaabbbbb"]


BLOCK, LINE, SPACE, INSIDE, GLUED = Rank


@pytest.mark.parametrize(
    ("ranks", "cut"),
    [
        ((BLOCK, BLOCK, LINE, SPACE), ["aaaaa", "bbccdd"]),
        ((BLOCK, LINE, SPACE, SPACE), ["aaaaa", "bbccdd"]),
        ((BLOCK, SPACE, LINE, SPACE), ["aaaaabb", "ccdd"]),
        ((BLOCK, SPACE, INSIDE, GLUED), ["aaaaa", "bbccdd"]),
        ((BLOCK, GLUED, INSIDE, GLUED), ["aaaaabb", "ccdd"]),
        ((BLOCK, GLUED, GLUED, GLUED), ["aaaaabbcc", "dd"]),
    ],
)
def test_a_part_ends_at_the_best_place_that_it_holds(ranks: tuple[Rank, ...], cut: list[str]) -> None:
    assert parts(*zip(("aaaaa", "bb", "cc", "dd"), ranks, strict=True)) == cut


def test_a_block_that_leaves_the_part_nearly_empty_is_no_good_place() -> None:
    assert parts(("a", BLOCK), ("bbbb", BLOCK), ("cccc", SPACE), ("dd", SPACE)) == ["abbbbcccc", "dd"]


def test_a_piece_over_the_limit_still_goes_out_alone() -> None:
    assert parts(("a" * 12, BLOCK), ("b", GLUED)) == ["a" * 12, "b"]


FAMILY = "\U0001f468\u200d\U0001f467"
FLAG = "\U0001f1e9\U0001f1ea"


@pytest.mark.parametrize("cluster", ["a", "\U0001f600", "e\u0301", FLAG, FAMILY, "\u1100\u1161"])
def test_a_long_word_is_cut_between_characters(cluster: str) -> None:
    word = cluster * 1_000
    cut = list(stretches(word))
    assert "".join(cut) == word
    assert all(utf16_units(piece) <= LONGEST_PIECE and not piece.replace(cluster, "") for piece in cut)


def test_accents_without_end_are_cut_somewhere() -> None:
    cut = list(stretches("a" + "\u0301" * 2_000))
    assert all(len(piece) <= LONGEST_PIECE for piece in cut)
    assert len("".join(cut)) == 2_001
