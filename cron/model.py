"""What jobs.yaml says, as values: the words of the file, checked, resolved and immutable.

Nothing here reads a file, a clock or the environment; `cron.jobs` makes these values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, NewType

from cron.schedules.days import NO_DAYS, Days
from cron.schedules.rules import RepeatedHour as RepeatedHour
from delivery.model import Surface
from delivery.targets import Target, parse_target
from seeding.model import Listen as Listen
from seeding.model import SessionScope as SessionScope

JobId = NewType("JobId", str)
"""The stable id of a job: its name, or the name it had before (`was:`)."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def _nothing() -> Mapping[str, str]:
    return _NOTHING


class CatchUp(StrEnum):
    """What happens to occurrences that were missed while the daemon was down or asleep."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """What happens when an occurrence is due while the job still runs."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"
    ALLOW = "allow"


class AgentKind(StrEnum):
    """How an agent writes and answers."""

    TEXT = "text"
    COMMAND = "command"
    PROMPT = "prompt"
    RECALL = "recall"


class ZoneSource(StrEnum):
    """Where the default time zone came from."""

    FILE = "file"
    HOST = "host"
    FALLBACK = "fallback"


class AccountKind(StrEnum):
    """The platform an account logs in to."""

    SLACK = "slack"
    TELEGRAM = "telegram"
    LOCAL = "local"


class Everyone(Enum):
    """`allow: everyone`: strangers are heard too."""

    EVERYONE = "everyone"


EVERYONE: Final = Everyone.EVERYONE

Allow = frozenset[str] | Everyone | None
"""Ids that are heard; EVERYONE; or None: whoever writes in a chat that a job delivers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """One agent: who writes a brief, or answers a person.

    `command` is argv; with `shell` it is one text for /bin/sh. `env` is added to the scrubbed environment.
    `cwd` is absolute. `timeout` None means: the caller's default. A TEXT agent writes `Job.text`.
    """

    name: str
    kind: AgentKind
    command: tuple[str, ...] = ()
    shell: bool = False
    env: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    cwd: Path | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    instructions: str | None = None
    timeout: timedelta | None = None

    @property
    def can_answer(self) -> bool:
        """Tell whether people can be answered by this agent."""
        return self.kind is not AgentKind.TEXT


RECALL: Final = AgentSpec(name="recall", kind=AgentKind.RECALL)
"""The built-in agent: no model, no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a run is tried in all, and how long it waits between two tries."""

    attempts: int = 1
    wait: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, with every default filled in.

    `deliver` holds target texts or names from `targets:`, no two for one place (`Config.target` reads them).
    `late` None means: by the schedule's period. `start` and `end` are aware; `start` is also the anchor of
    intervals. `times` ends the job after that many occurrences, `stop_after` pauses it after that many
    failures in a row, `excluded` are days in the job's zone on which it does not run, `also` days on which it runs
    besides its weekdays (`day_sources`: what both were read from), `jitter` is the longest delay. A failure that
    goes on is told again after `remind_after`. `context_from` names jobs (`self` is this one). `on_failure` None
    means: told nowhere.
    """

    id: JobId
    name: str
    schedules: tuple[str, ...]
    timezone: str
    writer: AgentSpec
    answer_agent: AgentSpec
    prompt: str | None = None
    text: str | None = None
    env: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    cwd: Path | None = None
    shell: bool = False
    deliver: tuple[str, ...] = ("local",)
    surface: Surface = Surface.FLAT
    continues: bool = True
    late: timedelta | None = None
    catch_up: CatchUp = CatchUp.LATEST
    overlap: Overlap = Overlap.SKIP
    repeated_hour: RepeatedHour = RepeatedHour.ONCE
    timeout: timedelta = timedelta(minutes=10)
    retry: Retry = Retry()
    repeatable: bool = False
    context_from: tuple[str, ...] = ()
    on_failure: str | None = "local:#alerts"
    enabled: bool = True
    start: datetime | None = None
    end: datetime | None = None
    times: int | None = None
    excluded: Days = NO_DAYS
    also: Days = NO_DAYS
    day_sources: tuple[str, ...] = ()
    jitter: timedelta = timedelta(0)
    stop_after: int | None = None
    remind_after: timedelta = timedelta(hours=24)
    was: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSpec:
    """One login. Slack has `bot_token` and `app_token` (without it nothing is heard), Telegram has `token`.

    `base_url`: Slack's ends with a slash (`https://slack.com/api/`), Telegram's is the server's root without
    one. None means the platform's own.
    """

    name: str
    kind: AccountKind
    bot_token: str | None = field(default=None, repr=False)
    app_token: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    allow: Allow = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """One place and the rules that hold there. `name` is None for a place that only a text names."""

    name: str | None
    to: str
    target: Target
    listen: Listen = Listen.MENTIONS
    sessions: SessionScope = SessionScope.SHARED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """What `defaults:` says that is not about one job."""

    on_failure: str | None = "local:#alerts"
    surface: Surface = Surface.FLAT
    deliver: tuple[str, ...] = ("local",)
    answer_agent: AgentSpec = RECALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A whole jobs.yaml. `jobs` is in the file's order, by name; `accounts` is without the built-in `local`.

    `max_running` runs that call a program or a model go on at the same time, `catch_up_running` of them because they
    were missed. `secrets` are values that must never be shown. `warnings` are sentences for a person, with their place.
    `fingerprint` changes when the file, or a variable that it reads, changes.
    """

    path: Path
    base_dir: Path
    timezone: str
    timezone_source: ZoneSource
    accounts: Mapping[str, AccountSpec]
    targets: Mapping[str, TargetSpec]
    agents: Mapping[str, AgentSpec]
    jobs: Mapping[str, Job]
    defaults: JobDefaults
    secrets: frozenset[str] = field(repr=False)
    max_running: int = 16
    catch_up_running: int = 2
    warnings: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def account_kinds(self) -> dict[str, str]:
        """Return every account's platform by the account's name, `local` included."""
        return {"local": "local"} | {name: str(spec.kind) for name, spec in self.accounts.items()}

    def target(self, text: str) -> TargetSpec:
        """Return the place that a name from `targets:` or a target text means.

        A text takes the rules of the named target for the same place, if there is one. Raises TargetError.
        """
        named = self.targets.get(text)
        if named is not None:
            return named
        target = parse_target(text, self.account_kinds)
        rules = self.rules_at(target)
        if rules is not None:
            return rules
        return TargetSpec(name=None, to=text, target=target)

    def rules_at(self, target: Target) -> TargetSpec | None:
        """Return the named target for that place, or None."""
        for spec in self.targets.values():
            if spec.target.place == target.place:
                return spec
        return None
