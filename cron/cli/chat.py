"""`chat`: a terminal on the page's local channel, or in any conversation."""

import json
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import click

from cron.cli.client import act, whoami
from cron.cli.main import FilePath, Options
from cron.cli.output import shown
from cron.cli.setup import Failure, InputError, home_of
from cron.home import Beacon, read_beacon
from state.lock import HomeLock

LOOK_EVERY = 0.5  # seconds


@click.command("chat")
@click.argument("session", required=False)
@click.option("--channel", default="general", show_default=True, help="The local channel, without '#'.")
@click.option("--thread", help="The message id of a thread to talk in.")
@click.option("--of", "of_home", type=FilePath(path_type=Path), help="The home that SESSION is in, if it is another.")
@click.pass_obj
def chat_command(options: Options, session: str | None, channel: str, thread: str | None, of_home: Path | None) -> None:
    """Talk on a local channel, or (with SESSION) to the agent in any conversation. End it with Ctrl-D.

    With SESSION both turns are kept in that conversation, and nothing is posted into its chat.
    """
    if session is not None:
        _talk_in(options, session, of_home)
        return
    home = home_of(options)
    beacon = read_beacon(home)
    if HomeLock.is_alive(home) is None or beacon is None:
        raise Failure("No daemon runs in this home; start one with `hermes-cron run`.")
    _Channel(beacon, channel.removeprefix("#"), thread).talk()


def _talk_in(options: Options, session: str, of_home: Path | None) -> None:
    other = {} if of_home is None else {"home": str(of_home.expanduser().absolute())}
    for line in _lines():
        try:
            click.echo(act(options, "ask", session=session, text=line, **other)["text"])
        except InputError as error:
            if "no session" in error.message:
                raise
            click.echo(error.message, err=True)


def _lines() -> Any:
    """Yield what is typed, without empty lines, until the input ends."""
    is_terminal = sys.stdin.isatty()
    while True:
        if is_terminal:
            click.echo("> ", nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


class _Channel:
    def __init__(self, beacon: Beacon, channel: str, thread: str | None) -> None:
        self._url = f"http://127.0.0.1:{beacon.port}/api/local/messages"
        self._channel = channel
        self._thread = thread
        self._author = whoami().split()[0]
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._seen: str | None = None
        self._stop = threading.Event()
        self._answered = threading.Event()

    def talk(self) -> None:
        self._show(self._new())
        reader = threading.Thread(target=self._follow, daemon=True)
        reader.start()
        for line in _lines():
            self._answered.clear()
            self._post(line)
        if not sys.stdin.isatty():
            self._answered.wait(timeout=60)  # a script pipes its question in, and wants the answer
        self._stop.set()
        reader.join(timeout=5)

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            self._show(self._new())

    def _show(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            self._seen = message["id"]
            where = f" (in thread {message['thread']})" if message["thread"] else ""
            click.secho(shown(f"{message['author']}{where}"), bold=True)
            click.echo(shown(f"{message['text']}\n"))
            if message["author"] != self._author and message["job"] is None:
                self._answered.set()

    def _new(self) -> list[dict[str, Any]]:
        query = {"channel": self._channel} | ({"after": self._seen} if self._seen else {})
        messages: list[dict[str, Any]] = self._call(f"{self._url}?{urllib.parse.urlencode(query)}", None)
        return messages

    def _post(self, text: str) -> None:
        body = {"channel": self._channel, "text": text, "author": self._author, "thread": self._thread}
        self._call(self._url, json.dumps(body).encode())

    def _call(self, url: str, body: bytes | None) -> Any:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise InputError(_reason(error)) from error
        except (OSError, ValueError) as error:
            raise Failure(f"The daemon did not answer: {error}.") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError):
        return f"The daemon refused it ({error.code})."
