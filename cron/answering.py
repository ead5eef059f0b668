"""Find who answers a person: the agent of the job whose brief is being answered, else the default."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from zoneinfo import ZoneInfo

from cron.agents.build import build_agent
from cron.agents.command import Redact
from cron.agents.ports import Agent
from cron.agents.prompt import PromptAgent
from cron.model import AgentSpec, Config
from cron.redact import Redactor, shortened
from cron.schedule import format_duration
from seeding.model import Question
from seeding.ports import AnswerFailed
from state.clock import Sleep

ANSWER_TIMEOUT = timedelta(minutes=10)


class Agents:
    """Keeps one agent per configured name; a changed spec gets a new one."""

    def __init__(self, *, environ: Mapping[str, str], sleep: Sleep, redact: Redact) -> None:
        self._environ = environ
        self._redact = redact
        self._sleep = sleep
        self._built: dict[tuple[str, str], tuple[AgentSpec, Agent]] = {}
        self._closing: set[asyncio.Future[None]] = set()

    def __call__(self, spec: AgentSpec) -> Agent:
        """Return the agent of this spec."""
        key = (spec.name, str(spec.kind))
        known = self._built.get(key)
        if known is None or known[0] != spec:
            if known is not None:  # it may be in the middle of an answer, and closes with its end
                self._retire(known[1])
            known = (spec, build_agent(spec, environ=self._environ, sleep=self._sleep, redact=self._redact))
            self._built[key] = known
        return known[1]

    async def close(self) -> None:
        """Close what the agents hold open. Idempotent."""
        for _, agent in self._built.values():
            await _close(agent)
        self._built.clear()
        await asyncio.gather(*self._closing)

    def _retire(self, agent: Agent) -> None:
        task = asyncio.ensure_future(_close(agent))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(agent: Agent) -> None:
    if isinstance(agent, PromptAgent):
        await agent.close()


class JobAnswerer:
    """Answers people with the agent that jobs.yaml names (`seeding.ports.Answerer`)."""

    def __init__(self, *, agents: Agents, config: Callable[[], Config], redactor: Callable[[], Redactor]) -> None:
        self._agents = agents
        self._config = config
        self._redactor = redactor

    async def answer(self, question: Question) -> str:
        """Ask the job's agent, within its time limit; the answer comes back without secrets."""
        spec, zone = self._agent_of(question.job)
        limit = spec.timeout or ANSWER_TIMEOUT
        try:
            async with asyncio.timeout(limit.total_seconds()):
                answer = await self._agents(spec).answer(question, zone)
        except TimeoutError as error:
            raise AnswerFailed(f"The agent {spec.name!r} took longer than {format_duration(limit)}.") from error
        except AnswerFailed as failed:
            raise AnswerFailed(shortened(self._redactor().redact(failed.reason))) from failed
        return self._redactor().redact(answer)

    def _agent_of(self, job: str | None) -> tuple[AgentSpec, ZoneInfo]:
        config = self._config()
        known = None if job is None else config.jobs.get(job)
        if known is None:
            return config.defaults.answer_agent, ZoneInfo(config.timezone)
        return known.answer_agent, ZoneInfo(known.timezone)
