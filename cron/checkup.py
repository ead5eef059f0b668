"""`doctor`: will it work? Asks every account, looks for every target, and says what it found, one line each."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from cron.model import Config, ZoneSource
from cron.schedule import ScheduleError, parse_schedule, zone_named
from delivery.ports import AccountDown, Platform, TargetUnresolved
from delivery.targets import TargetError
from state.database import Database

SLACK_SCOPES = frozenset(
    {
        *("chat:write", "im:write", "app_mentions:read", "users:read"),
        *("channels:history", "groups:history", "im:history", "mpim:history"),
        *("channels:read", "groups:read", "im:read", "mpim:read"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `ok` None: it works, but look at the detail."""

    what: str
    ok: bool | None
    detail: str


async def check_up(
    config: Config, platforms: Mapping[str, Platform], db: Database, *, mistakes: tuple[str, ...], at: datetime
) -> list[dict[str, Any]]:
    """Look at the file, the zone, the database, every account and every target. Posts nothing."""
    findings = [*_file(config, mistakes), _zone(config), _database(db), *_schedules(config, at)]
    for name in config.account_kinds:
        findings.extend(await _account(name, platforms.get(name)))
    targets = {text for job in config.jobs.values() if job.enabled for text in job.deliver}
    targets |= {job.on_failure for job in config.jobs.values() if job.enabled and job.on_failure}
    for text in sorted({*targets, *config.targets}):
        findings.append(await _target(text, config, platforms))
    return [asdict(finding) for finding in findings]


def _file(config: Config, mistakes: tuple[str, ...]) -> list[Finding]:
    if mistakes:
        return [Finding(what=str(config.path.name), ok=False, detail=mistake) for mistake in mistakes]
    found = [Finding(what=str(config.path.name), ok=None, detail=warning) for warning in config.warnings]
    return found or [Finding(what=str(config.path.name), ok=True, detail=f"{len(config.jobs)} jobs")]


def _zone(config: Config) -> Finding:
    if config.timezone_source is ZoneSource.FILE:
        return Finding(what="time zone", ok=True, detail=config.timezone)
    detail = f"{config.timezone}, from this host; write `timezone:` into jobs.yaml if that is not meant"
    return Finding(what="time zone", ok=None, detail=detail)


def _database(db: Database) -> Finding:
    trouble = db.healthy
    return Finding(what="database", ok=trouble is None, detail=trouble or str(db.path))


def _schedules(config: Config, at: datetime) -> list[Finding]:
    """Name the jobs that will never run again."""
    ended = []
    for job in config.jobs.values():
        try:
            schedule = parse_schedule(list(job.schedules), zone=zone_named(job.timezone), anchor=at)
        except ScheduleError as error:
            ended.append(Finding(what=f"job {job.name}", ok=False, detail=str(error)))
            continue
        if job.enabled and schedule.next_after(at.astimezone(UTC)) is None:
            ended.append(Finding(what=f"job {job.name}", ok=None, detail="it is never due again"))
    return ended


async def _account(name: str, platform: Platform | None) -> list[Finding]:
    what = f"account {name}"
    if platform is None:
        return [Finding(what=what, ok=False, detail="it is not running; restart the daemon")]
    try:
        workspace = await platform.connect()
    except AccountDown as down:
        return [Finding(what=what, ok=False, detail=down.reason)]
    return [Finding(what=what, ok=True, detail=f"logged in, workspace {workspace}"), *_details(name, platform)]


def _details(name: str, platform: Platform) -> list[Finding]:
    """What only one platform knows of itself: Slack its scopes, Telegram its privacy mode and another poller."""
    found = []
    scopes = getattr(platform, "scopes", None)
    if scopes is not None and (missing := sorted(SLACK_SCOPES - scopes)):
        detail = f"the bot lacks {', '.join(missing)}; add them and install the app again"
        found.append(Finding(what=f"account {name}", ok=False, detail=detail))
    me = getattr(platform, "me", None)
    if me is not None and not me.reads_all:
        detail = "privacy mode is on: in groups it hears replies to it, mentions and commands, not plain messages"
        found.append(Finding(what=f"account {name}", ok=None, detail=detail))
    if trouble := getattr(platform, "trouble", None):
        found.append(Finding(what=f"account {name}", ok=False, detail=trouble))
    return found


async def _target(text: str, config: Config, platforms: Mapping[str, Platform]) -> Finding:
    what = f"target {text}"
    try:
        target = config.target(text).target
    except TargetError as error:
        return Finding(what=what, ok=False, detail=str(error))
    platform = platforms.get(target.account)
    if platform is None:
        return Finding(what=what, ok=False, detail=f"there is no account {target.account!r}")
    try:
        address = await platform.resolve(target)
    except (AccountDown, TargetUnresolved) as error:
        return Finding(what=what, ok=False, detail=error.reason)
    place = address.chat if address.topic is None else f"{address.chat}, topic {address.topic}"
    return Finding(what=what, ok=True, detail=f"{address.chat_kind} {place}")
