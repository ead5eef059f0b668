"""Target texts: `slack:#ops`, `telegram:-100777/23`, `local`. Pure: no account is asked, nothing is resolved.

The part before the colon is the name of an account. Parsing and `str()` round-trip.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

LOCAL = "local"
LOCAL_DEFAULT_CHANNEL = "general"
LONGEST = 200

_SLACK_ID = re.compile(r"[CGDUW][A-Z0-9]{2,24}")
_SLACK_TS = re.compile(r"\d{9,11}\.\d{6}")
_NUMBER_LIKE_TS = re.compile(r"\d{9,17}(\.\d*)?")
_CHANNEL = re.compile(r"#[^\s#@/:,]{1,80}")
_PERSON = re.compile(r"@[^#@/:,]{1,80}")
_TELEGRAM_ID = re.compile(r"-?[1-9]\d{0,18}")
_TELEGRAM_NAME = re.compile(r"@[A-Za-z][A-Za-z0-9_]{3,31}")
_TOPIC = re.compile(r"[1-9]\d{0,18}")
_LOCAL_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TargetError(ValueError):
    """A text that names no place. The message is one sentence with the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place, as written: nothing says yet that it exists.

    `chat`: Slack an id (`C0123`), `#channel` or `@person`; Telegram an id (`-100777`) or `@name`; local the
    channel without `#`. `topic` is a Telegram forum topic (General is None), `thread` the message to post
    under (Slack: a timestamp as text with six decimals; local: a message id). `raw` is the text as written.
    """

    account: str
    chat: str
    topic: str | None = None
    thread: str | None = None
    raw: str = field(default="", compare=False)

    @property
    def place(self) -> tuple[str, str, str | None, str | None]:
        """Return what two texts for one place have in common (names differ in case only)."""
        return self.account, self.chat.casefold(), self.topic, self.thread

    def __str__(self) -> str:
        return format_target(self)


def format_target(target: Target) -> str:
    """Write a target as the text that `parse_target` reads back to an equal one."""
    inner = target.thread if target.thread is not None else target.topic
    tail = "" if inner is None else f"/{inner}"
    if target.account != LOCAL:
        return f"{target.account}:{target.chat}{tail}"
    if target.chat == LOCAL_DEFAULT_CHANNEL and not tail:
        return LOCAL
    return f"{LOCAL}:#{target.chat}{tail}"


def parse_target(text: str, accounts: Mapping[str, str]) -> Target:
    """Read a target text.

    `accounts` maps account names to `slack`, `telegram` or `local`; the account `local` need not be in it.
    Raises TargetError with one sentence that says what to write instead.
    """
    if not isinstance(text, str):
        raise TargetError(f'a target is a text such as "slack:#ops", not a number: put {text} in quotes')
    trimmed = text.strip()
    _check_characters(trimmed)
    account, colon, rest = trimmed.partition(":")
    account, rest = account.strip(), rest.strip()
    kind = LOCAL if account == LOCAL else accounts.get(account)
    if kind is None:
        raise TargetError(_no_account(trimmed, account, bool(colon), accounts))
    if not rest and kind != LOCAL:
        raise TargetError(f'"{trimmed}" names an account but no place: write {_EXAMPLES[kind].format(account)}')
    if colon and not rest:
        raise TargetError(f'"{trimmed}" ends after the colon: write local or local:#ops')
    chat, topic, thread = _READERS[kind](account, rest)
    return Target(account=account, chat=chat, topic=topic, thread=thread, raw=text)


def _check_characters(text: str) -> None:
    if not text:
        raise TargetError('an empty target: write a place such as "slack:#ops", or local')
    if len(text) > LONGEST:
        raise TargetError(f"a target has at most {LONGEST} characters, this one has {len(text)}")
    if any(unicodedata.category(char) == "Cc" for char in text):
        raise TargetError("a target holds no control characters or line breaks")


_EXAMPLES: Mapping[str, str] = {
    "slack": "{0}:#ops, {0}:@kim or {0}:C0123456789",
    "telegram": "{0}:123456789, {0}:-100777, {0}:-100777/23 or {0}:@channelname",
    LOCAL: "local or local:#ops",
}

Spot = tuple[str, str | None, str | None]


def _read_slack(account: str, rest: str) -> Spot:
    chat, slash, ts = rest.partition("/")
    thread = _slack_thread(ts) if slash else None
    if _SLACK_ID.fullmatch(chat) or _PERSON.fullmatch(chat):
        return chat, None, thread
    if _CHANNEL.fullmatch(chat):
        return chat.lower(), None, thread
    if _SLACK_ID.fullmatch(chat.upper()) and any(char.isdigit() for char in chat):
        raise TargetError(f'Slack ids are written in capitals: write "{account}:{chat.upper()}"')
    if _CHANNEL.fullmatch(f"#{chat}"):
        raise TargetError(f'"{account}:{rest}": write {account}:#{chat} for a channel, {account}:@{chat} for a person')
    raise TargetError(f'"{account}:{rest}" is no place in Slack: write {_EXAMPLES["slack"].format(account)}')


def _slack_thread(ts: str) -> str:
    if _SLACK_TS.fullmatch(ts):
        return ts
    if _NUMBER_LIKE_TS.fullmatch(ts):
        raise TargetError(
            f'"{ts}" is no thread: a Slack timestamp is text with exactly six decimals ("1700000000.000100")'
        )
    raise TargetError(f'"{ts}" is no thread: after the slash goes its timestamp, such as "1700000000.000100"')


def _read_telegram(account: str, rest: str) -> Spot:
    chat, slash, topic = rest.partition("/")
    if not (_TELEGRAM_ID.fullmatch(chat) or _TELEGRAM_NAME.fullmatch(chat)):
        if _TELEGRAM_NAME.fullmatch(f"@{chat}"):
            raise TargetError(f'"{account}:{rest}": a Telegram name begins with @: write "{account}:@{chat}"')
        raise TargetError(f'"{account}:{rest}" is no place in Telegram: write {_EXAMPLES["telegram"].format(account)}')
    if not slash:
        return chat, None, None
    if not _TOPIC.fullmatch(topic):
        raise TargetError(f'"{topic}" is no topic: after the slash goes its number, such as "{account}:{chat}/23"')
    return chat, None if topic == "1" else topic, None


def _read_local(account: str, rest: str) -> Spot:
    if not rest:
        return LOCAL_DEFAULT_CHANNEL, None, None
    chat, slash, thread = rest.partition("/")
    if not _CHANNEL.fullmatch(chat):
        hint = f"local:#{chat}" if _CHANNEL.fullmatch(f"#{chat}") else "local or local:#ops"
        raise TargetError(f'"{account}:{rest}" is no local channel: write {hint}')
    if slash and not _LOCAL_THREAD.fullmatch(thread):
        raise TargetError(f'"{thread}" is no thread: after the slash goes the id of a message')
    return chat[1:].lower(), None, thread if slash else None


_READERS: Mapping[str, Callable[[str, str], Spot]] = {
    "slack": _read_slack,
    "telegram": _read_telegram,
    LOCAL: _read_local,
}


def _no_account(text: str, account: str, has_colon: bool, accounts: Mapping[str, str]) -> str:
    known = [LOCAL, *(name for name in accounts if name != LOCAL)]
    if has_colon:
        near = get_close_matches(account, known, n=1)
        hint = f"did you mean {near[0]}:...?" if near else f"accounts are {', '.join(known)}"
        return f'"{text}" names the account "{account}", which is not in accounts: {hint}'
    telegram = next((name for name, kind in accounts.items() if kind == "telegram"), "telegram")
    slack = next((name for name, kind in accounts.items() if kind == "slack"), "slack")
    if _TELEGRAM_ID.fullmatch(text):
        return f'"{text}" names no account: write "{telegram}:{text}"'
    if _SLACK_ID.fullmatch(text) or text.startswith("#"):
        return f'"{text}" names no account: write "{slack}:{text}"'
    return f'"{text}" is neither a name from targets nor a place: write an account, a colon and a place'
