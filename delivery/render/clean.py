"""Make any text fit for a chat: valid Unicode, one kind of line end, no terminal codes."""

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNFIT = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Return `text` as it may be shown: the text that all parts of a brief add up to.

    Terminal colour codes and a leading byte order mark are dropped, every kind of line end becomes a newline,
    surrogate pairs become the character they spell; other control characters, NULs and lone surrogates become
    a visible U+FFFD. Marks of writing direction stay. Cleaning twice is cleaning once.
    """
    text = _PAIRS.sub(_join_pair, text.removeprefix("\ufeff"))
    text = _LINE_ENDS.sub("\n", _ANSI.sub("", text))
    return _UNFIT.sub(_REPLACEMENT, text)


def is_blank(text: str) -> bool:
    """Say whether a reader would see nothing: only spaces, direction marks and other invisible characters."""
    return not any(char.isprintable() and not char.isspace() for char in text)


def _join_pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
