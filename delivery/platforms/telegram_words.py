"""What a person's Telegram message says: its text without the mention of our bot, or a word for what it shows. Pure.

Offsets and lengths of entities are UTF-16 units. https://core.telegram.org/bots/api#messageentity
"""

import re
from dataclasses import dataclass

from delivery.platforms.telegram_places import Json

_SHOWN = {
    "photo": "photo",
    "animation": "animation",  # also carries `document`
    "video": "video",
    "video_note": "video message",
    "voice": "voice message",
    "audio": "audio",
    "document": "document",
    "sticker": "sticker",
    "contact": "contact",
    "venue": "place",  # also carries `location`
    "location": "location",
    "poll": "poll",
    "dice": "dice",
    "story": "story",
    "game": "game",
    "paid_media": "media",
    "checklist": "checklist",
}
_AFTER_NAME = re.compile(r"\s*[,:]?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was said. `mentioned`: our bot was named in it."""

    text: str
    mentioned: bool


def words_of(message: Json, *, bot_id: int, username: str | None) -> Words | None:
    """Return what a message says; None for one in which nobody says anything (a title changed, somebody joined)."""
    for field, entities in (("text", "entities"), ("caption", "caption_entities")):
        if isinstance(message.get(field), str) and message[field]:
            return _without_mention(message[field], message.get(entities) or (), bot_id, username)
    shown = next((word for field, word in _SHOWN.items() if field in message), None)
    if shown is None:
        return None
    return Words(text=f"[{shown}{_detail(message, shown)}]", mentioned=False)


def _detail(message: Json, shown: str) -> str:
    if shown == "document":
        name = message["document"].get("file_name")
    elif shown == "sticker":
        name = message["sticker"].get("emoji")
    elif shown == "poll":
        name = message["poll"].get("question")
    else:
        name = None
    return f": {name}" if name else ""


def _without_mention(text: str, entities: object, bot_id: int, username: str | None) -> Words:
    spans = [
        span
        for entity in (entities if isinstance(entities, list | tuple) else ())
        if (span := _naming_us(text, entity, bot_id, username)) is not None
    ]
    for start, end in sorted(spans, reverse=True):
        text = _cut(text, start, end)
    return Words(text=text, mentioned=bool(spans))


def _naming_us(text: str, entity: Json, bot_id: int, username: str | None) -> tuple[int, int] | None:
    """Return the characters (not units) of an entity that name our bot."""
    if entity["type"] not in ("mention", "text_mention", "bot_command"):
        return None
    start, end = _characters(text, int(entity["offset"])), _characters(text, int(entity["offset"] + entity["length"]))
    if entity["type"] == "text_mention":
        return (start, end) if entity["user"]["id"] == bot_id else None
    if username is None:
        return None
    named, at, name = text[start:end].partition("@")
    if not at or name.casefold() != username.casefold() or bool(named) != (entity["type"] == "bot_command"):
        return None
    return start + len(named), end


def _characters(text: str, units: int) -> int:
    """Return how many characters the first UTF-16 units of a text are."""
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "ignore"))


def _cut(text: str, start: int, end: int) -> str:
    """Take a name out of a sentence, with the space or comma that belonged to it."""
    before, after = text[:start], text[end:]
    if not before.strip():
        return after[_end_of(_AFTER_NAME.match(after)) :]
    if not after or not after[0].isalnum():
        before = before.rstrip()
    return before + after


def _end_of(match: re.Match[str] | None) -> int:
    return 0 if match is None else match.end()
