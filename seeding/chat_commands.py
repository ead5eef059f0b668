"""What people type to the program rather than to the agent: `/new` and `/cron ...`. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum

from delivery.model import Inbound
from seeding.model import ChatRules

VERBS = frozenset({"list", "plan", "run", "pause", "resume", "snooze", "why", "help"})
NOT_ALLOWED = "Only people listed under `allow` of this account may do that."

_NEW = re.compile(r"[/!]new\s*", re.IGNORECASE)
_CRON = re.compile(r"[/!]cron(?:\s+(?P<words>.*))?", re.IGNORECASE | re.DOTALL)
_FOREIGN = re.compile(r"/\w+@\w+")
_MENTIONED = re.compile(r"cron\s+(?P<words>(?P<verb>\w+).*)", re.IGNORECASE | re.DOTALL)


class CommandKind(StrEnum):
    """Which command."""

    NEW = "new"
    CRON = "cron"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as typed; `words` is what follows `/cron`."""

    kind: CommandKind
    words: str = ""


def parse_command(inbound: Inbound) -> Command | None:
    """Return the command that a message is, None for an ordinary one. An edit is never a command."""
    text = inbound.text.strip()
    if inbound.is_edit:
        return None
    if _NEW.fullmatch(text):
        return Command(kind=CommandKind.NEW)
    if found := _CRON.fullmatch(text):
        return Command(kind=CommandKind.CRON, words=(found["words"] or "").strip())
    found = _MENTIONED.fullmatch(text) if inbound.mentioned else None
    if found is not None and found["verb"].casefold() in VERBS:
        return Command(kind=CommandKind.CRON, words=found["words"].strip())
    return None


def is_for_another_bot(inbound: Inbound) -> bool:
    """Whether a message is a command that names a bot which is not ours: our own name is not in the text any more."""
    return not inbound.mentioned and _FOREIGN.match(inbound.text.strip()) is not None


def may_command(inbound: Inbound, rules: ChatRules) -> bool:
    """Whether this person may give `/cron` commands: only ids that `allow` lists, never "everyone".

    Who can open the page may do all this there anyway.
    """
    return rules.is_own_page or (rules.allow is not None and inbound.author.id in rules.allow)
