"""The shape of jobs.yaml: which keys there are, and what each one takes. The schema for editors is made from it.

Values stay as close to the file as they can; `jobs_resolve` fills in defaults and checks what refers to what.
"""

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from cron.jobs_fields import (
    Boolean,
    Command,
    CommaTexts,
    Count,
    Days,
    Duration,
    DurationOrZero,
    Environment,
    FilledText,
    Text,
    Texts,
    Url,
    one_of,
)
from cron.model import AgentKind, CatchUp, Listen, Overlap, RepeatedHour, SessionScope
from delivery.model import Surface


def _words(enum: type[Any], also: dict[str, str] | None = None, only: tuple[str, ...] = ()) -> tuple[Any, Any]:
    words = only or tuple(str(member) for member in enum)
    read = one_of(*words, also=also)
    return PlainValidator(lambda value: enum(read(value))), WithJsonSchema({"type": "string", "enum": list(words)})


_SURFACE: Final = _words(Surface, {"in_channel": "flat"})
_CATCH_UP: Final = _words(CatchUp)
_OVERLAP: Final = _words(Overlap)
_REPEATED: Final = _words(RepeatedHour)
_LISTEN: Final = _words(Listen)
_SESSIONS: Final = _words(SessionScope)
_AGENT: Final = _words(AgentKind, only=("command", "prompt", "recall"))
_ACCOUNT: Final = one_of("slack", "telegram")

AccountWord: TypeAlias = Annotated[
    str, PlainValidator(_ACCOUNT), WithJsonSchema({"type": "string", "enum": ["slack", "telegram"]})
]


class Strict(BaseModel):
    """A mapping of the file in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RetryModel(Strict):
    """How often a run is tried, and how long it waits between two tries. `retry: 3` is short for attempts: 3."""

    attempts: Count = 1
    wait: DurationOrZero | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"attempts": value} if isinstance(value, str) else value


class Policies(Strict):
    """What a job may say and `defaults:` may say for all."""

    agent: FilledText | None = Field(None, description="Who writes a prompt, and who answers people.")
    deliver: CommaTexts | None = Field(None, description="Where the brief goes: places, or names from targets.")
    surface: Annotated[Surface, *_SURFACE] | None = Field(None, description="In the channel, or in a thread.")
    continues: Boolean | None = Field(None, alias="continue", description="Do answers continue the job?")
    late: Duration | None = Field(None, description="How late the brief is still useful.")
    catch_up: Annotated[CatchUp, *_CATCH_UP] | None = Field(None, description="For occurrences missed while down.")
    overlap: Annotated[Overlap, *_OVERLAP] | None = Field(None, description="When the job still runs.")
    repeated_hour: Annotated[RepeatedHour, *_REPEATED] | None = Field(None, description="When clocks go back.")
    timeout: Duration | None = Field(None, description="How long writing the brief may take.")
    retry: RetryModel | None = Field(None, description="Tries in all, and the wait between them.")
    repeatable: Boolean | None = Field(None, description="May it be composed again after a crash?")
    on_failure: FilledText | None = Field(None, description="Where a failure is told; none: nowhere.")
    jitter: DurationOrZero | None = Field(None, description="The longest random delay.")
    stop_after: Count | None = Field(None, description="Pause the job after so many failures in a row.")
    remind_after: Duration | None = Field(None, description="When a failure that goes on is told again.")


class JobModel(Policies):
    """One job."""

    schedule: Texts = Field(description='When: a crontab expression, "every 2h", "weekdays at 9am", an instant.')
    timezone: FilledText | None = Field(None, description="The zone of this job's times, such as Europe/Berlin.")
    command: Command | None = Field(None, description="What writes the brief: [program, argument, ...].")
    prompt: FilledText | None = Field(None, description="What the agent is asked to write.")
    text: FilledText | None = Field(None, description="The brief itself; knows {{job}} and {{due}}.")
    shell: Boolean | None = Field(None, description="Is the command one text for the shell?")
    env: Environment | None = Field(None, description="Added to the command's scrubbed environment.")
    cwd: FilledText | None = Field(None, description="The command's folder; without it that of this file.")
    context_from: Texts | None = Field(None, description="Jobs (or self) whose newest brief the agent is handed.")
    enabled: Boolean | None = Field(None, description="false: the job is known, but never due.")
    start: FilledText | None = Field(None, description="Not before this instant; intervals count from it.")
    end: FilledText | None = Field(None, description="Not after this instant.")
    times: Count | None = Field(None, description="Only so often in all.")
    excluded: Days | None = Field(
        None, alias="except", description="Days off: 2026-12-25, spans a..b, holidays:DE-BY, or an .ics file."
    )
    also: Days | None = Field(None, description="Days on which it is due beside its weekdays: a Saturday.")
    was: FilledText | None = Field(None, description="The name it had before: its history is kept.")


class TargetModel(Strict):
    """A name for a place. A text is short for {to: text}."""

    to: FilledText = Field(description='The place, such as "slack:#ops" or "telegram:123456789".')
    listen: Annotated[Listen, *_LISTEN] | None = Field(None, description="Which plain messages wake the agent.")
    sessions: Annotated[SessionScope, *_SESSIONS] | None = Field(None, description="One conversation, or one each.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"to": value} if isinstance(value, str) else value


class AgentModel(Strict):
    """Who writes prompts and answers people."""

    kind: Annotated[AgentKind, *_AGENT] | None = Field(None, description="How it writes and answers.")
    command: Command | None = Field(None, description="For kind command: [program, argument, ...].")
    shell: Boolean | None = Field(None, description="Is the command one text for the shell?")
    env: Environment | None = Field(None, description="Added to the command's scrubbed environment.")
    cwd: FilledText | None = Field(None, description="The command's folder; without it that of this file.")
    model: FilledText | None = Field(None, description="For kind prompt: the model's name.")
    base_url: Url | None = Field(None, description="For kind prompt: an OpenAI-compatible endpoint.")
    api_key: Text | None = Field(None, description='For kind prompt: "${NAME_OF_THE_VARIABLE}".')
    instructions: FilledText | None = Field(None, description="For kind prompt: who the agent is, what it does.")
    timeout: Duration | None = Field(None, description="How long one answer may take.")


class AccountModel(Strict):
    """One login on a platform."""

    kind: AccountWord | None = Field(None, description="The platform; without it the account's name says it.")
    bot_token: FilledText | None = Field(None, description="Slack: xoxb-...")
    app_token: FilledText | None = Field(None, description="Slack: xapp-..., for Socket Mode.")
    token: FilledText | None = Field(None, description="Telegram: the bot's token.")
    allow: CommaTexts | None = Field(None, description="Ids of the people that are heard, or everyone.")
    base_url: Url | None = Field(None, description="Another server than the platform's own.")


class DefaultsModel(Policies):
    """What holds for every job that does not say otherwise."""


class ConfigModel(Strict):
    """A whole jobs.yaml."""

    timezone: FilledText | None = Field(None, description="The default zone; without it the host's.")
    max_running: Count | None = Field(None, description="How many commands and prompts run at the same time.")
    catch_up_running: Count | None = Field(None, description="Of those, how many may catch up what was missed.")
    accounts: dict[str, AccountModel] | None = None
    targets: dict[str, TargetModel] | None = None
    agents: dict[str, AgentModel] | None = None
    defaults: DefaultsModel | None = None
    jobs: dict[str, JobModel] | None = None
