"""Briefs for the rendering tests: random Markdown, and readers of what was rendered."""

from collections.abc import Iterator, Mapping

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

JOINER = "\u2060"

_WORDS = st.from_regex(r"[a-z]{1,6}[0-9]{1,3}", fullmatch=True)
_ODD = st.sampled_from(
    [
        "List<int>",
        "<beyond>",
        "&",
        "5 * 3 * 2",
        "snake_case_name",
        "AT&T",
        "a<b",
        "2**8",
        "😀",
        "漢字、",
        "~5",
        "1.",
        "#3",
        "[x]",
        "!",
    ]
)
_PLAIN = st.lists(st.one_of(_WORDS, _WORDS, _ODD), min_size=1, max_size=8).map(" ".join)


_FORMS = ["{}", "**{}**", "*{}*", "~~{}~~", "`{}`", "[{}](https://e.org/a_(b))", "_{}_", "``{}``"]
_KINDS = ["p", "h", "code", "table", "list", "numbers", "quote", "rule"]


@st.composite
def _inline(draw: st.DrawFn) -> str:
    pieces = []
    for _ in range(draw(st.integers(1, 4))):
        text = draw(_PLAIN)
        form = draw(
            st.sampled_from(["{}", "**{}**", "*{}*", "~~{}~~", "`{}`", "[{}](https://e.org/a_(b))", "_{}_", "``{}``"])
        )
        pieces.append(form.format(text))
    return draw(st.sampled_from([" ", " ", "\n"])).join(pieces)


@st.composite
def _block(draw: st.DrawFn, depth: int = 0) -> str:
    kind = draw(st.sampled_from(_KINDS if depth < 3 else ["p"]))
    text = draw(_inline())
    match kind:
        case "h":
            return "#" * draw(st.integers(1, 6)) + " " + text.replace("\n", " ")
        case "code":
            return "````py\n" + text + "\n" * draw(st.integers(1, 3)) + "  ``` " + draw(_PLAIN) + "\n````"
        case "table":
            rows = draw(st.lists(st.tuples(_PLAIN, _PLAIN), min_size=1, max_size=6))
            return "| k | v |\n|---|--:|\n" + "\n".join(f"| {a} | {b} |" for a, b in rows)
        case "list":
            items = draw(st.lists(_block(depth + 1), min_size=1, max_size=3))
            return "\n".join("- " + item.replace("\n", "\n  ") for item in items)
        case "numbers":
            items = draw(st.lists(_block(depth + 1), min_size=1, max_size=3))
            first = draw(st.integers(1, 20))
            return "\n".join(f"{n}. " + item.replace("\n", "\n    ") for n, item in enumerate(items, first))
        case "quote":
            return "> " + draw(_block(depth + 1)).replace("\n", "\n> ")
        case "rule":
            return "---"
    return text


briefs = st.lists(_block(), min_size=1, max_size=6).map("\n\n".join)
"""Markdown as a model writes it."""

long_briefs = st.builds(lambda brief, times: "\n\n".join([brief] * times), briefs, st.integers(2, 8))
"""Briefs that make several parts, at least where the limit is small."""

_NOISE = "ab1 \n\t*_`~[]()<>!@#&;:|\\-+=.\"'é漢😀\u200d\u0301\u200f"
noise = st.text(alphabet=_NOISE, max_size=120)
"""Text in which anything may be markup."""

anything = st.one_of(briefs, noise, st.text(max_size=60))


def read_slack(payload: Mapping[str, object]) -> str:
    """Return what a reader sees of a part in Slack, as a strict reader of CommonMark."""
    blocks = payload["blocks"]
    assert isinstance(blocks, list) and len(blocks) == 1 and blocks[0]["type"] == "markdown"
    tokens = MarkdownIt("commonmark", {"html": True}).enable("strikethrough").parse(blocks[0]["text"])
    return "\n".join(_visible(tokens)).replace(JOINER, "")


def _visible(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("fence", "code_block"):
            yield token.content
        elif token.type == "inline":
            yield "".join(_shown(child) for child in token.children or [])
        assert not token.type.startswith("html"), token


def _shown(token: Token) -> str:
    assert not token.type.startswith("html"), token
    return "\n" if token.type.endswith("break") else token.content


def utf16_slice(text: str, offset: int, length: int) -> str:
    """Return the text under an entity."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le")
