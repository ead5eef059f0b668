"""Session keys: the only place that spells the name of a spot where answers land. Pure.

One function names the spots of what we posted (`keys_for`), one those of what a person wrote
(`candidates_for`); both spell with `flat_key` and `thread_key`, so they cannot disagree.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from delivery.model import Address, ChatKind, Inbound, PartKind
from seeding.model import ChatRules, Landed, SessionKey, SessionScope

_GENERAL = ("", "1")  # a forum's General topic, should a platform have let it through as a number
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_FLAT, _THREAD = "flat", "thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryKeys:
    """Every key that an answer to one delivery can carry, by the session that it leads to.

    `flat`: the chat's own conversation; empty if nothing was posted at top level, or if each person has
    their own. `thread`: the brief's own conversation; the first that is bound already names its session.
    """

    flat: tuple[SessionKey, ...]
    thread: tuple[SessionKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One key that a message may mean. `message`: (chat, message) that it answers; None for a flat spot.

    `is_topic_only`: it counts only if a brief opened that topic (where each person has a session of their own).
    """

    key: SessionKey
    message: tuple[str, str] | None = None
    is_topic_only: bool = False


def flat_key(
    *, account: str, workspace: str, chat: str, topic: str | None = None, user: str | None = None
) -> SessionKey:
    """Spell "whatever is said in this chat (and topic)"; with `user`, by that person.

    No two different tuples have one text.
    """
    named = {"topic": topic, "user": user}
    tail = (f"{name}={_escape(value)}" for name, value in named.items() if value is not None)
    return SessionKey(":".join((_FLAT, _escape(account), _escape(workspace), _escape(chat), *tail)))


def thread_key(*, account: str, workspace: str, chat: str, message: str) -> SessionKey:
    """Spell "an answer to that message". Message ids are unique in a chat: the topic is no part of it."""
    return SessionKey(":".join((_THREAD, *map(_escape, (account, workspace, chat, message)))))


def is_flat(key: SessionKey) -> bool:
    """Whether the key names a chat or a topic, not a message."""
    return key.startswith(f"{_FLAT}:")


def moved(key: SessionKey, *, chat: str) -> SessionKey:
    """Spell the same spot in a chat that got another id."""
    pieces = key.split(":")
    pieces[3] = _escape(chat)
    return SessionKey(":".join(pieces))


def chat_of(key: SessionKey) -> tuple[str, str]:
    """Return (account, chat) of a key."""
    pieces = key.split(":")
    return unquote(pieces[1]), unquote(pieces[3])


def topic_of(address: Address) -> str | None:
    """Return the topic that counts: General is no topic, however it was received."""
    return None if address.topic in _GENERAL else address.topic


def opened_topic(landed: Sequence[Landed]) -> str | None:
    """Return the topic that was opened for a delivery, or None."""
    opening = next((one.address for one in landed if one.kind is PartKind.TOPIC), None)
    if opening is None:
        return None
    return opening.topic if opening.topic is not None else opening.message


def is_per_user(address: Address, rules: ChatRules) -> bool:
    """Whether each person has their own flat session there. A DM has one person: it never does."""
    return rules.sessions is SessionScope.PER_USER and address.chat_kind is not ChatKind.DM


def flat_key_of(address: Address, rules: ChatRules, user: str | None) -> SessionKey:
    """Spell the flat spot in which this address lies, for this person."""
    return _flat(address, topic_of(address), user=user if is_per_user(address, rules) else None)


def message_key(address: Address) -> SessionKey:
    """Spell "an answer to the message at this address". Its `message` must be set."""
    if not address.message:
        raise ValueError("an address without a message has no thread key")
    return _thread(address, address.message)


def keys_for(landed: Sequence[Landed], rules: ChatRules, *, user: str | None = None) -> DeliveryKeys:
    """Name every spot where an answer to a delivery can land.

    landed: its confirmed parts in order, the opening (header, topic) included, with the addresses that the
    platform returned. user: the person whose flat session is meant where each has their own.
    """
    own = {one.address.message for one in landed}
    opened = opened_topic(landed)
    flat: list[SessionKey] = []
    thread: list[SessionKey] = []
    for one in landed:
        address = one.address
        if one.kind is PartKind.TOPIC:
            thread.append(_flat(address, opened))
        if address.root and address.root not in own:  # under somebody else's message: in that thread only
            thread.append(_thread(address, address.root))
            continue
        has_own = is_per_user(address, rules)
        if not has_own or user is not None:
            topic = topic_of(address) if opened is None else None
            flat.append(_flat(address, topic, user=user if has_own else None))
    thread += [_thread(one.address, one.address.message) for one in landed if one.address.message]
    return DeliveryKeys(flat=_once(flat), thread=_once(thread))


def candidates_for(inbound: Inbound, rules: ChatRules) -> tuple[Candidate, ...]:
    """Name, in order, the spots that a person's message may mean. The first that is bound decides."""
    address = inbound.address
    messages: list[tuple[str, str | None]] = [
        (address.chat, address.message if inbound.is_edit else None),  # the first version's conversation
        (address.chat, address.root),
        *([inbound.copied_root] if inbound.copied_root else []),
        *((address.chat, message) for message in inbound.quoted),
        (address.chat, inbound.thread),
    ]
    found = [
        Candidate(key=_thread(address, message, chat=chat), message=(chat, message))
        for chat, message in dict.fromkeys(messages)
        if message
    ]
    return (*found, *_flat_candidates(inbound, rules))


def lies_in_thread(address: Address, rules: ChatRules) -> bool:
    """Whether a message lies in a thread that is a place of its own, never part of the flat conversation."""
    return rules.has_threads and address.root is not None


def _flat_candidates(inbound: Inbound, rules: ChatRules) -> Iterable[Candidate]:
    address = inbound.address
    if lies_in_thread(address, rules):
        return
    if is_per_user(address, rules) and topic_of(address) is not None:
        yield Candidate(key=_flat(address, topic_of(address)), is_topic_only=True)
    yield Candidate(key=flat_key_of(address, rules, inbound.author.id))


def _flat(address: Address, topic: str | None, *, user: str | None = None) -> SessionKey:
    return flat_key(account=address.account, workspace=address.workspace, chat=address.chat, topic=topic, user=user)


def _thread(address: Address, message: str, *, chat: str | None = None) -> SessionKey:
    return thread_key(
        account=address.account,
        workspace=address.workspace,
        chat=address.chat if chat is None else chat,
        message=message,
    )


def _once(keys: Iterable[SessionKey]) -> tuple[SessionKey, ...]:
    return tuple(dict.fromkeys(keys))


def _escape(text: str) -> str:
    """Escape what separates the pieces of a key, and nothing that ids are made of."""
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe="@#+!$*(),;/ ", encoding="utf-8", errors="surrogatepass")
