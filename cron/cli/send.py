"""`send`: say something now, and mirror it into the conversation of that place."""

import sys

import click

from cron.cli.client import act
from cron.cli.main import Options
from cron.cli.output import print_json


@click.command("send")
@click.argument("target")
@click.argument("text")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def send_command(options: Options, target: str, text: str, as_json: bool) -> None:
    """Say TEXT at TARGET now; `-` reads the text from stdin."""
    said = sys.stdin.read() if text == "-" else text
    delivery = act(options, "send", target=target, text=said)
    if as_json:
        print_json(delivery)
    else:
        reason = f": {delivery['error']}" if delivery["error"] else "."
        click.echo(f"{delivery['target']} {delivery['state']}{reason}")
    sys.exit(0 if delivery["state"] == "sent" else 1)
