"""When a brief is nothing but "there is nothing to say"."""

import re

from delivery.render.clean import clean, is_blank

SILENCE = "[SILENT]"
"""What an agent writes as its whole answer when it has nothing to tell."""

_LONGEST = 20
_DECORATION = "`*_~\"'\u201c\u201d\u2018\u2019.! \t\n"
_TOKEN = re.compile(r"\[+\s*silent\s*[\])}]*|silent\s*\]+", re.IGNORECASE)


def is_silent(text: str) -> bool:
    """Say whether a brief is empty, or the silence token alone.

    Near-exact forms count, as small models write them: a bracket missing or doubled, other case, escapes,
    quotes, backticks or a full stop around it, and the bare word in capitals; in whole answers under 20
    characters only.
    A text that merely mentions the token is no silence.
    """
    text = clean(text).strip()
    if is_blank(text):
        return True
    if len(text) >= _LONGEST:
        return False
    core = _visible(text).replace("\\", "").strip(_DECORATION)
    return core == "SILENT" or _TOKEN.fullmatch(core) is not None


def is_exactly_silent(text: str) -> bool:
    """Say whether a brief is empty or the token as it is spelled; anything else silent is worth a log line."""
    text = text.strip()
    return text in ("", SILENCE)


def _visible(text: str) -> str:
    return "".join(char for char in text if char.isprintable() or char.isspace())
