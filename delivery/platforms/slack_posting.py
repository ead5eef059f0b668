"""Posting one part, and asking for it again: what each answer of Slack means for the outbox."""

from dataclasses import replace
from datetime import timedelta

from delivery.model import (
    Absent,
    Address,
    CannotTell,
    ChatKind,
    FindResult,
    InDoubt,
    NotSent,
    OutgoingPart,
    Receipt,
    Rejected,
    SendResult,
    Sent,
    Throttled,
)
from delivery.platforms.slack_calls import (
    ACCOUNT,
    DOUBTFUL,
    GONE,
    LATER,
    NO_THREADS,
    Answered,
    CallFailed,
    CallResult,
    Calls,
    Json,
    Limited,
    Refused,
    Unclear,
    Unreached,
    pages,
    sentence,
)
from delivery.platforms.slack_time import at_of, is_ts, root_of, ts_of
from delivery.render.slack_text import escape_html

EVENT_TYPE = "hermes_cron_part"
"""Of the metadata that carries a part's marker: one opaque id, readable by every app and member of the channel."""

BEFORE_INTENT = timedelta(minutes=5)
"""How far before its intent a part is looked for: our clock may be ahead of Slack's."""

PAGE = 200
LONGEST_HEADER = 150


def header(title: str) -> dict[str, object]:
    """Return the payload of the message that opens a thread. Nothing in it pings."""
    plain = " ".join(title.split()) or "Brief"
    short = plain if len(plain) <= LONGEST_HEADER else f"{plain[: LONGEST_HEADER - 1]}\u2026"
    block = {"type": "header", "text": {"type": "plain_text", "text": short, "emoji": False}}
    return {"text": escape_html(short), "blocks": [block]}


async def post(calls: Calls, part: OutgoingPart, workspace: str) -> SendResult:
    """Post a part once. Where a channel has no threads it is posted at top level, and said so."""
    root = part.address.root
    if root is not None and not is_ts(root):
        return Rejected(reason=f'"{root}" is no thread: a Slack timestamp is text with exactly six decimals')
    result = await calls.call("chat.postMessage", _arguments(part, root))
    if root is not None and result == Refused(code=NO_THREADS):
        result = await calls.call("chat.postMessage", _arguments(part, None))
    return _judge(result, part, workspace)


def _arguments(part: OutgoingPart, root: str | None) -> dict[str, object]:
    thread = {} if root is None else {"thread_ts": root}
    return {
        "channel": part.address.chat,
        **part.payload,
        **thread,
        "metadata": {"event_type": EVENT_TYPE, "event_payload": {"id": part.marker}},
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _judge(result: CallResult, part: OutgoingPart, workspace: str) -> SendResult:
    match result:
        case Answered(data=data):
            return _sent(data, part, workspace)
        case Limited(retry_after=seconds):
            return Throttled(retry_after=seconds)
        case Unreached(reason=reason):
            return NotSent(reason=reason)
        case Unclear(reason=reason):
            return InDoubt(reason=reason)
        case Refused(code=code) if code in DOUBTFUL:
            return InDoubt(reason=f"Slack broke off ({code}); the message may have been posted")
        case Refused(code=code) if code in LATER:
            return NotSent(reason=sentence(result))
        case Refused(code=code) if code in ACCOUNT:
            return NotSent(reason=sentence(result), account_is_down=True)
        case Refused(code=code):
            return Rejected(reason=sentence(result), chat_is_gone=code in GONE)


def _sent(data: Json, part: OutgoingPart, workspace: str) -> SendResult:
    receipt = receipt_of(data, part.address, workspace)
    if receipt is None:
        return InDoubt(reason="Slack took the message but gave no timestamp")
    return Sent(receipt=receipt, degraded=_degraded(part.address.root, receipt.address))


def _degraded(asked: str | None, landed: Address) -> str | None:
    if asked is None or landed.root == asked:
        return None
    if landed.root is None:
        return f"posted at top level: Slack did not take it into the thread {asked} (deleted, or no threads there)"
    return f"posted in another thread than {asked}"


def receipt_of(data: Json, place: Address, workspace: str) -> Receipt | None:
    """Return where chat.postMessage says that a message landed, None if it does not."""
    chat, ts, message = data.get("channel"), data.get("ts"), data.get("message") or {}
    if not isinstance(chat, str) or not chat or not is_ts(ts):
        return None
    ts = str(ts)
    landed = replace(
        place,
        workspace=workspace,
        chat=chat,
        chat_kind=ChatKind.DM if chat.startswith("D") else place.chat_kind,
        message=ts,
        root=root_of(ts, message.get("thread_ts")),
    )
    named = ("thread_ts", "team", "bot_id", "app_id")
    raw = {"channel": chat, "ts": ts, **{key: message[key] for key in named if key in message}}
    return Receipt(address=landed, at=at_of(ts), raw=raw)


# --- asking ---------------------------------------------------------------------------------------------


async def look_for(calls: Calls, part: OutgoingPart, workspace: str, bot_id: str | None) -> FindResult:
    """Look for a part by its marker: in its thread, and at top level, where Slack puts it if the thread is gone."""
    try:
        if part.address.root is not None:
            found = await _in_thread(calls, part, part.address.root, bot_id)
            if found is not None:
                return _found(found, part, workspace)
        found = await _among(calls, "conversations.history", part, bot_id, channel=part.address.chat)
    except CallFailed as failed:
        return CannotTell(reason=f"Slack cannot be asked: {failed.reason}")
    return Absent() if found is None else _found(found, part, workspace)


async def _in_thread(calls: Calls, part: OutgoingPart, root: str, bot_id: str | None) -> Json | None:
    try:
        return await _among(calls, "conversations.replies", part, bot_id, channel=part.address.chat, ts=root)
    except CallFailed as failed:
        if failed.code != "thread_not_found":
            raise
        return None


async def _among(calls: Calls, method: str, part: OutgoingPart, bot_id: str | None, **where: object) -> Json | None:
    oldest = ts_of(part.intent_at - BEFORE_INTENT)
    async for page in pages(
        calls, method, "messages", oldest=oldest, inclusive=True, include_all_metadata=True, limit=PAGE, **where
    ):
        for message in page:
            if _is_part(message, part.marker, bot_id):
                return message
    return None


def _is_part(message: Json, marker: str, bot_id: str | None) -> bool:
    """Whether a message carries the marker. Raises CallFailed if Slack hides what it carries."""
    metadata = message.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("event_type") != EVENT_TYPE:
        return False
    if bot_id is not None and message.get("bot_id") not in (None, bot_id):
        return False
    if "event_payload" not in metadata:
        raise CallFailed(Unclear(reason="Slack does not show the metadata of messages"))
    payload = metadata["event_payload"]
    return isinstance(payload, dict) and payload.get("id") == marker


def _found(message: Json, part: OutgoingPart, workspace: str) -> FindResult:
    receipt = receipt_of(
        {"channel": part.address.chat, "ts": message.get("ts"), "message": message}, part.address, workspace
    )
    return receipt if receipt is not None else CannotTell(reason="Slack shows the message without a timestamp")
