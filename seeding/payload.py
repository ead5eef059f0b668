"""An Inbound as JSON, and back: how a heard message stands in the database. Pure."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from delivery.model import Address, Author, ChatKind, Inbound


def to_payload(inbound: Inbound) -> dict[str, Any]:
    """Return what `from_payload` reads back to an equal value (what only JSON cannot say of `addressee` excepted)."""
    flat = {field.name: getattr(inbound, field.name) for field in fields(inbound)}
    return {
        **flat,
        "address": _plain(inbound.address),
        "author": _plain(inbound.author),
        "at": inbound.at.isoformat(),
        "answered_at": None if inbound.answered_at is None else inbound.answered_at.isoformat(),
        "quoted": list(inbound.quoted),
        "copied_root": None if inbound.copied_root is None else list(inbound.copied_root),
        "addressee": dict(inbound.addressee),
    }


def from_payload(payload: Mapping[str, Any]) -> Inbound:
    """Read a stored Inbound. Fields that an older program did not know have their defaults."""
    known = {field.name for field in fields(Inbound)}
    values = {name: value for name, value in payload.items() if name in known}
    address = dict(payload["address"])
    address["chat_kind"] = ChatKind(address["chat_kind"])
    copied = payload.get("copied_root")
    answered_at = payload.get("answered_at")
    values |= {
        "address": Address(**address),
        "author": Author(**payload["author"]),
        "at": datetime.fromisoformat(payload["at"]),
        "answered_at": None if answered_at is None else datetime.fromisoformat(answered_at),
        "quoted": tuple(payload.get("quoted", ())),
        "copied_root": None if copied is None else (copied[0], copied[1]),
    }
    return Inbound(**values)


def _plain(value: Address | Author) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
