"""`hermes-cron run`: the daemon, in the foreground."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from cron.cli.logs import set_up_logging
from cron.cli.main import Options
from cron.cli.setup import Failure, config_of, home_of, told
from cron.home import Beacon, host_zone, remove_beacon, write_beacon
from cron.model import Config
from cron.page.server import PageServer, PortTaken, listening_socket
from cron.wiring import wired
from state.clock import system_now


@click.command("run")
@click.option("--port", default=8765, show_default=True, help="The page's port on loopback; 0 picks a free one.")
@click.option("--no-page", is_flag=True, help="Serve no page, only /healthz and what the command line needs.")
@click.pass_obj
def run_command(options: Options, port: int, no_page: bool) -> None:
    """Run the daemon in the foreground. SIGTERM or Ctrl-C finishes what is being sent, then ends it."""
    config = config_of(options)
    set_up_logging(config.secrets)
    with told():
        sys.exit(asyncio.run(_live(config, home_of(options), port=port, has_page=not no_page)))


async def _live(config: Config, home: Path, *, port: int, has_page: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        sock = listening_socket(port)
    except PortTaken as taken:
        raise Failure(str(taken)) from taken
    environ, zone = os.environ, host_zone(os.environ)
    with sock:
        async with (
            wired(config, home=home, environ=environ, host_zone=zone) as made,
            PageServer(made, sock, has_page=has_page, stop=stop) as server,
        ):
            write_beacon(home, Beacon(pid=os.getpid(), port=server.port, started_at=system_now().isoformat()))
            try:
                click.echo(f"hermes-cron runs; the page is on http://127.0.0.1:{server.port}", err=True)
                return await made.daemon.run(stop)
            finally:
                remove_beacon(home)
