"""The local page: one part that is the Markdown itself, and the safe HTML that the page shows for it."""

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from delivery.render.clean import clean, is_blank
from delivery.render.parser import make_parser
from delivery.render.parts import RenderedPart

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
_BARE_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+")
_NOT_AT_THE_END = ".,;:!?*_~'\""


def render_local(markdown: str) -> tuple[RenderedPart, ...]:
    """Return one part, payload `{"text": markdown}`, however long it is; none without visible text."""
    text = clean(markdown)
    if is_blank(text):
        return ()
    return (RenderedPart(payload={"text": text}, text=text),)


def to_html(markdown: str) -> str:
    """Return safe HTML for a brief or an answer.

    HTML in it is shown as text. Links lead to http, https and mailto only, open apart and without an opener;
    pictures are links, so that reading a brief calls nobody; bare addresses are links.
    """
    parser = make_parser()
    parser.options["breaks"] = True
    parser.validateLink = _is_safe  # type: ignore[method-assign,assignment]
    parser.core.ruler.push("link_bare_addresses", _link_bare_addresses)
    parser.add_render_rule("link_open", _render_link)
    parser.add_render_rule("image", _render_image)
    return str(parser.render(clean(markdown)))


def _is_safe(address: str) -> bool:
    return _SAFE_LINK.match(address) is not None


def _render_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    token.attrs = {"href": str(token.attrs.get("href", "")), "rel": "noopener noreferrer", "target": "_blank"}
    return renderer.renderToken(tokens, index, options, env)


def _render_image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    address = str(token.attrs.get("src", ""))
    text = renderer.renderInlineAsText(token.children or [], options, env) or address
    return "".join(renderer.render(list(_link(address, text)), options, env))


def _link(address: str, text: str) -> Iterator[Token]:
    yield Token("link_open", "a", 1, attrs={"href": address})
    yield Token("text", "", 0, content=text)
    yield Token("link_close", "a", -1)


def _link_bare_addresses(state: StateCore) -> None:
    for token in state.tokens:
        if token.type == "inline" and "://" in token.content:
            token.children = list(_with_links(token.children or [], state.md))


def _with_links(tokens: Sequence[Token], md: MarkdownIt) -> Iterator[Token]:
    inside = 0
    for token in tokens:
        inside += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if inside or token.type != "text":
            yield token
        else:
            yield from _linked(token.content, md)


def _linked(text: str, md: MarkdownIt) -> Iterator[Token]:
    end = 0
    for match in _BARE_ADDRESS.finditer(text):
        address = _trimmed(match.group())
        yield Token("text", "", 0, content=text[end : match.start()])
        yield from _link(md.normalizeLink(address), address)
        end = match.start() + len(address)
    yield Token("text", "", 0, content=text[end:])


def _trimmed(address: str) -> str:
    """Take off what ends the sentence and not the address."""
    while address and (
        address[-1] in _NOT_AT_THE_END or (address[-1] == ")" and address.count(")") > address.count("("))
    ):
        address = address[:-1]
    return address
