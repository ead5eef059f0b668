"""The verbs of `cron.control` by name, with JSON in and JSON out: what the command line asks of a living daemon,
and of itself where none is alive."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cron.agents.ports import ComposeFailed
from cron.control import Control, ControlError
from cron.outcomes import Outcome
from delivery.outbox import Verdict
from delivery.platforms.local import LocalError
from state.errors import StateError

Arguments = Mapping[str, Any]
Verb = Callable[[Control, Arguments, str], Awaitable[dict[str, Any]]]


async def do(control: Control, verb: str, arguments: Arguments, by: str) -> dict[str, Any]:
    """Carry out a verb and return its result: {"ok": ...}, or {"error", "code"} with the command line's exit code."""
    known = VERBS.get(verb)
    if known is None:
        return {"error": f"There is no verb {verb!r}.", "code": 2}
    try:
        return {"ok": await known(control, arguments, by)}
    except (ControlError, LocalError) as error:
        return {"error": str(error), "code": 2}
    except ComposeFailed as failed:
        return {"error": failed.reason, "code": 1}
    except StateError as error:
        return {"error": str(error), "code": 1}
    except (KeyError, ValueError, TypeError) as error:
        return {"error": f"The request is not of the form that {verb} takes: {error}", "code": 2}


async def _trigger(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    at = arguments.get("at")
    due = None if at is None else datetime.fromisoformat(at)
    return {"run": await control.trigger(arguments["job"], at=due, to=tuple(arguments.get("to") or ()))}


async def _wait(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    return await control.wait(arguments["run"])


async def _dry_run(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    return {"job": arguments["job"], "text": await control.dry_run(arguments["job"])}


async def _pause(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    until = arguments.get("until")
    await control.pause(arguments["job"], by=by, until=None if until is None else datetime.fromisoformat(until))
    return {"job": arguments["job"], "until": until}


async def _snooze(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    until = await control.snooze(arguments["job"], timedelta(seconds=float(arguments["seconds"])), by=by)
    return {"job": arguments["job"], "until": until.isoformat()}


async def _resume(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    await control.resume(arguments["job"])
    return {"job": arguments["job"]}


async def _cancel(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    await control.cancel(arguments["run"], by=by)
    return {"run": arguments["run"], "outcome": str(Outcome.FAILED)}


async def _resend(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    return {"run": arguments["run"], "deliveries": await control.resend(arguments["run"], arguments.get("target"))}


async def _resolve(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    await control.resolve(arguments["delivery"], Verdict(arguments["verdict"]))
    return {"delivery": arguments["delivery"], "verdict": arguments["verdict"]}


async def _forget(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    await control.forget(arguments["session"])
    return {"session": arguments["session"]}


async def _send(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    return await control.send(arguments["target"], arguments["text"])


async def _ask(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    author = by.removesuffix(" on the command line")
    home = arguments.get("home")
    place = None if home is None else Path(home)
    return {"text": await control.ask(arguments["session"], arguments["text"], author=author, home=place)}


async def _doctor(control: Control, arguments: Arguments, by: str) -> dict[str, Any]:
    return {"findings": await control.doctor()}


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "trigger": _trigger,
        "wait": _wait,
        "dry-run": _dry_run,
        "pause": _pause,
        "snooze": _snooze,
        "resume": _resume,
        "cancel": _cancel,
        "resend": _resend,
        "resolve": _resolve,
        "forget": _forget,
        "send": _send,
        "ask": _ask,
        "doctor": _doctor,
    }
)
