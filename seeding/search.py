"""Finds turns by whatever a person types: no input is an error, and what they meant comes first.

A query is words, all of which must occur, and quoted phrases; there are no operators. Passes go from strict to
lenient (whole words, beginnings of words, words without their symbols, any substring), each newest first; a
pass after the second is made only if nothing was found. Functions on a connection.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import Row

from seeding.model import SessionId
from state.schema import turns

MOST_TERMS = 24
LONGEST_TERM = 100
LONGEST_QUERY = 2000
_BEFORE, _SHOWN = 50, 180  # characters of a snippet before the find, and in all

_ORDINARY = ".,;:!?…·()[]{}<>\"'`“”„‟‘’‚«»‹›*_"
"""What stands around words in any sentence; other signs at a word's edge (C++, #ops, --force) belong to it."""

SPACELESS = re.compile("[\u0e00-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]")
"""Letters of scripts without spaces between words; migration 0002 has an index of exactly these."""

_PIECES = re.compile(r'"(?P<phrase>[^"]*\w[^"]*)"|(?P<word>\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A turn that was found: its session, and the place in it as one line of text."""

    turn: int
    session: SessionId
    at: datetime
    role: str
    snippet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word or phrase as typed. `tokens`: it holds something that the index of words knows."""

    text: str
    tokens: bool
    is_phrase: bool = False

    @property
    def is_spaceless(self) -> bool:
        return SPACELESS.search(self.text) is not None

    @property
    def has_signs(self) -> bool:
        """Whether signs at its edges are part of what is meant."""
        return self.tokens and not self.is_phrase and not (_is_letter(self.text[0]) and _is_letter(self.text[-1]))


def search(conn: Connection, words: str, *, most: int = 50, sessions: Collection[str] | None = None) -> tuple[Hit, ...]:
    """Return the turns that hold all of what was typed, at most `most`. `sessions`: only those, else all."""
    terms = terms_of(words)
    if not terms or (sessions is not None and not sessions):
        return ()
    found: dict[int, Row[Any]] = {}
    for is_last_resort, where, params in _passes(conn, terms):
        if len(found) >= most or (is_last_resort and found):
            break
        for row in _run(conn, where, params, most=most + len(found), sessions=sessions):
            found.setdefault(row.id, row)
    return tuple(_hit(row, terms) for row in list(found.values())[:most])


def terms_of(words: str) -> tuple[Term, ...]:
    """Read a query: words by spaces, phrases by pairs of double quotes; what cannot be stored is left out."""
    clean = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in words[:LONGEST_QUERY])
    terms: dict[str, Term] = {}
    for piece in _PIECES.finditer(clean):
        term = _phrase(piece["phrase"]) if piece["phrase"] is not None else _word(piece["word"])
        terms.setdefault(term.text, term)
        if len(terms) == MOST_TERMS:
            break
    return tuple(terms.values())


def _phrase(typed: str) -> Term:
    return Term(text=typed.strip()[:LONGEST_TERM], tokens=True, is_phrase=True)


def _word(typed: str) -> Term:
    core = typed.strip(_ORDINARY)[:LONGEST_TERM] or typed[:LONGEST_TERM]
    return Term(text=core, tokens=any(_is_letter(char) for char in core))


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


# --- passes -------------------------------------------------------------------------------------------

Params = dict[str, object]


def _passes(conn: Connection, terms: Sequence[Term]) -> Iterator[tuple[bool, str, Params]]:
    if conn.dialect.name == "sqlite":
        yield False, *_condition(terms, begins=False, signs=True)
        yield False, *_condition(terms, begins=True, signs=True)
        if any(term.has_signs for term in terms):
            yield True, *_condition(terms, begins=True, signs=False)
    yield True, *_substrings(terms)


def _condition(terms: Sequence[Term], *, begins: bool, signs: bool) -> tuple[str, Params]:
    words = [_matched(term, begins=begins) for term in terms if term.tokens and not term.is_spaceless]
    triples = [_quoted(term.text) for term in terms if term.is_spaceless and len(term.text) >= 3]
    parts: list[str] = []
    params: Params = {}
    if words:
        parts.append("turns.id IN (SELECT rowid FROM turns_search WHERE turns_search MATCH :words)")
        params["words"] = " AND ".join(words)
    if triples:
        parts.append("turns.id IN (SELECT rowid FROM turns_trigrams WHERE turns_trigrams MATCH :triples)")
        params["triples"] = " AND ".join(triples)
    literal = [term for term in terms if _is_literal(term) or (signs and term.has_signs)]
    more, likes = _substrings(literal)
    return " AND ".join([*parts, *([more] if literal else [])]), params | likes


def _is_literal(term: Term) -> bool:
    """No index knows it: signs only, or one or two letters of a script without spaces."""
    return (term.is_spaceless and len(term.text) < 3) or not (term.tokens or term.is_spaceless)


def _substrings(terms: Sequence[Term]) -> tuple[str, Params]:
    names = {f"like{place}": f"%{_escaped(term.text)}%" for place, term in enumerate(terms)}
    return " AND ".join(f"turns.text LIKE :{name} ESCAPE '\\'" for name in names), dict(names)


def _matched(term: Term, *, begins: bool) -> str:
    """One term for the index of words; a single letter is nobody's beginning."""
    is_begun = begins and not term.is_phrase and len(term.text.strip(_ORDINARY + "+#-/")) > 1
    return f"{_quoted(term.text)}{' *' if is_begun else ''}"


def _quoted(typed: str) -> str:
    return '"' + typed.replace('"', '""') + '"'


def _escaped(typed: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", typed)


def _run(
    conn: Connection, where: str, params: Mapping[str, object], *, most: int, sessions: Collection[str] | None
) -> Sequence[Row[Any]]:
    given: Params = {**params, "most": most}
    if sessions is not None:
        names = {f"session{place}": session for place, session in enumerate(sessions)}
        where = f"{where} AND turns.session_id IN ({', '.join(f':{name}' for name in names)})"
        given |= names
    statement = text(
        f"SELECT id, session_id, role, text, at FROM turns WHERE {where} ORDER BY id DESC LIMIT :most"
    ).columns(turns.c.id, turns.c.session_id, turns.c.role, turns.c.text, turns.c.at)
    return conn.execute(statement, given).all()


# --- what is shown ------------------------------------------------------------------------------------


def _hit(row: Row[Any], terms: Sequence[Term]) -> Hit:
    return Hit(
        turn=row.id,
        session=SessionId(row.session_id),
        at=row.at,
        role=row.role,
        snippet=snippet_of(row.text, [term.text for term in terms]),
    )


def snippet_of(whole: str, needles: Sequence[str]) -> str:
    """Return the part of a text around the first of these, as one line."""
    line = " ".join(whole.split())
    lowered = line.lower()
    if len(lowered) != len(line):
        lowered = line
    places = [place for needle in needles if (place := lowered.find(" ".join(needle.lower().split()))) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    if start:
        start = line.rfind(" ", 0, start + 1) + 1 if start - line.rfind(" ", 0, start + 1) < 20 else start
    end = min(len(line), start + _SHOWN)
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
