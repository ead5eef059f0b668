"""What Slack's ids mean: names of people and channels, kinds of chats. Asked once, then remembered, within bounds."""

import asyncio
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import TypeVar

from delivery.model import ChatKind
from delivery.platforms.slack_calls import CallFailed, Calls, Json, ask, pages
from delivery.platforms.slack_waiting import first_of
from state.clock import Monotonic, Sleep

T = TypeVar("T")

MOST = 20_000
"""Names that are remembered; beyond that all are forgotten and asked anew."""

PATIENCE = 1.2
"""Seconds that names may take while a message waits to be acknowledged (Slack gives 3 in all)."""

NOT_AGAIN_FOR = 600.0
"""Seconds for which a person whose name Slack would not tell is not asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One member: `handle` is what people type after @, `shown` what they see."""

    id: str
    handle: str
    shown: str
    is_bot: bool = False
    is_deleted: bool = False

    def is_called(self, name: str) -> bool:
        """Whether a name is their handle or what is shown of them, whatever the case."""
        return name.casefold() in (self.handle.casefold(), self.shown.casefold())


def person_of(user: Json) -> Person:
    """Read a member as users.info and users.list give it."""
    profile = user.get("profile") or {}
    handle = str(user.get("name") or user.get("id"))
    shown = profile.get("display_name") or profile.get("real_name") or user.get("real_name") or handle
    return Person(
        id=str(user.get("id")),
        handle=handle,
        shown=str(shown),
        is_bot=bool(user.get("is_bot")),
        is_deleted=bool(user.get("deleted")),
    )


class Names:
    """What is known. Only `learn` and `people` ask Slack."""

    def __init__(self, calls: Calls, monotonic: Monotonic, sleep: Sleep) -> None:
        self._calls = calls
        self._monotonic = monotonic
        self._sleep = sleep
        self._people: dict[str, Person] = {}
        self._channels: dict[str, str] = {}
        self._kinds: dict[str, ChatKind] = {}
        self._not_before: dict[str, float] = {}

    def name(self, some_id: str) -> str | None:
        """Return the name of a person or channel if it is known."""
        person = self._people.get(some_id)
        return person.shown if person is not None else self._channels.get(some_id)

    def handle(self, user: str) -> str | None:
        """Return what people type after @, if it is known."""
        person = self._people.get(user)
        return None if person is None else person.handle

    def kind(self, chat: str) -> ChatKind | None:
        """Return the kind of a chat if it is known."""
        return self._kinds.get(chat)

    def note_chat(self, chat: str, kind: ChatKind, name: str | None = None) -> None:
        """Remember what was seen of a chat."""
        _bound(self._kinds)
        self._kinds[chat] = kind
        if name:
            _bound(self._channels)
            self._channels[chat] = name

    async def learn(self, users: Iterable[str]) -> None:
        """Ask for the names that are not known, all at once, for a moment only. Never raises."""
        now = self._monotonic()
        asked = [one for one in users if one not in self._people and self._not_before.get(one, now) <= now]
        if not asked:
            return
        tasks = [asyncio.ensure_future(self._learn(user)) for user in asked]
        try:
            await first_of(asyncio.wait(tasks), self._sleep(PATIENCE))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        _bound(self._not_before)
        self._not_before.update({one: now + NOT_AGAIN_FOR for one in asked if one not in self._people})

    async def _learn(self, user: str) -> None:
        try:
            answer = await ask(self._calls, "users.info", user=user)
        except CallFailed:
            return
        self._note(person_of(answer.get("user") or {"id": user}))

    async def people(self) -> list[Person]:
        """List the members of the workspace. Raises CallFailed."""
        found: list[Person] = []
        async for page in pages(self._calls, "users.list", "members", limit=1000):
            found += [person_of(one) for one in page]
        for person in found:
            self._note(person)
        return found

    def _note(self, person: Person) -> None:
        _bound(self._people)
        self._people[person.id] = person


def _bound(known: MutableMapping[str, T]) -> None:
    if len(known) >= MOST:
        known.clear()
