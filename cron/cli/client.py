"""Ask the daemon that lives in this home, or do it here where none does."""

import asyncio
import contextlib
import getpass
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from cron.cli.main import Options
from cron.cli.setup import Failure, InputError, config_of, home_of, load, told
from cron.home import host_zone, read_beacon, state_path
from cron.jobs import ConfigError
from cron.page.token import read_token
from cron.redact import Redactor
from state.errors import NoDatabaseError
from state.lock import HomeLock
from state.readonly import open_readonly

ALIVE_WITHIN = 20.0  # seconds
ANSWER_WITHIN = 60.0
_LONG = frozenset({"wait", "ask", "send", "dry-run", "doctor"})


def act(options: Options, verb: str, **arguments: Any) -> Any:
    """Carry out a verb, in the living daemon or inline; return its result. Raises InputError, Failure."""
    return _ask_or_do(options, [(verb, arguments)])


def trigger_and_wait(options: Options, **arguments: Any) -> Any:
    """Start a run that nobody scheduled and return its row when it has ended."""
    home = home_of(options)
    if HomeLock.is_alive(home) is None:
        return _inline(options, home, [("trigger", arguments), ("wait", {})])
    run = _ask(home, "trigger", arguments)["run"]
    return _ask(home, "wait", {"run": run})


def read(options: Options, fn: Callable[[Connection], Any], *, empty: Any) -> Any:
    """Read from the home's database without touching it; `empty` before there is one."""
    with told():
        try:
            with open_readonly(state_path(home_of(options))) as db:
                return db.read_sync(fn)
        except NoDatabaseError:
            return empty


def redacted(options: Options, value: Any) -> Any:
    """Take secrets out of what people said: briefs and answers have none, but anybody may type one."""
    secrets: frozenset[str] = frozenset()
    with contextlib.suppress(ConfigError, InputError):  # a file that is refused must not hide what happened
        secrets = load(options).secrets
    return Redactor(secrets).redact_value(value)


def whoami() -> str:
    """Return who gives a command, for the record."""
    try:
        return f"{getpass.getuser()} on the command line"
    except (KeyError, OSError):
        return f"user {os.getuid()} on the command line"


def _ask_or_do(options: Options, verbs: list[tuple[str, dict[str, Any]]]) -> Any:
    home = home_of(options)
    if HomeLock.is_alive(home) is None:
        return _inline(options, home, verbs)
    result = None
    for verb, arguments in verbs:
        result = _ask(home, verb, arguments)
    return result


def _ask(home: Path, verb: str, arguments: dict[str, Any]) -> Any:
    beacon = read_beacon(home)
    if beacon is None:
        raise Failure("Another process holds this home but takes no requests yet; try again in a moment.")
    token = read_token(home)  # there where the page listens for others, too
    request = urllib.request.Request(
        f"http://127.0.0.1:{beacon.port}/api/do/{verb}",
        data=json.dumps({"arguments": arguments, "by": whoami()}).encode(),
        headers={"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
        method="POST",
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has no business on loopback
    who = f"The daemon (pid {beacon.pid}, port {beacon.port})"
    try:
        # Some verbs last as long as an agent does; that the daemon lives is known at once.
        with opener.open(f"http://127.0.0.1:{beacon.port}/healthz", timeout=ALIVE_WITHIN):
            pass
        with opener.open(request, timeout=None if verb in _LONG else ANSWER_WITHIN) as response:
            return _unwrap(json.load(response))
    except urllib.error.HTTPError as error:
        raise Failure(f"{who} is not well: {error.reason} ({error.code}); its log says more.") from error
    except TimeoutError as error:
        raise Failure(f"{who} does not answer; is it stopped, or overloaded?") from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Failure(f"{who} did not answer: {error}.") from error


def _inline(options: Options, home: Path, verbs: list[tuple[str, dict[str, Any]]]) -> Any:
    from cron.cli.logs import set_up_logging
    from cron.verbs import do
    from cron.wiring import wired

    config = config_of(options)
    set_up_logging(config.secrets, level=30)

    async def live() -> Any:
        async with wired(config, home=home, environ=os.environ, host_zone=host_zone(os.environ)) as made:

            async def errand() -> Any:
                result: Any = {}
                for verb, arguments in verbs:
                    given = arguments | ({"run": result["run"]} if verb == "wait" else {})
                    result = _unwrap(await do(made.control, verb, given, whoami()))
                return result

            return await made.daemon.run_once(errand)

    with told():
        return asyncio.run(live())


def _unwrap(result: dict[str, Any]) -> Any:
    if "error" not in result:
        return result["ok"]
    if result.get("code") == 2:
        raise InputError(result["error"])
    raise Failure(result["error"])
