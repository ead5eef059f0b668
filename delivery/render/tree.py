"""From Markdown to the tree of blocks.py."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, count

from markdown_it.token import Token

from delivery.render.blocks import (
    Block,
    Code,
    Document,
    Item,
    ItemList,
    Note,
    Paragraph,
    Quote,
    Row,
    Rule,
    Table,
    TextLine,
    plain_span,
)
from delivery.render.clean import clean
from delivery.render.inline import read_inline
from delivery.render.parser import make_positioned_parser
from delivery.render.rescue import NOTE

_LANGUAGE = re.compile(r"[\w+#.\-]{1,30}")
_TASK = re.compile(r"\[([ xX])\](?:[ \t]+|$)")


def parse(markdown: str) -> Document:
    """Return the tree of a brief. Any text is Markdown: nothing is refused, and no visible word is lost."""
    source = clean(markdown)
    tokens = make_positioned_parser().parse(source, {})
    builder = _Builder(source, tokens)
    blocks = builder.blocks_until(None)
    return Document(source=source, blocks=blocks, notes=tuple(builder.notes))


class _Builder:
    """Walks the flat list of tokens once."""

    def __init__(self, source: str, tokens: list[Token]) -> None:
        self.source_lines = source.split("\n")
        self.line_starts = list(accumulate((len(line) + 1 for line in self.source_lines), initial=0))
        self.tokens = tokens
        self.ids = count(1)
        self.at = 0
        self.notes: list[Note] = []

    def blocks_until(self, closing: str | None) -> tuple[Block, ...]:
        """Read blocks up to the token of that type, and step over it."""
        found: list[Block] = []
        while self.at < len(self.tokens):
            token = self._next()
            if token.type == closing:
                break
            found.extend(self._block(token))
        return tuple(found)

    def _block(self, token: Token) -> Iterator[Block]:
        match token.type:
            case "paragraph_open" | "heading_open":
                level = int(token.tag[1:]) if token.type == "heading_open" else 0
                yield self._paragraph(token, level)
            case "fence":
                yield self._code(token, 1)
            case "code_block":
                yield self._code(token, 0)
            case "hr":
                yield Rule(start=self._start(token))
            case "blockquote_open":
                yield Quote(start=self._start(token), children=self.blocks_until("blockquote_close"))
            case "bullet_list_open" | "ordered_list_open":
                yield self._list(token)
            case "table_open":
                yield self._table(token)

    def _next(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _span_of(self, token: Token) -> tuple[int, int]:
        first, end = token.map or (0, 0)
        return first, end

    def _start(self, token: Token) -> int:
        return self.line_starts[self._span_of(token)[0]]

    def _paragraph(self, opening: Token, level: int) -> Paragraph:
        inline = self._next()
        self._next()
        if NOTE in opening.meta:
            self.notes.append(Note(start=self._start(opening), reason=opening.meta[NOTE]))
        return Paragraph(start=self._start(opening), lines=self._lines(inline), level=level)

    def _lines(self, inline: Token) -> tuple[TextLine, ...]:
        """Read an inline token; its content's lines are the ends of the source's lines."""
        first = self._span_of(inline)[0]
        places: list[tuple[int, int]] = []
        position = 0
        for row, content in enumerate(inline.content.split("\n"), start=first):
            line = self.source_lines[min(row, len(self.source_lines) - 1)]
            places.append((position, self.line_starts[row] + max(0, line.rfind(content))))
            position += len(content) + 1
        return read_inline(inline.children or [], places, self.ids)

    def _code(self, token: Token, opening_lines: int) -> Code:
        first, _ = self._span_of(token)
        content = token.content.removesuffix("\n")
        language, title = _read_info(token.info)
        lines = [plain_span(title, self.line_starts[first])] if title else []
        for row, text in enumerate(content.split("\n"), start=first + opening_lines):
            row = min(row, len(self.source_lines) - 1)
            indent = max(0, len(self.source_lines[row]) - len(text))
            lines.append(plain_span(text, self.line_starts[row] + indent))
        lines[0] = replace(lines[0], start=self.line_starts[first], cut=self.line_starts[first])
        return Code(start=self.line_starts[first], language=language, lines=tuple(lines))

    def _list(self, opening: Token) -> ItemList:
        items: list[Item] = []
        is_loose = False
        closing = opening.type.replace("_open", "_close")
        while (token := self._next()).type != closing:
            after = self.tokens[self.at]
            is_loose = is_loose or (after.type == "paragraph_open" and not after.hidden)
            number = f"{token.info}{token.markup}" if opening.type == "ordered_list_open" else None
            children = self.blocks_until("list_item_close")
            done, children = _read_task(children)
            items.append(Item(start=self._start(token), number=number, done=done, children=children))
        return ItemList(start=self._start(opening), items=tuple(items), is_loose=is_loose)

    def _table(self, opening: Token) -> Table:
        rows: list[Row] = []
        aligns: list[str] = []
        while (token := self._next()).type != "table_close":
            if token.type == "tr_open":
                rows.append(self._row(token, aligns))
        header, *body = rows
        return Table(start=self._start(opening), header=header, rows=tuple(body), aligns=tuple(aligns))

    def _row(self, opening: Token, aligns: list[str]) -> Row:
        start = self._start(opening)
        cells: list[TextLine] = []
        while (token := self._next()).type != "tr_close":
            if token.type == "th_open":
                aligns.append(str(token.attrs.get("style", "")).removeprefix("text-align:") or "left")
            if token.type == "inline":
                cells.append(read_inline(token.children or [], [(0, start)], self.ids)[0])
        return Row(start=start, cells=tuple(cells))


def _read_info(info: str) -> tuple[str, str]:
    """Split the words after an opening fence into a language and what is to be shown as a line."""
    words = info.split()
    if words and _LANGUAGE.fullmatch(words[0]):
        return words[0], " ".join(words[1:])
    return "", " ".join(words)


def _read_task(children: tuple[Block, ...]) -> tuple[bool | None, tuple[Block, ...]]:
    """Take "[x] " off the first line of an item."""
    first = children[0] if children else None
    if not isinstance(first, Paragraph) or not first.lines or not first.lines[0]:
        return None, children
    span, *others = first.lines[0]
    match = _TASK.match(span.text) if not span.marks else None
    if match is None:
        return None, children
    rest = replace(span, text=span.text[match.end() :], start=span.start + match.end())
    lines = ((rest, *others) if rest.text else tuple(others), *first.lines[1:])
    return match.group(1) != " ", (replace(first, lines=lines), *children[1:])
