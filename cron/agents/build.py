"""Make the agent that a spec describes. The one place that knows every kind."""

from collections.abc import Mapping

from cron.agents.command import CommandAgent, Redact
from cron.agents.ports import Agent
from cron.agents.prompt import PromptAgent
from cron.agents.recall import RecallAgent
from cron.agents.text import TextAgent
from cron.model import AgentKind, AgentSpec
from state.clock import Sleep


def build_agent(spec: AgentSpec, *, environ: Mapping[str, str], sleep: Sleep, redact: Redact) -> Agent:
    """Return the agent of this spec. `environ` is what a command's scrubbed environment is taken from.

    `redact` takes secrets out of a text: before anything is cut, for half a secret is not known as one.
    """
    match spec.kind:
        case AgentKind.TEXT:
            return TextAgent()
        case AgentKind.COMMAND:
            return CommandAgent(spec, environ=environ, sleep=sleep, redact=redact)
        case AgentKind.PROMPT:
            return PromptAgent(spec, sleep=sleep)
        case AgentKind.RECALL:
            return RecallAgent()
