"""`hermes-cron run`: the daemon, in the foreground."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from cron.cli.logs import EventFormatter, set_up_logging
from cron.cli.main import Options
from cron.cli.setup import Failure, config_of, home_of, told
from cron.current import log_warnings
from cron.home import Beacon, host_zone, remove_beacon, write_beacon
from cron.model import Config
from cron.page.server import LOOPBACK, PageServer, PortTaken, is_loopback, listening
from cron.page.token import keep_token
from cron.wiring import wired
from state.clock import system_now


@click.command("run")
@click.option(
    "--port",
    default=8765,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="The page's port; 0 picks a free one.",
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    help="Where the page listens. Anywhere but on loopback it asks for a token, which is printed at the start.",
)
@click.option("--no-page", is_flag=True, help="Serve no page, only /healthz and what the command line needs.")
@click.pass_obj
def run_command(options: Options, port: int, host: str, no_page: bool) -> None:
    """Run the daemon in the foreground. SIGTERM or Ctrl-C finishes what is being sent, then ends it."""
    config = config_of(options)
    logs = set_up_logging(config.secrets)
    log_warnings(config)
    with told():
        sys.exit(asyncio.run(_live(config, home_of(options), logs, port=port, host=host, has_page=not no_page)))


async def _live(config: Config, home: Path, logs: EventFormatter, *, port: int, host: str, has_page: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    environ, zone = os.environ, host_zone(os.environ)
    async with contextlib.AsyncExitStack() as stack:
        sockets = stack.enter_context(_listening(port, host))
        made = await stack.enter_async_context(wired(config, home=home, environ=environ, host_zone=zone))
        logs.redactor = made.current.redactor
        token = None if is_loopback(host) else _token(home)
        server = await stack.enter_async_context(
            PageServer(made, sockets, has_page=has_page, stop=stop, host=host, token=token)
        )
        write_beacon(home, Beacon(pid=os.getpid(), port=server.port, started_at=system_now().isoformat()))
        stack.callback(remove_beacon, home)
        click.echo(f"hermes-cron runs; the page is on {_address(host, server.port, token)}", err=True)
        return await made.daemon.run(stop)


@contextlib.contextmanager
def _listening(port: int, host: str) -> Iterator[Sequence[socket.socket]]:
    try:
        with listening(port, host) as sockets:
            yield sockets
    except PortTaken as taken:
        raise Failure(str(taken)) from taken


def _token(home: Path) -> str:
    try:
        return keep_token(home)
    except OSError as error:
        raise Failure(f"The page's token cannot be kept in {home} ({error.strerror}).") from error


def _address(host: str, port: int, token: str | None) -> str:
    """Return what to open in a browser; the machine's name where it listens everywhere."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}" + ("" if token is None else f"/?token={token}")
