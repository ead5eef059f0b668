"""What people wrote, from Slack's notation into plain text; and the messages that it links to. Pure.

https://docs.slack.dev/messaging/formatting-message-text
"""

import re
from collections.abc import Callable

Name = Callable[[str], str | None]
"""Returns the name of a user or channel id, None if it is not known."""

_TOKEN = re.compile(r"<([^<>\n]*)>")
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")
_PERMALINK = re.compile(
    r"https?://(?P<host>[\w.-]+)/archives/(?P<chat>[A-Z0-9]+)/p(?P<seconds>\d{10})(?P<micros>\d{6})(?P<query>\?[^\s<>|]*)?"
)
_IN_THREAD = re.compile(r"[?&;]thread_ts=(\d{10}\.\d{6})")
_HOST = re.compile(r"(?:[\w-]+\.)+slack(?:-gov)?\.com")


def users_named(text: str) -> frozenset[str]:
    """Return the ids of the people whom a text mentions."""
    return frozenset(_USER.findall(text))


def strip_mention(text: str, bot_user: str | None) -> tuple[str, bool]:
    """Return the text without the mentions of our bot, and whether there was one."""
    if bot_user is None or f"<@{bot_user}" not in text:
        return text, False
    mention = rf"<@{re.escape(bot_user)}(?:\|[^<>]*)?>"
    without = re.sub(rf"\A\s*(?:{mention}[\s:,]*)+", "", text)
    without = re.sub(rf"[ \t]*{mention}[ \t]*", " ", without)
    return without.strip(), re.search(mention, text) is not None


def readable(text: str, name: Name) -> str:
    """Return what a reader sees: names for ids, addresses for links, characters for entities."""
    shown = _TOKEN.sub(lambda found: _shown(found[1], name), text)
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _shown(token: str, name: Name) -> str:
    target, _, label = token.partition("|")
    kind, rest = target[:1], target[1:]
    if kind == "@":
        return f"@{label.removeprefix('@') or name(rest) or rest}"
    if kind == "#":
        return f"#{label.removeprefix('#') or name(rest) or rest}"
    if kind == "!":
        return _special(rest, label)
    address = target.removeprefix("mailto:")
    if not label or label in (address, target) or address.removeprefix("https://").removeprefix("http://") == label:
        return label or address
    return f"{label} ({address})"


def _special(word: str, label: str) -> str:
    if word.startswith("date^"):
        return label or word
    if word.startswith("subteam^"):
        return f"@{label.removeprefix('@') or word.removeprefix('subteam^')}"
    return f"@{word.partition('^')[0]}"


def linked_messages(text: str, chat: str) -> tuple[str, ...]:
    """Return the messages of this chat to which a text links, each followed by its thread's root if it names one."""
    found: list[str] = []
    for link in _PERMALINK.finditer(text):
        if link["chat"] != chat or _HOST.fullmatch(link["host"]) is None:
            continue
        found.append(f"{link['seconds']}.{link['micros']}")
        root = _IN_THREAD.search(link["query"] or "")
        found += [root[1]] if root is not None else []
    return tuple(dict.fromkeys(found))
