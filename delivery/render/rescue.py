"""Put back what markdown-it leaves out, so that no word of a brief is lost.

It drops what is nested deeper than its limit, cells beyond a table's last column, and definitions of links that
nothing uses. Each is shown: as it was typed, or as a cell of its own.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

NOTE = "note"
"""Key in a `paragraph_open` token's meta: why the paragraph is shown as it was typed."""

_TOO_DEEP = "nested too deep: shown as it was written"
_CONTAINERS = frozenset({"blockquote_open", "list_item_open"})
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_BEFORE_FIRST_CELL = re.compile(r"[\s>*+\-\d.)]*")


def put_back(state: StateCore) -> None:
    """Run as the last core rule."""
    lines = state.src.split("\n")
    labels = {child.meta["label"] for token in state.tokens for child in token.children or () if "label" in child.meta}
    deepest = state.md.options["maxNesting"]
    kept: list[Token] = []
    row: Token | None = None
    cells = 0
    for token, after in pairwise((*state.tokens, None)):
        if token is None:
            continue
        if token.type == "definition":
            # One that a link used says nothing more; a second one of the same label was never used.
            label = token.meta["id"]
            if label not in labels:
                kept.extend(_typed(token, lines, None))
            labels.discard(label)
            continue
        if token.type == "tr_open":
            row, cells = token, 0
        elif token.type in ("td_open", "th_open"):
            cells += 1
        elif token.type == "tr_close" and row is not None:
            kept.extend(_surplus_cells(row, lines, cells))
        kept.append(token)
        is_empty = after is not None and after.nesting == -1 and after.level == token.level
        if token.type in _CONTAINERS and is_empty and token.level >= deepest - 2:
            kept.extend(_typed(token, lines, _TOO_DEEP))
    state.tokens = kept


def _typed(token: Token, lines: Sequence[str], note: str | None) -> Iterator[Token]:
    """Give a paragraph of the lines that a token stands for."""
    first, end = token.map or (0, 0)
    content = "\n".join(line.strip() for line in lines[first:end]).rstrip()
    if not content:
        return
    opening = Token("paragraph_open", "p", 1, map=[first, end])
    if note:
        opening.meta[NOTE] = note
    yield from (opening, _inline(content, first, end), Token("paragraph_close", "p", -1))


def _inline(content: str, first: int, end: int) -> Token:
    children: list[Token] = []
    at = 0
    for line in content.split("\n"):
        if children:
            children.append(Token("softbreak", "br", 0, meta={"at": at - 1}))
        children.append(Token("text", "", 0, content=line, meta={"at": at}))
        at += len(line) + 1
    return Token("inline", "", 0, map=[first, end], content=content, children=children)


def _surplus_cells(row: Token, lines: Sequence[str], count: int) -> Iterator[Token]:
    first, end = row.map or (0, 0)
    if first >= len(lines) or lines[first].count("|") < count:
        return
    cells = _CELL_BORDER.split(lines[first].rstrip().removesuffix("|"))
    # Before the first border stands nothing, or a quote's or a list's marker; or the first cell itself.
    has_border = len(cells) > count and _BEFORE_FIRST_CELL.fullmatch(cells[0]) is not None
    for cell in cells[count + has_border :]:
        if text := cell.strip():
            yield from (Token("td_open", "td", 1), _inline(text, first, end), Token("td_close", "td", -1))
