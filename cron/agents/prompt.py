"""The `prompt` agent: a model at an OpenAI-compatible endpoint writes the briefs and answers people."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta, tzinfo

from cron.agents.endpoint import Endpoint, Refused, Said
from cron.agents.ports import BriefRequest, Composed, ComposeFailed, EarlierBrief, Started
from cron.model import AgentSpec
from seeding.model import Question
from seeding.ports import AnswerFailed
from seeding.transcript import DEFAULT_BUDGET, INSTRUCTIONS, messages_for
from state.clock import Sleep

log = logging.getLogger(__name__)

TRIES = 4
FIRST_WAIT = 1.0  # seconds; doubled for each further try, where the server does not say
ANSWER_PATIENCE = timedelta(minutes=10)
BUDGETS = (DEFAULT_BUDGET, 60_000, 20_000, 6_000, 2_000)
"""Characters of transcript, from the usual to what the smallest models take: the next where one is too long."""
COMPOSE_INSTRUCTIONS = (
    "You write a scheduled brief that is posted into a chat. Write Markdown, short and concrete; number what a "
    "reader may want to ask about. If there is nothing worth posting, answer with exactly [SILENT]."
)

Messages = Sequence[Mapping[str, str]]


class PromptAgent:
    """Asks one model. Call `close` when it is no longer needed; what is being asked then still ends."""

    def __init__(self, spec: AgentSpec, *, sleep: Sleep) -> None:
        self._spec = spec
        self._sleep = sleep
        self._endpoint = Endpoint(model=spec.model or "", base_url=spec.base_url, api_key=spec.api_key)

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Ask for a brief: the job's prompt, then what was written before."""
        messages = [
            {"role": "system", "content": _joined(self._spec.instructions, COMPOSE_INSTRUCTIONS)},
            {"role": "user", "content": _brief_prompt(request)},
        ]
        try:
            said = await self._ask(messages, request.job.timeout)
        except Refused as refused:
            raise ComposeFailed(refused.reason, is_transient=refused.is_transient) from refused
        if not said.text.strip():
            raise ComposeFailed(_why_empty(said), is_transient=True, details=_details(said))
        return Composed(text=said.text, details=_details(said))

    async def answer(self, question: Question, zone: tzinfo) -> str:
        """Ask for an answer, given the transcript as a strict provider accepts it; less of it if it must be."""
        asked_at = question.transcript[-1].at.astimezone(zone).isoformat(sep=" ", timespec="minutes")
        system = _joined(self._spec.instructions, INSTRUCTIONS, f"The newest message was written at {asked_at}.")

        def within(budget: int) -> Messages:
            turns = messages_for(question.transcript, briefs=question.briefs, budget=budget, zone=zone)
            spoken = [{"role": str(turn.role), "content": turn.content} for turn in turns]
            return [{"role": "system", "content": system}, *spoken]

        try:
            said = await self._ask_in_less_and_less(within, self._spec.timeout or ANSWER_PATIENCE)
        except Refused as refused:
            raise AnswerFailed(refused.reason) from refused
        if not said.text.strip():
            raise AnswerFailed(_why_empty(said))
        return said.text.strip()

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._endpoint.close()

    async def _ask_in_less_and_less(self, within: Callable[[int], Messages], patience: timedelta) -> Said:
        """Ask, and where that is too long for the model, with less of the transcript."""
        asked: Messages = ()
        last: Refused | None = None
        for budget in BUDGETS:
            messages = within(budget)
            if messages == asked:
                continue
            asked = messages
            try:
                return await self._ask(messages, patience)
            except Refused as refused:
                if not refused.is_too_long:
                    raise
                last = refused
        assert last is not None, "it was asked at least once"
        raise last

    async def _ask(self, messages: Messages, patience: timedelta) -> Said:
        """Try until there is an answer, the tries are used up, or waiting for the next one is pointless."""
        left = patience.total_seconds()
        for attempt in range(1, TRIES):
            try:
                return self._noted(await self._endpoint.ask(messages))
            except Refused as refused:
                wait = FIRST_WAIT * 2 ** (attempt - 1) if refused.retry_after is None else refused.retry_after
                left -= wait
                if not refused.is_transient or left <= 0:
                    raise
                facts = {"action": "model_asked_again", "agent": self._spec.name, "wait_s": wait}
                log.info("A model is asked again.", extra=facts)
            await self._sleep(wait)
        return self._noted(await self._endpoint.ask(messages))

    def _noted(self, said: Said) -> Said:
        facts = {"action": "model_answered", "agent": self._spec.name, "model": self._spec.model}
        log.info("A model answered.", extra=facts | _details(said))
        return said


def _details(said: Said) -> dict[str, object]:
    counted = {"tokens_in": said.tokens_in, "tokens_out": said.tokens_out}
    known: dict[str, object] = {name: count for name, count in counted.items() if count is not None}
    return known | ({"cut": True} if said.finish == "length" else {})


def _why_empty(said: Said) -> str:
    if said.finish == "length":
        return "The model used up its tokens before it wrote a word; it needs a higher limit, or less to think about."
    if said.finish == "content_filter":
        return "The model's server withheld the answer (content filter)."
    return "The model answered nothing."


def _joined(*texts: str | None) -> str:
    return "\n\n".join(text for text in texts if text)


def _brief_prompt(request: BriefRequest) -> str:
    parts = [request.job.prompt or "", f"It is due at {request.due.isoformat(sep=' ', timespec='minutes')}."]
    if request.previous is not None:
        parts.append(_earlier("The previous brief of this job", request.previous))
    others = [brief for brief in request.context if brief != request.previous]
    parts.extend(_earlier(f"The newest brief of {brief.job}", brief) for brief in others)
    return "\n\n".join(parts)


def _earlier(label: str, brief: EarlierBrief) -> str:
    return f"{label}, written {brief.at.isoformat(sep=' ', timespec='minutes')}:\n<<<\n{brief.text}\n>>>"
