"""Text as the platform stores it: cleaned, trimmed, its entities checked, sorted and completed.

Offsets and lengths are UTF-16 code units. Source: https://core.telegram.org/bots/api#messageentity; the
refusals are worded as the platform words them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from urllib.parse import urlsplit

from servers.telegram_model import Json, bad_request

MAX_TEXT = 4096
MAX_CAPTION = 1024
MAX_ENTITIES = 100

_FOUND_TYPES = frozenset({"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"})
_GIVEN_TYPES = frozenset(
    {
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
        "date_time",
    }
)
_OPAQUE_TYPES = frozenset({"code", "pre", "text_link", "text_mention", "custom_emoji"})
_FINDERS = (
    ("bot_command", re.compile(r"(?<![\w/@.])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/])")),
    ("url", re.compile(r"https?://[^\s<>\"]+[^\s<>\".,;:!?)\]]")),
    ("email", re.compile(r"(?<!\w)[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("mention", re.compile(r"(?<![\w@.])@[A-Za-z][A-Za-z0-9_]{3,31}\b")),
    ("hashtag", re.compile(r"(?<![\w#])#\w*[^\W\d]\w*")),
)
_LINK_SCHEMES = ("http", "https", "tg", "ton", "tonsite")
_MARKDOWN_RESERVED = re.compile(r"(?<!\\)([\]()>#+\-=|{}.!])")
_HTML_TYPES = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "a": "text_link",
}


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_slice(text: str, offset: int, length: int) -> str:
    """Return the part of the text that an entity covers."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le")


def stored_text(text: str, entities: object, parse_mode: str, *, limit: int = MAX_TEXT) -> tuple[str, list[Json]]:
    """Return the text and entities as the platform keeps and echoes them.

    Raises BotApiError 400 for entities or markup that it refuses and for a text that is too long; whether an
    empty text is allowed is the caller's business.
    """
    if parse_mode:
        text, given = _parsed(text, parse_mode)
    else:
        given = [_known(entity) for entity in _entity_list(entities)]
    text, given = _trimmed(*_cleaned(text, given))
    if utf16_length(text) > limit:
        raise bad_request("message is too long" if limit == MAX_TEXT else "message caption is too long")
    kept = [entity for entity in given if entity["type"] not in _FOUND_TYPES]
    everything = sorted(kept + list(_found(text, kept)), key=lambda e: (e["offset"], -e["length"]))
    return text, everything[:MAX_ENTITIES]


def _entity_list(entities: object) -> Sequence[Json]:
    if entities is None or entities == "":
        return []
    if isinstance(entities, str):
        try:
            entities = json.loads(entities)
        except ValueError:
            raise bad_request("can't parse entities JSON object") from None
    if not isinstance(entities, list):
        raise bad_request("expected an Array of MessageEntity")
    return entities


def _known(entity: Json) -> Json:
    kind = entity.get("type")
    prefix = "can't parse MessageEntity:"
    for name in ("offset", "length"):
        if not isinstance(entity.get(name), int):
            raise bad_request(f'{prefix} Can\'t find field "{name}"')
    if kind not in _GIVEN_TYPES | _FOUND_TYPES:
        raise bad_request(f"{prefix} Unsupported type specified")
    if kind == "text_link":
        if "url" not in entity:
            raise bad_request(f'{prefix} Can\'t find field "url"')
        return entity | {"url": _checked_url(str(entity["url"]))}
    if kind == "text_mention" and "user" not in entity:
        raise bad_request(f'{prefix} Can\'t find field "user"')
    return dict(entity)


def _checked_url(url: str) -> str:
    parts = urlsplit(url if "://" in url or url.startswith("mailto:") else f"http://{url}")
    if parts.scheme.lower() not in _LINK_SCHEMES:
        raise bad_request(f"entity URL '{url}' is invalid: Unsupported URL protocol")
    if parts.scheme.lower() in ("http", "https") and "." not in (parts.hostname or ""):
        raise bad_request(f"entity URL '{url}' is invalid: Wrong HTTP URL")
    return parts.geturl() if parts.path or parts.query or parts.scheme == "tg" else f"{parts.geturl()}/"


