"""markdown-it-py, set up so that nothing is lost and every piece of text knows where it came from.

HTML is off: `List<int>` and `<beyond>` are text. Inline tokens carry `meta["at"]`, the position in their block's
content at which they begin; reference definitions leave a token, so that an unused one is shown, not swallowed.
"""

from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from delivery.render.rescue import put_back

MAX_NESTING = 60
"""Levels of quotes and lists (a list counts twice) that are understood; what is deeper is shown as it was typed."""

MAX_BRACKETS = 4_000
"""Opening brackets in one paragraph up to which its links are read."""


class _PositionedState(StateInline):
    """Notes on every inline token where it begins."""

    def pushPending(self) -> Token:
        content = self.pending
        at = self.pos - len(content)
        if not self.src.startswith(content, max(0, at)):  # spaces before a line end were cut off
            at = self.src.rfind(content, 0, self.pos)
        token = super().pushPending()
        token.meta["at"] = max(0, at)
        return token

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        token.meta["at"] = self.pos
        return token


class _Inline(ParserInline):
    """The inline parser, with a bound on what it spends on brackets, over a state of the given type."""

    def __init__(self, state_type: type[StateInline], left_out: tuple[str, ...]) -> None:
        super().__init__()
        self.state_type = state_type
        self.ruler.disable(["html_inline", "linkify", *left_out])

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        # An opening bracket without its end costs 40 microseconds: a paragraph full of them is shown as typed.
        is_bounded = src.count("[") <= MAX_BRACKETS
        parser = self if is_bounded else _Inline(self.state_type, ("link", "image"))
        state = self.state_type(src, md, env, tokens)
        parser.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def make_parser() -> MarkdownIt:
    """Return a parser for briefs: CommonMark, tables and strikethrough, no HTML, nothing lost."""
    options = {"html": False, "maxNesting": MAX_NESTING, "inline_definitions": True, "store_labels": True}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.disable(["html_block", "linkify"])
    parser.inline = _Inline(StateInline, ())
    parser.core.ruler.push("put_back", put_back)
    return parser


def make_positioned_parser() -> MarkdownIt:
    """Return the same parser, which also notes where each inline token begins; its tokens cannot be rendered."""
    parser = make_parser()
    parser.inline = _Inline(_PositionedState, ())
    # The two rules that join neighbouring texts would forget where the second one began.
    return parser.disable(["fragments_join", "text_join"])
