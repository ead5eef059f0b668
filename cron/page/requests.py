"""What comes in: bodies of a bounded size, JSON objects and forms, each mistake one sentence."""

import json
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

LARGEST_BODY = 1_000_000  # bytes
_MOST_IGNORED = 20_000_000  # bytes of a body that is too large, read and dropped so that the sender gets to the answer
_NUMBER_DIGITS = 18  # below 2**63


class BadRequest(ValueError):
    """The request is wrong. The message is one sentence with the way out."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


async def read_body(request: Request) -> bytes:
    """Read the body. Raises BadRequest if it has more than 1 MB."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= LARGEST_BODY:
            chunks.append(chunk)
        elif size > _MOST_IGNORED:
            break
    if size > LARGEST_BODY:
        raise BadRequest("A request has at most 1 MB; send less.")
    return b"".join(chunks)


async def read_object(request: Request) -> dict[str, Any]:
    """Read a JSON object. Raises BadRequest."""
    body = await read_body(request)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadRequest(f"The body is no JSON{where}; send one object, in UTF-8.") from error
    if not isinstance(value, dict):
        raise BadRequest('The body must be a JSON object, such as {"text": "hello"}.')
    return value


def text_field(given: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a field that must be a text; null and nothing at all mean the default. Raises BadRequest."""
    value = given.get(name)
    if value is None:
        if default is None:
            raise BadRequest(f'"{name}" is missing; it must be a text.')
        return default
    if not isinstance(value, str):
        raise BadRequest(f'"{name}" must be a text, in quotes.')
    return value


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of an HTML form; line ends are made plain. Raises BadRequest."""
    body = await read_body(request)
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError as error:
        raise BadRequest("The form cannot be read; send it as application/x-www-form-urlencoded, in UTF-8.") from error
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def query_number(request: Request, name: str, default: int | None, *, most: int | None = None) -> int | None:
    """Return a whole number, zero or above, out of the query. Raises BadRequest."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS):
        raise BadRequest(f'"{name}" must be a whole number, not "{text[:40]}".')
    return int(text) if most is None else min(int(text), most)
