"""`hermes-cron`: reads the options that all commands share, and imports a command only when it is asked for."""

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

_COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        # name: (module of cron.cli, one line for --help)
        "init": ("init", "Write a commented jobs.yaml and the schema for your editor."),
        "check": ("check", "Validate jobs.yaml without contacting anything."),
        "run": ("run", "Run the daemon in the foreground."),
        "list": ("jobs", "List the jobs."),
        "plan": ("jobs", "Show when jobs are due next."),
        "trigger": ("trigger", "Run a job now."),
        "pause": ("verbs", "Skip a job's occurrences until it is resumed."),
        "resume": ("verbs", "End a pause or a snooze."),
        "snooze": ("verbs", "Skip a job's occurrences for a while."),
        "cancel": ("verbs", "End a run that is composing."),
        "resend": ("verbs", "Send a composed brief again after a failed delivery."),
        "resolve": ("verbs", "Settle a delivery that is in doubt."),
        "forget": ("verbs", "Remove a conversation and its keys."),
        "runs": ("runs", "List occurrences and how they ended, newest first."),
        "show": ("runs", "Show one run whole."),
        "sessions": ("sessions", "List the conversations."),
        "transcript": ("sessions", "Show the stored turns of a conversation."),
        "search": ("search", "Find what was said in any conversation."),
        "chat": ("chat", "Talk on the local channel, or in any conversation."),
        "send": ("send", "Say something now, and mirror it."),
        "backup": ("backup", "Copy the database, whole and checked."),
        "restore": ("backup", "Put a backup back."),
        "targets": ("doctor", "List the chats that each account can reach."),
        "doctor": ("doctor", "Look whether everything will work."),
        "schema": ("check", "Print the JSON Schema of jobs.yaml."),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that stand before the command."""

    config: Path | None
    home: Path | None
    database: str | None


class LazyGroup(click.Group):
    """Knows every command's name and line, and imports its module when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which people need them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"cron.cli.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list for --help without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for an unknown one."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "see hermes-cron --help."
            raise click.UsageError(f"There is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


class FilePath(click.Path):
    """A path as the file system spells it, whatever the locale makes of the command line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take back what `main` did to the arguments."""
        spelt = os.fsdecode(os.fspath(value).encode("utf-8", "surrogateescape"))
        return super().convert(spelt, param, ctx)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=FilePath(path_type=Path), help="The jobs.yaml to use [./jobs.yaml, <home>/jobs.yaml].")
@click.option("--home", type=FilePath(path_type=Path), help="Where state lives [$HERMES_CRON_HOME, the user's data].")
@click.option("--database", metavar="URL", help="A PostgreSQL database instead of <home>/state.db.")
@click.version_option(package_name="hermes-cron", prog_name="hermes-cron")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, home: Path | None, database: str | None) -> None:
    """A cron scheduler whose briefs can be answered."""
    if database is not None:
        raise click.UsageError("--database is not supported yet; state lives in <home>/state.db.", ctx)
    ctx.obj = Options(config=config, home=home, database=database)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 it failed, 2 the input is wrong."""
    # A closed stream (`>&-`) is none at all for Python, and nobody here asks first.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Briefs hold letters of every script, whatever the locale says.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    sys.argv[1:] = [os.fsencode(one).decode("utf-8", "surrogateescape") for one in sys.argv[1:]]
    try:
        cli(prog_name="hermes-cron")
    except OSError as error:  # a full disk behind `>`, a home that vanished
        click.echo(f"Error: {error.strerror or error}", err=True)
        sys.exit(1)
