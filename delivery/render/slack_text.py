"""How text is spelled inside Slack's markdown block: what must be escaped, what would ping, how long it is."""

import re

JOINER = "\u2060"
"""WORD JOINER: invisible, of no width, not a space."""

PING = re.compile(r"<(?=[!@#])|@(?=(?:here|channel|everyone|group)\b)", re.IGNORECASE)
"""The first character of each spelling that notifies people; a joiner after it makes it plain text."""

_URL = re.compile(r"https?://[^\s<>]+")
_TAG_LIKE = re.compile(r"<(?=[A-Za-z/!?@#" + JOINER + r"]|$)")
_ENTITY_LIKE = re.compile(r"&(?=#?\w+;)")
_ESCAPED = re.compile(
    r"""
    \\(?=[!-/:-@\[-`{-~]|$)             # a backslash that would escape what follows
    | [*`]
    | (?<![^\W_])_ | _(?![^\W_])        # an underscore that is not inside a word
    | ~(?=~) | (?<=~)~
    | \](?=[(\[:]|$)                    # the end of what would be a link's label
    """,
    re.VERBOSE,
)
_LINE_START = re.compile(r"(?:[>+=-]|\#{1,6}$|\#{1,6}(?=\s))")
_NUMBERED = re.compile(r"(\d{1,9})(?=[.)]$)")


def escape(word: str, *, at_start: bool, is_lone: bool, in_link: bool, level: int) -> str:
    """Return a word as Markdown that shows exactly this word.

    `at_start`: it begins a line; `is_lone`: it has a space on either side; `in_link`: it is part of a link's
    label; `level`: of the heading that it stands in, or 0.
    """
    if is_lone and not at_start and word in ("*", "_"):
        return word
    if in_link:
        text = re.sub(r"[\[\]]", r"\\\g<0>", _escape_plain(word, is_label=True))
    else:
        text = "".join(_escape_around_urls(word))
    if at_start:
        text = _NUMBERED.sub(r"\1\\", text) if _NUMBERED.match(text) else text
        text = f"\\{text}" if _LINE_START.match(text) else text
    if level and not word.strip("#"):
        text = text if text.startswith("\\") else f"\\{text}"
    return text


def escape_html(text: str) -> str:
    """Escape what Slack reads in `text`. https://docs.slack.dev/messaging/formatting-message-text"""
    return _escape_brackets(text.replace("&", "&amp;"))


def weigh(text: str) -> int:
    """Return the length of a text in UTF-16 units after Slack has made entities of `&`, `<` and `>`."""
    extra = 4 * text.count("&") + 3 * text.count("<") + 3 * text.count(">")
    return len(text) + extra + (0 if text.isascii() else sum(char > "\uffff" for char in text))


def _escape_around_urls(word: str) -> list[str]:
    """Escape a word, but leave bare addresses as they are: Slack makes links of them."""
    pieces: list[str] = []
    end = 0
    for match in _URL.finditer(word):
        pieces += [_escape_plain(word[end : match.start()]), match.group()]
        end = match.end()
    return [*pieces, _escape_plain(word[end:])]


def _escape_plain(text: str, *, is_label: bool = False) -> str:
    pattern = _ESCAPED_IN_LABEL if is_label else _ESCAPED
    text = pattern.sub(r"\\\g<0>", text)
    text = _ENTITY_LIKE.sub("&amp;", text)
    return _escape_brackets(text) if _TAG_LIKE.search(text) else text


def _escape_brackets(text: str) -> str:
    """Escape what would be read as a tag."""
    return text.replace("<", "&lt;").replace(">", "&gt;")


_ESCAPED_IN_LABEL = re.compile(_ESCAPED.pattern.rsplit("| \\]", 1)[0], re.VERBOSE)
