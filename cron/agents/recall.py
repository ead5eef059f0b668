"""The `recall` agent: no model, no network. It finds what of the briefs a question means, and quotes it.

It is the embedded default, so that the first answer works on a machine without a key. It never makes
anything up: all that it says besides the quote is where the quote comes from.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from difflib import get_close_matches
from itertools import islice
from math import log

from cron.agents.ports import BriefRequest, Composed, ComposeFailed, Started
from cron.agents.recall_units import Unit, UnitKind, units_of
from cron.agents.recall_words import Asked, read_question, stems_of
from seeding.labels import one_line
from seeding.model import Origin, Question, Turn
from seeding.ports import AnswerFailed

SHOWN = 8  # lines that are quoted at most
_PREFIX = 4  # letters that a word must share with a longer one to mean it
_VOCABULARY = 5_000  # different words among which a misspelt one is looked for
_NO_BRIEF = "There is no brief in this conversation yet, so there is nothing that I could look up."
_NO_MATCH = "Nothing in it matches the question; this is how it begins"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brief:
    turn: Turn
    units: tuple[Unit, ...]

    @property
    def items(self) -> tuple[Unit, ...]:
        return tuple(unit for unit in self.units if unit.kind is UnitKind.ITEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    brief: _Brief
    units: tuple[Unit, ...]
    remark: str = ""


class RecallAgent:
    """Answers with quotes from the transcript's briefs."""

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Refuse: there is nothing to recall before a brief was written."""
        raise ComposeFailed(
            "The recall agent only answers; give the job a `command:`, a `text:`, or an agent of kind prompt.",
            is_transient=False,
        )

    async def answer(self, question: Question, zone: tzinfo) -> str:
        """Quote what the question means, from the brief that it answers or else the one that speaks of it most."""
        return await asyncio.to_thread(recall, question, zone)  # a long transcript takes its time


def recall(question: Question, zone: tzinfo) -> str:
    """Return the answer. Raises AnswerFailed where there are only empty briefs."""
    told = [turn for turn in question.transcript if turn.origin in (Origin.CRON, Origin.SEND)]
    if not told:
        return _NO_BRIEF
    briefs = [brief for turn in told if (brief := _Brief(turn=turn, units=units_of(turn.text))).units]
    if not briefs:
        raise AnswerFailed("The brief holds no text that could be quoted.")
    asked = read_question(question.text)
    meant = _meant(briefs, question, zone, asked)
    found = _counted(meant, asked) or _matching(meant[:1] if question.briefs else meant, asked)
    if found is None and question.briefs:
        found = _matching(meant, asked)
    if found is None:
        remark = _NO_MATCH if asked.words or asked.places else ""
        found = _Found(brief=meant[0], units=meant[0].units, remark=remark)
    return _quote(found, zone)


def _meant(briefs: Sequence[_Brief], question: Question, zone: tzinfo, asked: Asked) -> list[_Brief]:
    """Order the briefs by how likely they are meant: answered, named, spoken of before, newest."""
    ordered = list(reversed(briefs))
    spoken_of = _spoken_of(briefs, question, zone)
    if spoken_of is not None:
        ordered.sort(key=lambda brief: brief is not spoken_of)
    ordered.sort(key=lambda brief: not _is_named(brief, asked))
    ordered.sort(key=lambda brief: brief.turn.delivery_id is None or brief.turn.delivery_id not in question.briefs)
    return ordered


def _spoken_of(briefs: Sequence[_Brief], question: Question, zone: tzinfo) -> _Brief | None:
    """Return the brief that the last answer quoted, if no brief came after it."""
    last = next((turn for turn in reversed(question.transcript[:-1]) if turn.origin is not Origin.INBOUND), None)
    if last is None or last.origin is not Origin.ANSWER:
        return None
    return next((one for one in reversed(briefs) if last.text.startswith(_source(one.turn, zone))), None)


def _is_named(brief: _Brief, asked: Asked) -> bool:
    name = stems_of(brief.turn.job or "")
    return bool(name) and name <= asked.words


def _counted(briefs: Sequence[_Brief], asked: Asked) -> _Found | None:
    """Return the items that the question counts to, from the first brief that has them."""
    for places in (asked.places, asked.guesses):
        for brief in briefs if places else ():
            units = [unit for place in places for unit in _at_place(brief.items, place, asked.kind)]
            if units:
                return _Found(brief=brief, units=tuple(dict.fromkeys(units)))
        if places and asked.places:
            return None
    return None


def _at_place(items: Sequence[Unit], place: int, kind: str | None) -> Sequence[Unit]:
    """Return the n-th item of that kind ("the second failed build"), else the one so numbered, else the n-th."""
    of_kind = [item for item in items if kind is not None and kind in item.stems]
    if of_kind and len(of_kind) < len(items):
        found = _nth(of_kind, place)
        if found:
            return found
    numbered = [item for item in items if item.number == place]
    return numbered or ([] if any(item.number for item in items) and place > 0 else _nth(items, place))


def _nth(items: Sequence[Unit], place: int) -> Sequence[Unit]:
    at = place - 1 if place > 0 else len(items) + place
    return items[at : at + 1] if 0 <= at < len(items) else ()


def _matching(briefs: Sequence[_Brief], asked: Asked) -> _Found | None:
    """Return what shares most words, and the rarest, with the question; of equals, the brief that is meant first."""
    units = [unit for brief in briefs for unit in brief.units]
    weights = _weights(units, asked.words)
    best: tuple[float, _Found] | None = None
    for brief in briefs if weights else ():
        scored = [(_score(unit, weights), unit) for unit in brief.units]
        top = max((score for score, _ in scored), default=0.0)
        if top > 0 and (best is None or top > best[0] * 1.001):
            hits = [unit for score, unit in scored if score >= top * 0.999]
            best = top, _Found(brief=brief, units=_with_what_they_head(hits, brief.units))
    return None if best is None else best[1]


def _weights(units: Sequence[Unit], words: frozenset[str]) -> Mapping[str, float]:
    """Return what each stem of the briefs that the question means is worth: the rarer, the more."""
    spread = Counter(stem for unit in units for stem in unit.stems)
    weights: dict[str, float] = {}
    for word in words:
        if word in spread:
            weights[word] = log(1 + len(units) / spread[word])
            continue
        for stem in spread if len(word) >= _PREFIX and word.isalpha() else ():
            if stem.startswith(word) or (len(stem) >= _PREFIX and word.startswith(stem)):
                weights[stem] = max(weights.get(stem, 0.0), log(1 + len(units) / spread[stem]) / 2)
    return weights or {stem: 1.0 for word in words for stem in _misspelt(word, spread)}


def _misspelt(word: str, stems: Iterable[str]) -> list[str]:
    """Return the stem that a word of the question may stand for, if there is one very like it."""
    if len(word) < _PREFIX or not word.isalpha():
        return []
    return get_close_matches(
        word, list(islice((stem for stem in stems if stem.isalpha()), _VOCABULARY)), n=1, cutoff=0.8
    )


def _score(unit: Unit, weights: Mapping[str, float]) -> float:
    return sum(weight for stem, weight in weights.items() if stem in unit.stems)


def _with_what_they_head(hits: Sequence[Unit], units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Add what stands below a heading: "Three builds failed:" alone says nothing."""
    if any(unit.kind is not UnitKind.HEADING for unit in hits):
        return tuple(hits)
    kept: list[Unit] = []
    for unit in hits:
        at = units.index(unit) + 1
        end = next((n for n in range(at, len(units)) if units[n].kind is UnitKind.HEADING), len(units))
        kept += [unit, *units[at:end]]
    return tuple(dict.fromkeys(kept))


def _source(turn: Turn, zone: tzinfo) -> str:
    when = f"{turn.at.astimezone(zone):%Y-%m-%d %H:%M %Z}"
    return f"From “{one_line(turn.job)}”, {when}" if turn.job else f"From what was sent here, {when}"


def _quote(found: _Found, zone: tzinfo) -> str:
    remark = f". {found.remark}" if found.remark else ""
    lines: list[str] = []
    shown, left_out = 0, 0
    lead: tuple[str, ...] = ()
    for unit in found.units:
        room = SHOWN - shown
        if room <= 0:
            left_out += len(unit.lines)
            continue
        if unit.lead != lead:
            lines += unit.lead
            lead = unit.lead
        kept = unit.lines[:room]
        lines += [f"`{line.strip()}`" if unit.is_code and "`" not in line else line for line in kept]
        shown, left_out = shown + len(kept), left_out + len(unit.lines) - len(kept)
    quoted = "\n".join(f"> {line}" for line in lines)
    more = f"\n\n({left_out} more {'line' if left_out == 1 else 'lines'} in it)" if left_out else ""
    return f"{_source(found.brief.turn, zone)}{remark}:\n\n{quoted}{more}"
