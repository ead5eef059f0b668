"""The `recall` agent: no model, no network. It finds the lines of the briefs that a question means, and quotes them.

It is the embedded default, so that the first answer works on a machine without a key. It never makes
anything up: all that it says besides the quote is where the quote comes from.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cron.agents.ports import BriefRequest, Composed, ComposeFailed, Started
from seeding.model import Origin, Question, Turn
from seeding.ports import AnswerFailed

_WORD = re.compile(r"\w+", re.UNICODE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
    "ninth": 9, "tenth": 10, "last": -1, "latest": -1, "one": 0, "two": 2, "three": 3, "four": 4, "five": 5,
}  # fmt: skip
_NUMBER = re.compile(r"^(\d{1,3})(?:st|nd|rd|th)?$")
_STOP = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "i", "in", "is", "it", "its", "me", "more", "my", "of", "on", "or"),
        *("our", "please", "show", "so", "some", "tell", "than", "that", "the", "their", "them", "then", "there"),
        *("these", "they", "this", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why"),
        *("will", "with", "would", "you", "your", "about", "again", "explain", "say", "said", "item", "number"),
        *("brief", "happened", "mean", "means"),
    }
)
_SHOWN = 6  # lines that are quoted at most
_LABEL = re.compile(r"^\[Cron delivery: .*\]\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    text: str
    stems: frozenset[str]
    item: int | None  # its place among the items of its brief, from 1
    brief: int  # its place among the briefs, the newest last


class RecallAgent:
    """Answers with quotes from the transcript's briefs."""

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Refuse: there is nothing to recall before a brief was written."""
        raise ComposeFailed(
            "The recall agent only answers; give the job a `command:`, a `text:`, or an agent of kind prompt.",
            is_transient=False,
        )

    async def answer(self, question: Question) -> str:
        """Quote what the question means from the newest brief that speaks of it."""
        briefs = [turn for turn in question.transcript if turn.origin in (Origin.CRON, Origin.SEND)]
        # What the message explicitly answers is looked at first, like the newest.
        briefs.sort(key=lambda turn: turn.delivery_id in question.briefs)
        if not briefs:
            return "There is no brief in this conversation yet, so there is nothing that I could look up."
        lines = [line for place, turn in enumerate(briefs) for line in _lines(turn.text, place)]
        if not lines:
            raise AnswerFailed("The brief holds no text that could be quoted.")
        found = _find(question.text, lines)
        if found:
            return _quote(briefs[found[0].brief], found, "")
        newest = [line for line in lines if line.brief == lines[-1].brief]
        return _quote(briefs[-1], newest[:_SHOWN], " (no line of it matches the question, so this is how it begins)")


def _find(question: str, lines: Sequence[_Line]) -> list[_Line]:
    ordinal, stems = _read(question)
    for brief in sorted({line.brief for line in lines}, reverse=True):
        here = [line for line in lines if line.brief == brief]
        if ordinal is not None and (item := _by_place(here, ordinal, stems)):
            return item
        if best := _best(here, stems):
            return best
    return []


def _by_place(lines: Sequence[_Line], ordinal: int, stems: frozenset[str]) -> list[_Line]:
    """The n-th item that speaks of the question ("the second failed build"), else simply the n-th item."""
    places = sorted({line.item for line in lines if line.item is not None})
    speaking = [place for place in places if any(line.item == place and line.stems & stems for line in lines)]
    for candidates in (speaking, places):
        if ordinal == -1 and candidates:
            return [line for line in lines if line.item == candidates[-1]]
        if 0 < ordinal <= len(candidates):
            return [line for line in lines if line.item == candidates[ordinal - 1]]
    return []


def _best(lines: Sequence[_Line], stems: frozenset[str]) -> list[_Line]:
    scored = [(len(line.stems & stems), line) for line in lines]
    top = max((score for score, _ in scored), default=0)
    return [line for score, line in scored if score == top][:_SHOWN] if top else []


def _read(question: str) -> tuple[int | None, frozenset[str]]:
    ordinal = None
    words = [word.lower() for word in _WORD.findall(question)]
    for word in words:
        number = _NUMBER.match(word)
        place = int(number[1]) if number else _ORDINALS.get(word, 0)
        if place and ordinal is None:
            ordinal = place
    return ordinal, frozenset(_stem(word) for word in words if word not in _STOP and word not in _ORDINALS)


def _lines(text: str, brief: int) -> list[_Line]:
    made: list[_Line] = []
    item = 0
    inside = False
    for raw in _LABEL.sub("", text, count=1).splitlines():
        if not raw.strip():
            inside = False
            continue
        if _ITEM.match(raw):
            item += 1
            inside = True
        elif not raw.startswith((" ", "\t")):
            inside = False
        stems = frozenset(_stem(word) for word in _WORD.findall(raw.lower()))
        made.append(_Line(text=raw.rstrip(), stems=stems, item=item if inside else None, brief=brief))
    return made


def _stem(word: str) -> str:
    """Cut an English ending off, roughly: `failed`, `fails`, `failing` and `failures` meet in `fail`."""
    for ending in ("ures", "ure", "ings", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _quote(turn: Turn, lines: Sequence[_Line], remark: str) -> str:
    quoted = "\n".join(f"> {line.text}" for line in lines[:_SHOWN])
    name = f"“{turn.job}”" if turn.job else "this conversation"
    return f"From the brief of {name}, {turn.at:%Y-%m-%d %H:%M} UTC{remark}:\n\n{quoted}"
