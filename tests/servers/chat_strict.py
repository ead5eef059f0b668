"""What a strict chat provider accepts as messages, and how this one counts tokens."""

import re
from collections.abc import Sequence
from typing import Any

from servers.chat_faults import Refusal

Json = dict[str, Any]

_ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


def check_messages(messages: object) -> Sequence[Json]:
    """Return the messages if a strict provider takes them. Raises Refusal 400 that says what is wrong and where."""
    if not isinstance(messages, list) or not messages:
        raise Refusal.bad("Invalid 'messages': expected a non-empty array.", param="messages")
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not text_of(message).strip():
            raise Refusal.bad(f"Invalid 'messages[{number}].content': it must not be empty.", param="messages")
    first = 1 if messages[0].get("role") in ("system", "developer") else 0
    for number, message in enumerate(messages[first:]):
        wanted = "assistant" if number % 2 else "user"
        if message.get("role") != wanted:
            where = f"messages[{number + first}]"
            raise Refusal.bad(f"{_ALTERNATE}: {where} is {message.get('role')!r}, not {wanted!r}.", param="messages")
    if messages[-1].get("role") != "user":
        raise Refusal.bad(f"Expected last role user, got {messages[-1].get('role')!r}.", param="messages")
    return messages


def text_of(message: Json) -> str:
    """Return a message's text, given as a string or as text parts; empty if it has none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def tokens(text: str) -> list[str]:
    """Return the text cut into tokens that join to the same text."""
    return re.findall(r"\s*\S+\s*?(?=\s*\S|$)|\s+$", text) if text else []
