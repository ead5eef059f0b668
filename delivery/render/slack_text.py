"""How text is spelled inside Slack's markdown block: what must be escaped, what would ping, how long it is."""

import re

from delivery.split import utf16_units

JOINER = "\u2060"
"""WORD JOINER: invisible, of no width, not a space."""

PING = re.compile(r"(?:<|&lt;)(?=[!@#])|@(?=(?:here|channel|everyone|group)\b)", re.IGNORECASE)
"""How each spelling begins that notifies people; a joiner after it makes it plain text."""

_URL = re.compile(r"https?://[^\s<>\[\]`*~&\\]+")
_TAG_LIKE = re.compile(r"<(?=[A-Za-z/!?@#" + JOINER + r"]|$)([^<>]*)(>?)")
_ENTITY_LIKE = re.compile(r"&(?=#?\w+;|#?\w*$)")
_ESCAPED = re.compile(
    r"""
    \\(?=[!-/:-@\[-`{-~\s]|$)            # a backslash that would escape what follows
    | ` | (?<!\s)\* | \*(?!\s)          # an asterisk between two spaces is none that marks
    | (?<![^\W_])_ | _(?![^\W_])        # an underscore that is not inside a word
    | ~(?=~) | (?<=~)~
    """,
    re.VERBOSE,
)
_LABEL_END = re.compile(r"\](?=[(\[:]|$)")
_LINE_START = re.compile(r"[>+=-]|#{1,6}(?=\s|$)")
_NUMBERED = re.compile(r"(\d{1,9})(?=[.)](?:\s|$))")
_CLOSING_SIGNS = re.compile(r"(?:^|(?<=\s))(?=#+\s?$)")


def escape(text: str, *, at_start: bool, in_link: bool, level: int) -> str:
    """Return a text as Markdown that shows exactly this text.

    What follows decides about some characters: a text that a space follows is to be given with that space.
    `at_start`: it begins a line; `in_link`: it is part of a link's label; `level`: of the heading that it stands
    in, or 0.
    """
    escaped = _escape_label(text) if in_link else _escape_around_urls(text)
    if at_start:
        escaped = _NUMBERED.sub(r"\1\\", escaped, count=1) if _NUMBERED.match(escaped) else escaped
        escaped = f"\\{escaped}" if _LINE_START.match(escaped) else escaped
    return _CLOSING_SIGNS.sub(r"\\", escaped) if level else escaped


def escape_html(text: str) -> str:
    """Escape what Slack reads in `text`. https://docs.slack.dev/messaging/formatting-message-text"""
    return _escape_brackets(text.replace("&", "&amp;"))


def weigh(text: str) -> int:
    """Return the length of a text in UTF-16 units after Slack has made entities of `&`, `<` and `>`."""
    return utf16_units(text) + 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))


def _escape_around_urls(text: str) -> str:
    """Escape a text, but leave bare addresses as they are: Slack makes links of them."""
    if "://" not in text:
        return _LABEL_END.sub(r"\\]", _escape_plain(text))
    pieces: list[str] = []
    end = 0
    for match in _URL.finditer(text):
        pieces += [_LABEL_END.sub(r"\\]", _escape_plain(text[end : match.start()])), match.group()]
        end = match.end()
    return "".join([*pieces, _LABEL_END.sub(r"\\]", _escape_plain(text[end:]))])


def _escape_label(text: str) -> str:
    return re.sub(r"[\[\]]", r"\\\g<0>", _escape_plain(text))


def _escape_plain(text: str) -> str:
    text = _ENTITY_LIKE.sub("&amp;", _ESCAPED.sub(r"\\\g<0>", text))
    return _TAG_LIKE.sub(lambda match: _escape_brackets(match.group()), text)


def _escape_brackets(text: str) -> str:
    """Escape what would be read as a tag."""
    return text.replace("<", "&lt;").replace(">", "&gt;")
