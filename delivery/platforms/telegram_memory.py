"""What one process has heard and need not ask again: automatic forwards, topics it opened, what it posted. Bounded."""

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from delivery.platforms.telegram_updates import OpenedTopic, Spot

KEPT = 10_000
CLOCKS_DIFFER = timedelta(seconds=30)
"""How much earlier than our intent the platform's clock may say that a topic was opened."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The newest entries of a mapping."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def put(self, key: Key, value: Value) -> None:
        """Remember it, and forget the oldest if there are too many."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._kept:
            self._entries.popitem(last=False)

    def get(self, key: Key) -> Value | None:
        """Return what is remembered, or None."""
        return self._entries.get(key)

    def drop(self, key: Key) -> None:
        """Forget it."""
        self._entries.pop(key, None)

    def values(self) -> list[Value]:
        """Return what is remembered, oldest first."""
        return list(self._entries.values())


class Memory:
    """What an account's platform remembers between two updates."""

    def __init__(self) -> None:
        self.copies: Recent[Spot, Spot] = Recent()
        """The channel's post, by its automatic forward."""
        self.posted: Recent[Spot, bool] = Recent()
        """What we posted: where a channel shows us our own post, it is not a person's."""
        self._unclaimed: Recent[Spot, OpenedTopic] = Recent()
        self._claimed: Recent[Spot, bool] = Recent()

    def copy_of(self, chat: str, message: str) -> Spot | None:
        """Return the channel's post of which this message is the automatic forward."""
        return self.copies.get((chat, message))

    def topic_was_opened(self, topic: OpenedTopic) -> None:
        """Remember a topic of ours, unless it is known whose it is."""
        if self._claimed.get((topic.chat, topic.topic)) is None:
            self._unclaimed.put((topic.chat, topic.topic), topic)

    def claim(self, chat: str, topic: str) -> None:
        """Say that it is known for which part this topic was opened."""
        self._claimed.put((chat, topic), True)
        self._unclaimed.drop((chat, topic))

    def find_topic(self, chat: str, name: str, *, since: datetime) -> OpenedTopic | None:
        """Return the first topic of that name that was opened since then and of which nobody knows for what."""
        for topic in self._unclaimed.values():
            if (topic.chat, topic.name) == (chat, name) and topic.at >= since - CLOCKS_DIFFER:
                return topic
        return None
