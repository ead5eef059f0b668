"""What chat.postMessage and chat.update refuse: Slack's limits on text, blocks and metadata.

https://docs.slack.dev/reference/block-kit/blocks and https://docs.slack.dev/reference/methods/chat.postMessage;
the limit on the whole was measured by others: https://github.com/slackapi/bolt-js/issues/2509
"""

import json
from typing import Any

from servers.slack_world import Json

MAX_BLOCKS = 50
MAX_SECTION = 3_000
MAX_HEADER = 150
MAX_MARKDOWN = 12_000
MAX_WHOLE = 13_200
MAX_TEXT = 40_000
MAX_SINGLE_TEXT = 4_000
MAX_METADATA = 8_000

_KNOWN = {
    "actions",
    "alert",
    "card",
    "carousel",
    "context",
    "context_actions",
    "divider",
    "file",
    "header",
    "image",
    "input",
    "markdown",
    "plan",
    "rich_text",
    "section",
    "table",
    "task_card",
    "video",
}


class ApiError(Exception):
    """An answer `ok: false`; `extra` goes into it beside the error's code."""

    def __init__(self, code: str, **extra: Any) -> None:
        super().__init__(code)
        self.code = code
        self.extra = extra


def invalid(code: str, message: str) -> ApiError:
    """Return an error with the explanation that Slack puts into response_metadata."""
    return ApiError(code, response_metadata={"messages": [f"[ERROR] {message}"]})


def parsed(value: object, code: str) -> Any:
    """Return a JSON argument that may come as text (form) or as itself (JSON body)."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ApiError(code) from None


def checked_blocks(value: object) -> list[Json] | None:
    """Return the blocks, or raise what Slack answers to them."""
    blocks = parsed(value, "invalid_blocks_format")
    if not blocks:
        return None
    if not isinstance(blocks, list) or not all(isinstance(b, dict) for b in blocks):
        raise ApiError("invalid_blocks_format")
    if len(blocks) > MAX_BLOCKS:
        raise invalid("invalid_blocks", f"no more than {MAX_BLOCKS} items allowed [json-pointer:/blocks]")
    for index, block in enumerate(blocks):
        _check_block(block, f"/blocks/{index}")
    if sum(_length(block) for block in blocks) > MAX_WHOLE:
        raise ApiError("msg_blocks_too_long")
    return blocks


def checked_metadata(value: object) -> Json | None:
    """Return the metadata, or raise what Slack answers to it."""
    metadata = parsed(value, "invalid_metadata_format")
    if not metadata:
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("event_type"), str):
        raise ApiError("invalid_metadata_format")
    payload = metadata.get("event_payload", {})
    if not isinstance(payload, dict):
        raise ApiError("invalid_metadata_schema")
    if len(json.dumps(metadata)) > MAX_METADATA:
        raise ApiError("metadata_too_large")
    return {"event_type": metadata["event_type"], "event_payload": payload}


def _check_block(block: Json, at: str) -> None:
    kind = block.get("type")
    if kind not in _KNOWN:
        raise invalid("invalid_blocks", f"unsupported type: {kind} [json-pointer:{at}/type]")
    if kind == "markdown":
        _check_text(block.get("text"), MAX_MARKDOWN, f"{at}/text")
    elif kind == "header":
        _check_text((block.get("text") or {}).get("text"), MAX_HEADER, f"{at}/text")
    elif kind == "section":
        _check_section(block, at)
    elif kind == "context" and len(block.get("elements") or []) > 10:
        raise invalid("invalid_blocks", f"no more than 10 items allowed [json-pointer:{at}/elements]")


def _check_section(block: Json, at: str) -> None:
    text, fields = block.get("text"), block.get("fields")
    if text is None and not fields:
        raise invalid("invalid_blocks", f"must define either `text` or `fields` [json-pointer:{at}]")
    if text is not None:
        _check_text(text.get("text"), MAX_SECTION, f"{at}/text")
    for index, part in enumerate(fields or []):
        _check_text(part.get("text"), 2_000, f"{at}/fields/{index}")


def _check_text(text: object, limit: int, at: str) -> None:
    if not isinstance(text, str) or not text:
        raise invalid("invalid_blocks", f"must be more than 0 characters [json-pointer:{at}]")
    if len(text) > limit:
        raise invalid("invalid_blocks", f"must be less than {limit + 1} characters [json-pointer:{at}/text]")


def _length(node: object) -> int:
    if isinstance(node, dict):
        return sum(len(v) if k == "text" and isinstance(v, str) else _length(v) for k, v in node.items())
    return sum(_length(part) for part in node) if isinstance(node, list) else 0
