"""The `prompt` agent: an OpenAI-compatible chat endpoint, streamed.

The SDK is imported when it is first needed (half a second). Its own retries are off: a 429 and a 5xx are
tried again here, with the server's Retry-After, inside the caller's time limit.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cron.agents.ports import BriefRequest, Composed, ComposeFailed, EarlierBrief, Started
from cron.model import AgentSpec
from seeding.model import Question
from seeding.ports import AnswerFailed
from seeding.transcript import INSTRUCTIONS, messages_for
from state.clock import Sleep

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TRIES = 4
LONGEST_WAIT = 60.0  # seconds
COMPOSE_INSTRUCTIONS = (
    "You write a scheduled brief that is posted into a chat. Write Markdown, short and concrete; number what a "
    "reader may want to ask about. If there is nothing worth posting, answer with exactly [SILENT]."
)


class _Refused(Exception):
    def __init__(self, reason: str, *, is_transient: bool, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_transient = is_transient
        self.retry_after = retry_after


class PromptAgent:
    """Asks one model at one endpoint. Call `close` when it is no longer needed."""

    def __init__(self, spec: AgentSpec, *, sleep: Sleep) -> None:
        self._spec = spec
        self._sleep = sleep
        self._client: AsyncOpenAI | None = None

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Ask for a brief: the job's prompt, then what was written before."""
        messages = [
            {"role": "system", "content": self._spec.instructions or COMPOSE_INSTRUCTIONS},
            {"role": "user", "content": _brief_prompt(request)},
        ]
        try:
            text, usage = await self._ask(messages)
        except _Refused as refused:
            raise ComposeFailed(refused.reason, is_transient=refused.is_transient) from refused
        if not text.strip():
            raise ComposeFailed("The model answered nothing.", is_transient=True, details=usage)
        return Composed(text=text, details=usage)

    async def answer(self, question: Question) -> str:
        """Ask for an answer, given the transcript as a strict provider accepts it."""
        instructions = "\n\n".join(filter(None, [self._spec.instructions, INSTRUCTIONS]))
        turns = messages_for(question.transcript, briefs=question.briefs)
        messages = [{"role": "system", "content": instructions}]
        messages.extend({"role": str(turn.role), "content": turn.content} for turn in turns)
        try:
            text, _ = await self._ask(messages)
        except _Refused as refused:
            raise AnswerFailed(refused.reason) from refused
        if not text.strip():
            raise AnswerFailed("The model answered nothing.")
        return text.strip()

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ask(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, dict[str, object]]:
        for attempt in range(1, TRIES + 1):
            try:
                return await self._ask_once(messages)
            except _Refused as refused:
                if not refused.is_transient or attempt == TRIES:
                    raise
                wait = refused.retry_after if refused.retry_after is not None else 2.0**attempt / 2
                await self._sleep(min(wait, LONGEST_WAIT))
        raise AssertionError("unreachable: the last try returns or raises")

    async def _ask_once(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, dict[str, object]]:
        import openai

        pieces: list[str] = []
        usage: dict[str, object] = {}
        is_finished = False
        try:
            client: Any = self._connected()
            stream = await client.chat.completions.create(
                model=self._spec.model or "",
                messages=list(messages),
                stream=True,
                stream_options={"include_usage": True},
            )
            async with stream:
                async for chunk in stream:
                    if chunk.usage is not None:
                        usage = {"tokens_in": chunk.usage.prompt_tokens, "tokens_out": chunk.usage.completion_tokens}
                    for choice in chunk.choices:
                        pieces.append(choice.delta.content or "")
                        is_finished = is_finished or choice.finish_reason is not None
        except openai.APIStatusError as error:
            raise _refusal(error) from error
        except (openai.APIError, OSError, asyncio.IncompleteReadError, json.JSONDecodeError) as error:
            reason = f"The model at {self._spec.base_url} could not be reached or broke off: {type(error).__name__}."
            raise _Refused(reason, is_transient=True) from error
        if not is_finished:
            raise _Refused("The model's answer broke off in the middle.", is_transient=True)
        return "".join(pieces), usage

    def _connected(self) -> "AsyncOpenAI":
        if self._client is None:
            from openai import AsyncOpenAI

            self._client = AsyncOpenAI(
                # Local servers want no key, but the SDK insists on one.
                api_key=self._spec.api_key or "none",
                base_url=self._spec.base_url,
                max_retries=0,
                timeout=120.0,
            )
        return self._client


def _refusal(error: Any) -> _Refused:
    said = error.body.get("message") if isinstance(error.body, dict) else None
    detail = str(said or error.message).strip().splitlines()[0][:300]
    header = error.response.headers.get("retry-after", "")
    return _Refused(
        f"The model's server answered {error.status_code}: {detail}",
        is_transient=error.status_code == 429 or error.status_code >= 500,
        retry_after=float(header) if header.replace(".", "", 1).isdigit() else None,
    )


def _brief_prompt(request: BriefRequest) -> str:
    parts = [request.job.prompt or "", f"It is due at {request.due.isoformat(timespec='minutes')}."]
    if request.previous is not None:
        parts.append(_earlier("The previous brief of this job", request.previous))
    parts.extend(_earlier(f"The newest brief of {brief.job}", brief) for brief in request.context)
    return "\n\n".join(parts)


def _earlier(label: str, brief: EarlierBrief) -> str:
    return f"{label}, written {brief.at.isoformat(timespec='minutes')}:\n<<<\n{brief.text}\n>>>"
