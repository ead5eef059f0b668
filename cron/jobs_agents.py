"""Agents: who writes and who answers, from the shapes of the file."""

import re
from pathlib import Path
from typing import Final

from cron.jobs_fields import argv, check_name
from cron.jobs_models import AgentModel
from cron.jobs_yaml import Document, Loc
from cron.model import AgentKind, AgentSpec

_KINDS_FIELDS: Final = {
    AgentKind.COMMAND: frozenset({"command", "shell", "env", "cwd", "timeout"}),
    AgentKind.PROMPT: frozenset({"model", "base_url", "api_key", "instructions", "timeout"}),
    AgentKind.RECALL: frozenset({"timeout"}),
}
_SHELL_SIGNS: Final = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "2>&1", "&"})


def agent_spec(name: str, model: AgentModel, base_dir: Path, document: Document) -> AgentSpec | None:
    """Return the agent, or None after reporting what is wrong with it."""
    loc: Loc = ("agents", name)
    before = len(document.mistakes)
    try:
        check_name(name, "an agent")
    except ValueError as error:
        document.report(loc, str(error), on_key=True)
    kind = model.kind or _guess(model)
    if kind is None:
        document.report(loc, "an agent needs a kind: add kind: command, prompt or recall", on_key=True)
        return None
    _check_fields(loc, kind, model, document)
    command = start_of(model.command, is_shell=bool(model.shell), loc=loc, document=document)
    if len(document.mistakes) > before:
        return None
    return AgentSpec(
        name=name,
        kind=kind,
        command=command,
        shell=bool(model.shell),
        env=model.env or {},
        cwd=folder(model.cwd, base_dir) if kind is AgentKind.COMMAND else None,
        model=model.model,
        base_url=model.base_url,
        api_key=model.api_key,
        instructions=model.instructions,
        timeout=model.timeout,
    )


def _guess(model: AgentModel) -> AgentKind | None:
    if model.command is not None:
        return AgentKind.COMMAND
    return AgentKind.PROMPT if model.model is not None else None


def _check_fields(loc: Loc, kind: AgentKind, model: AgentModel, document: Document) -> None:
    for name in sorted(model.model_fields_set - {"kind"} - _KINDS_FIELDS[kind]):
        document.report((*loc, name), f"an agent of kind {kind} has no use for `{name}`: remove it", on_key=True)
    if kind is AgentKind.COMMAND and model.command is None:
        document.report(loc, "an agent of kind command needs a `command`: [program, argument, ...]", on_key=True)
    if kind is AgentKind.PROMPT and model.model is None:
        document.report(loc, "an agent of kind prompt needs a `model`: the name its endpoint knows", on_key=True)
    if kind is AgentKind.PROMPT and model.base_url is None and not model.api_key:
        message = 'an agent of kind prompt needs an `api_key` ("${OPENAI_API_KEY}"), or the `base_url` of its endpoint'
        document.report(loc, message, on_key=True)


def start_of(command: str | tuple[str, ...] | None, *, is_shell: bool, loc: Loc, document: Document) -> tuple[str, ...]:
    """Return what is started; report a command that does not fit `shell`."""
    if command is None:
        return ()
    try:
        return argv(command, shell=is_shell)
    except ValueError as error:
        document.report((*loc, "command"), str(error))
        return ()


def shell_sign(command: tuple[str, ...]) -> str | None:
    """Return the first argument that only a shell would understand."""
    return next((part for part in command if part in _SHELL_SIGNS or re.fullmatch(r"\d?>\S+", part)), None)


def folder(cwd: str | None, base_dir: Path) -> Path:
    """Return a command's working folder: `cwd`, seen from the folder of the file."""
    return base_dir if cwd is None else (base_dir / Path(cwd).expanduser()).resolve()
