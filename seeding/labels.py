"""The lines that mark, inside a transcript, what is a mirror of a visible message. Pure."""

import re
import unicodedata

UNNAMED = "unnamed"
LONGEST = 120
SEND_LABEL = "[Message sent: hermes-cron send]"

_BRACKETS = str.maketrans({"[": "(", "]": ")"})
_LABEL_LIKE = re.compile(r"^(\s*)(\[(?:Cron delivery|Message sent|End of delivery)\b)", re.MULTILINE | re.IGNORECASE)
_LINE_ENDS = re.compile(r"\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def one_line(text: str) -> str:
    """Return a name as one plain line: whatever ends a line, steers a terminal or hides is gone."""
    if text.isascii() and text.isprintable():  # the usual case, and every seed asks
        return " ".join(text.split())[:LONGEST].rstrip()
    spaced = "".join(" " if one.isspace() else one for one in text)
    kept = "".join(one for one in spaced if unicodedata.category(one) not in _UNSEEN)
    return " ".join(kept.split())[:LONGEST].rstrip()


_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def cron_label(job: str | None) -> str:
    """Return the line that opens a mirrored brief. The job's name cannot end it early."""
    return f"[Cron delivery: {one_line(job or '').translate(_BRACKETS) or UNNAMED}]"


def mirrored(job: str | None, text: str) -> str:
    """Return a brief as it is stored in a session: the label, a newline, the text as delivered."""
    return f"{cron_label(job)}\n{text}"


def defused(text: str) -> str:
    """Return what somebody wrote with lines that only look like a label quoted, so that none passes for one."""
    return _LABEL_LIKE.sub(r"\1> \2", _LINE_ENDS.sub("\n", text))
