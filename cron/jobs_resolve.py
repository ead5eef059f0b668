"""From the shapes of the file to the values that the program works with: defaults, agents, places, times."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from cron.jobs_agents import folder, shell_sign, start_of
from cron.jobs_fields import DayWords, check_name
from cron.jobs_models import DefaultsModel, JobModel, RetryModel
from cron.jobs_places import NOWHERE, Places
from cron.jobs_times import TimeChecks, Times
from cron.jobs_yaml import Document, Loc
from cron.model import (
    RECALL,
    AgentKind,
    AgentSpec,
    CatchUp,
    Job,
    JobId,
    Overlap,
    RepeatedHour,
    Retry,
)
from cron.schedules.days import Days
from delivery.model import Surface
from delivery.targets import TargetError

DEFAULT_DELIVER: Final = ("local",)
DEFAULT_ON_FAILURE: Final = "local:#alerts"
DEFAULT_AGENT: Final = "default"

_WRITERS: Final = ("command", "prompt", "text")
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")


@dataclass(slots=True)
class Resolver:
    """Makes jobs; what is wrong goes to `document`, what is odd to `warnings`."""

    document: Document
    base_dir: Path
    zone: str
    agents: Mapping[str, AgentSpec]
    broken_agents: frozenset[str]
    places: Places
    times: TimeChecks
    defaults: DefaultsModel
    names: frozenset[str]
    warnings: list[tuple[Loc, str]] = field(default_factory=list)

    def job(self, name: str, model: JobModel) -> Job | None:
        """Return the job with every default filled in, or None after reporting what is wrong with it."""
        loc: Loc = ("jobs", name)
        before = len(self.document.mistakes)
        try:
            check_name(name, "a job")
        except ValueError as error:
            self.document.report(loc, str(error), on_key=True)
        writer = self._writer(loc, name, model)
        timing = self._times(loc, model)
        deliver = self._deliver(loc, model)
        on_failure = self._on_failure(loc, model)
        answer_agent = self._answer_agent(loc, model)
        context_from = self._context(loc, name, model)
        if writer is None or timing is None or len(self.document.mistakes) > before:
            return None
        return Job(
            id=JobId(model.was or name),
            name=name,
            schedules=model.schedule,
            timezone=timing.zone,
            writer=writer,
            answer_agent=answer_agent,
            prompt=model.prompt,
            text=model.text,
            env=model.env or {},
            cwd=folder(model.cwd, self.base_dir),
            shell=bool(model.shell),
            deliver=deliver,
            surface=self._either(model, "surface", Surface.FLAT),
            continues=self._either(model, "continues", True),
            late=self._either(model, "late", None),
            catch_up=self._either(model, "catch_up", CatchUp.LATEST),
            overlap=self._either(model, "overlap", Overlap.SKIP),
            repeated_hour=timing.repeated_hour,
            timeout=self._either(model, "timeout", timedelta(minutes=10)),
            retry=_retry(self._either(model, "retry", None)),
            repeatable=self._either(model, "repeatable", writer.kind is not AgentKind.COMMAND),
            context_from=context_from,
            on_failure=on_failure,
            enabled=model.enabled is not False,
            start=timing.start,
            end=timing.end,
            times=timing.times,
            excluded=timing.excluded,
            also=timing.also,
            day_sources=timing.day_sources,
            jitter=self._either(model, "jitter", timedelta(0)),
            stop_after=self._either(model, "stop_after", None),
            remind_after=self._either(model, "remind_after", timedelta(hours=24)),
            was=model.was,
        )

    def _either(self, model: JobModel, name: str, otherwise: Any) -> Any:
        """Return what the job says, else what `defaults` says, else the built-in value."""
        for source in (model, self.defaults):
            value = getattr(source, name)
            if value is not None:
                return value
        return otherwise

    # --- who writes, who answers ------------------------------------------------------------------

    def _writer(self, loc: Loc, name: str, model: JobModel) -> AgentSpec | None:
        given = [word for word in _WRITERS if getattr(model, word) is not None]
        if len(given) != 1:
            listed = "one of `command`, `prompt` or `text`"
            what = f"has {' and '.join(f'`{word}`' for word in given)}: keep" if given else "needs"
            self.document.report(loc, f"a job {what} {listed}", on_key=True)
            return None
        if model.command is not None:
            return self._command_writer(loc, name, model)
        writer: AgentSpec | None = AgentSpec(name=name, kind=AgentKind.TEXT)
        if model.prompt is not None:
            writer = self._prompt_writer(loc, model)
        else:
            self._look_at_text(loc, model.text or "")
        if writer is not None and writer.kind is not AgentKind.COMMAND:
            for word in ("env", "cwd", "shell"):
                if getattr(model, word) is not None:
                    message = f"`{word}` is for a `command`, and this job has `{given[0]}`: remove it"
                    self.document.report((*loc, word), message, on_key=True)
        self._look_for_remarks(loc, given[0])
        return writer

    def _command_writer(self, loc: Loc, name: str, model: JobModel) -> AgentSpec:
        command = start_of(model.command, is_shell=bool(model.shell), loc=loc, document=self.document)
        sign = None if model.shell else shell_sign(command)
        if sign is not None:
            message = f'"{sign}" is given to the program as it is: for the shell say shell: true, and one text'
            self.warnings.append(((*loc, "command"), message))
        return AgentSpec(
            name=name,
            kind=AgentKind.COMMAND,
            command=command,
            shell=bool(model.shell),
            env=model.env or {},
            cwd=folder(model.cwd, self.base_dir),
        )

    def _prompt_writer(self, loc: Loc, model: JobModel) -> AgentSpec | None:
        name = model.agent or self.defaults.agent or DEFAULT_AGENT
        spec = self._agent(name)
        if spec is not None and spec.kind is not AgentKind.RECALL:
            return spec if spec.kind is not AgentKind.COMMAND else _with_job_env(spec, model, self.base_dir)
        if name in self.broken_agents:
            return None
        if spec is not None:
            self.document.report((*loc, "prompt"), f'agent "{name}" only recalls, it cannot write: name another')
        elif name == DEFAULT_AGENT and model.agent is None:
            message = "nobody writes this prompt: add agents: {default: {kind: prompt, model: ..., api_key: ...}}"
            self.document.report((*loc, "prompt"), message, on_key=True)
        return None if spec is None and model.agent is None and self.defaults.agent is None else RECALL

    def _answer_agent(self, loc: Loc, model: JobModel) -> AgentSpec:
        name = model.agent or self.defaults.agent
        if name is None:
            return self.agents.get(DEFAULT_AGENT, RECALL)
        spec = self._agent(name)
        if spec is None and name not in self.broken_agents and model.agent is not None:
            self.document.report((*loc, "agent"), self.no_agent(name))
        return spec if spec is not None else RECALL

    def _agent(self, name: str) -> AgentSpec | None:
        return self.agents.get(name, RECALL if name == RECALL.name else None)

    def has_agent(self, name: str) -> bool:
        """Tell whether there is such an agent (a broken one was reported already)."""
        return self._agent(name) is not None or name in self.broken_agents

    def no_agent(self, name: str) -> str:
        """Say that there is no such agent."""
        known = [*self.agents, *(() if RECALL.name in self.agents else (RECALL.name,))]
        return f'there is no agent "{name}": agents are {", ".join(known)}'

    def _look_at_text(self, loc: Loc, text: str) -> None:
        odd = [match.group() for match in _PLACEHOLDER.finditer(text) if match[1] not in ("job", "due")]
        for placeholder in dict.fromkeys(odd):
            message = f"{placeholder} stays as it is: a text knows {{{{job}}}} and {{{{due}}}} only"
            self.warnings.append(((*loc, "text"), message))

    def _look_for_remarks(self, loc: Loc, word: str) -> None:
        remark = self.document.remark_after((*loc, word))
        if remark is not None and len(remark) > 1:
            message = f'what follows from "{remark}" on is a remark: put the text in quotes if it belongs to it'
            self.warnings.append(((*loc, word), message))

    # --- where and when ---------------------------------------------------------------------------

    def _deliver(self, loc: Loc, model: JobModel) -> tuple[str, ...]:
        if model.deliver is None:
            return self._either(model, "deliver", DEFAULT_DELIVER)  # type: ignore[no-any-return]
        if not model.deliver:
            self.document.report((*loc, "deliver"), "this delivers to nobody: name a place, such as local")
        return self.places.check_each(model.deliver, (*loc, "deliver"), self.document)

    def _on_failure(self, loc: Loc, model: JobModel) -> str | None:
        text = self._either(model, "on_failure", DEFAULT_ON_FAILURE)
        if text == NOWHERE:
            return None
        if model.on_failure is not None:
            try:
                self.places.find(text)
            except TargetError as error:
                self.document.report((*loc, "on_failure"), str(error))
        return str(text)

    def _times(self, loc: Loc, model: JobModel) -> Times | None:
        try:
            zone = self.times.zone(model.timezone or self.zone)
        except ValueError as error:
            self.document.report((*loc, "timezone"), str(error))
            return None
        off, off_sources = self._days(model.excluded, (*loc, "except"), zone)
        also, also_sources = self._days(model.also, (*loc, "also"), zone)
        timing = Times(
            texts=model.schedule,
            zone=zone.key,
            repeated_hour=self._either(model, "repeated_hour", RepeatedHour.ONCE),
            start=self.times.instant(model.start, (*loc, "start"), zone, self.document),
            end=self.times.instant(model.end, (*loc, "end"), zone, self.document),
            times=model.times,
            excluded=off,
            also=also,
            day_sources=(*off_sources, *(f"also {source}" for source in also_sources)),
        )
        self.times.schedule(timing, (*loc, "schedule"), self.document)
        return timing

    def _days(self, words: Sequence[DayWords] | None, loc: Loc, zone: ZoneInfo) -> tuple[Days, tuple[str, ...]]:
        return self.times.days(words or (), loc, zone, self.base_dir, self.document)

    def _context(self, loc: Loc, name: str, model: JobModel) -> tuple[str, ...]:
        given = model.context_from or ()
        if len(given) == 1 and given[0] not in self.names:
            given = tuple(piece.strip() for piece in given[0].split(",") if piece.strip())
        for index, other in enumerate(given):
            if other != "self" and other not in self.names:
                message = f'there is no job "{other}" here: name a job of this file, or self'
                self.document.report((*loc, "context_from", index), message)
        return tuple(dict.fromkeys("self" if other == name else other for other in given))


def _with_job_env(spec: AgentSpec, model: JobModel, base_dir: Path) -> AgentSpec:
    return AgentSpec(
        name=spec.name,
        kind=spec.kind,
        command=spec.command,
        shell=spec.shell,
        env={**spec.env, **(model.env or {})},
        cwd=spec.cwd if model.cwd is None else folder(model.cwd, base_dir),
        timeout=spec.timeout,
    )


def _retry(model: RetryModel | None) -> Retry:
    if model is None:
        return Retry()
    return Retry(attempts=model.attempts) if model.wait is None else Retry(attempts=model.attempts, wait=model.wait)


def same_ids(models: Mapping[str, JobModel], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the job and the reason where two jobs would share one history."""
    owners: dict[str, str] = {}
    for name, model in models.items():
        if model.was is None:
            continue
        if model.was in names:
            yield name, f'was: "{model.was}" is a job of this file: rename it, or remove `was`'
        elif model.was in owners:
            yield name, f'was: "{model.was}" is what "{owners[model.was]}" was, too: keep one'
        owners.setdefault(model.was, name)