def _cleaned(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """Check positions against the text as sent, then drop what the platform does not keep."""
    total = utf16_length(text)
    starts = _symbol_starts(text)
    _check_positions(entities, total, starts)
    moved = {0: 0}
    out: list[str] = []
    old = new = 0
    for char in text:
        kept = "" if char == "\r" else " " if char < " " and char != "\n" else char
        out.append(kept)
        old, new = old + utf16_length(char), new + utf16_length(kept)
        moved[old] = new
    result = []
    for entity in entities:
        start, end = moved[entity["offset"]], moved[entity["offset"] + entity["length"]]
        result.append(entity | {"offset": start, "length": end - start})
    return "".join(out), result


def _symbol_starts(text: str) -> set[int]:
    starts, at = {0}, 0
    for char in text:
        at += utf16_length(char)
        starts.add(at)
    return starts


def _check_positions(entities: list[Json], total: int, starts: set[int]) -> None:
    open_ends: list[int] = []
    for entity in sorted(entities, key=lambda e: (e["offset"], -e["length"])):
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0 or entity["length"] < 0:
            raise bad_request("entity has an incorrect offset or length")
        if start > total or (start == total and entity["length"] > 0):
            raise bad_request(f"entity begins after the end of the text at UTF-16 offset {start}")
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if end > total or (open_ends and end > open_ends[-1]):
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
            )
        if start not in starts or end not in starts:
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at byte offset {start}")
        open_ends.append(end)


def _trimmed(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """Trim the right end, and the left one up to the first entity, as the platform does."""
    text = text.rstrip(" \n")
    first = min((e["offset"] for e in entities if e["length"] > 0), default=utf16_length(text))
    lead = min(len(text) - len(text.lstrip(" \n")), first)
    text, total = text[lead:], utf16_length(text) - lead
    kept = []
    for entity in entities:
        offset = entity["offset"] - lead
        length = min(entity["length"], total - offset)
        if length > 0:
            kept.append(entity | {"offset": offset, "length": length})
    return text, kept


def _found(text: str, given: list[Json]) -> Iterator[Json]:
    """Yield the entities that the platform finds by itself, outside code and links."""
    taken = [(e["offset"], e["offset"] + e["length"]) for e in given if e["type"] in _OPAQUE_TYPES]
    for kind, pattern in _FINDERS:
        for match in pattern.finditer(text):
            start, end = utf16_length(text[: match.start()]), utf16_length(text[: match.end()])
            if all(end <= low or start >= high for low, high in taken):
                taken.append((start, end))
                yield {"type": kind, "offset": start, "length": end - start}


def _parsed(text: str, parse_mode: str) -> tuple[str, list[Json]]:
    mode = parse_mode.lower()
    if mode == "html":
        reader = _HtmlReader()
        reader.feed(text)
        return reader.finished()
    if mode == "markdownv2":
        reserved = _MARKDOWN_RESERVED.search(text)
        if reserved:
            raise bad_request(
                f"can't parse entities: Character '{reserved.group(1)}' is reserved and must be escaped "
                "with the preceding '\\'"
            )
        return re.sub(r"\\([^\w\s])", r"\1", re.sub(r"(?<!\\)[*_~`]", "", text)), []
    if mode == "markdown":
        return text, []
    raise bad_request("unsupported parse_mode")


class _HtmlReader(HTMLParser):
    """Enough of the platform's HTML mode: its tags become entities, anything else is refused."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._text = ""
        self._open: list[tuple[str, Json]] = []
        self._entities: list[Json] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _HTML_TYPES:
            raise bad_request(
                f'can\'t parse entities: Unsupported start tag "{tag}" at byte offset {len(self._text.encode())}'
            )
        entity: Json = {"type": _HTML_TYPES[tag], "offset": utf16_length(self._text), "length": 0}
        url = dict(attrs).get("href")
        if tag == "a" and url:
            entity["url"] = url
        self._open.append((tag, entity))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            raise bad_request(
                "can't parse entities: Unexpected end tag at byte offset " + str(len(self._text.encode()))
            )
        entity = self._open.pop()[1]
        entity["length"] = utf16_length(self._text) - entity["offset"]
        if entity["length"] and (entity["type"] != "text_link" or "url" in entity):
            self._entities.append(entity)

    def handle_data(self, data: str) -> None:
        self._text += data

    def finished(self) -> tuple[str, list[Json]]:
        self.close()
        if self._open:
            raise bad_request(
                f"can't parse entities: Can't find end tag corresponding to start tag \"{self._open[-1][0]}\""
            )
        return self._text, self._entities
