"""Puts the concrete parts together: the one file that knows all of them. Only the entry points import it.

Everything that is opened lies on one exit stack; the lock of the home is the first on it, so it is the last to go.
"""

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

from cron import ledger
from cron.alerts import Alerts
from cron.answering import Agents, JobAnswerer
from cron.commands import ChatCommands
from cron.control import Control
from cron.current import CurrentConfig
from cron.daemon import Daemon, Parts
from cron.elsewhere import Conversations
from cron.home import state_path
from cron.model import AccountKind, AccountSpec, Config
from cron.planner import Planner
from cron.platforms import PlatformSet
from cron.posting import Posting
from cron.rulebook import JobRulebook
from cron.runner import Runner
from cron.watching import DeliveryWatch
from delivery.accounts import AccountKeeper
from delivery.chats import stored_workspaces
from delivery.directory import Directory, DirectoryKeeper
from delivery.dispatcher import Dispatcher
from delivery.platforms.local import LocalPlatform
from delivery.ports import Platform
from delivery.settling import confirm_part
from delivery.targets import LOCAL
from seeding.inbox import Inbox
from seeding.outgoing import Replies
from seeding.place import Placer
from seeding.responder import Responder
from seeding.router import Router
from seeding.seeder import Seeder
from state.clock import SYSTEM, Clock, system_monotonic, system_now, system_sleep
from state.database import Database
from state.lock import HomeLock
from state.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """A daemon, and what its page shows."""

    daemon: Daemon
    control: Control
    conversations: Conversations
    db: Database
    local: LocalPlatform
    current: CurrentConfig


@asynccontextmanager
async def wired(
    config: Config, *, home: Path, environ: Mapping[str, str], host_zone: str | None, clock: Clock = SYSTEM
) -> AsyncIterator[Wired]:
    """Open a home and wire everything on it. Raises HomeLockedError, and what opening the database raises."""
    async with AsyncExitStack() as stack:
        stack.enter_context(HomeLock.acquire(home, pid=os.getpid()))
        registry = Registry()
        lease = await stack.enter_async_context(await registry.acquire_async(state_path(home)))
        incarnation = f"inc_{uuid4().hex[:12]}"
        began = clock.now()
        await lease.db.write(
            lambda conn: ledger.begin_incarnation(conn, incarnation=incarnation, pid=os.getpid(), at=began)
        )
        workspaces = await lease.db.read(stored_workspaces)
        made = _wire(
            registry,
            lease.db,
            config,
            workspaces,
            incarnation=incarnation,
            environ=environ,
            host_zone=host_zone,
            clock=clock,
        )
        stack.push_async_callback(made.conversations.close_all)
        yield made
        ended = clock.now()
        if lease.db.lost is None:
            await lease.db.write(lambda conn: ledger.end_incarnation(conn, incarnation, ended))


def _wire(
    registry: Registry,
    db: Database,
    config: Config,
    workspaces: Mapping[str, str],
    *,
    incarnation: str,
    environ: Mapping[str, str],
    host_zone: str | None,
    clock: Clock,
) -> Wired:
    now, sleep, monotonic = clock.now, clock.sleep, clock.monotonic
    current = CurrentConfig(config, environ=environ, host_zone=host_zone, now=now)
    local = LocalPlatform(db, now, sleep)
    directories = {LOCAL: Directory(db=db, account=LOCAL, now=now)}
    platforms = PlatformSet(
        local, lambda spec: _make_platform(spec, workspaces.get(spec.name), db, directories, seeder, daemon)
    )
    rulebook = JobRulebook(config=current, platforms=platforms.now)
    seeder = Seeder(rulebook)
    watcher = DeliveryWatch(db)
    daemon = Daemon(now=now, sleep=sleep)
    platforms.take_over(config)
    dispatcher = Dispatcher(
        db=db,
        platforms=platforms.live,
        settlement=seeder,
        now=now,
        sleep=sleep,
        monotonic=monotonic,
        on_settled=daemon.delivered,
        on_refused=daemon.login_refused,
    )
    agents = Agents(environ=environ, sleep=sleep, redact=lambda text: current.redactor().redact(text))
    posting = Posting(platforms=platforms.now, config=current)
    alerts = Alerts(
        db=db, posting=posting, dispatcher=dispatcher, redactor=current.redactor, stopped=daemon.job_stopped
    )
    runner = Runner(
        db=db,
        agent=agents,
        posting=posting,
        dispatcher=dispatcher,
        alerts=alerts,
        redactor=current.redactor,
        now=now,
        sleep=sleep,
        max_running=config.max_running,
        missed_running=config.catch_up_running,
    )
    planner = Planner(
        db=db, runner=runner, alerts=alerts, incarnation=incarnation, now=now, monotonic=monotonic, sleep=sleep
    )
    answerer = JobAnswerer(agents=agents, config=current, redactor=current.redactor)
    conversations = Conversations(registry=registry, own=db, answerer=answerer, now=now)
    control = Control(
        db=db,
        config=current,
        config_mistakes=lambda: current.mistakes,
        platforms=platforms.now,
        planner=planner,
        runner=runner,
        posting=posting,
        dispatcher=dispatcher,
        redactor=current.redactor,
        settlement=seeder,
        watcher=watcher,
        conversations=conversations,
        now=now,
    )
    replies = Replies(platforms.live, woken=dispatcher.wake)
    responder = Responder(
        db,
        answerer=answerer,
        outbox=replies,
        settlement=seeder,
        platforms=platforms.live,
        working=dispatcher.working,
        rules=rulebook,
        now=now,
        sleep=sleep,
    )
    router = Router(
        db,
        placer=Placer(seeder, partial(confirm_part, settlement=seeder)),
        rules=rulebook,
        commands=ChatCommands(control=control, config=current),
        outbox=replies,
        routed=responder.wake,
        now=now,
        sleep=sleep,
        monotonic=monotonic,
    )
    inbox = Inbox(db, rulebook, now=now, heard=router.wake)
    keeper = AccountKeeper(
        db=db,
        platforms=platforms.live,
        hear=inbox.hear,
        now=now,
        sleep=sleep,
        monotonic=monotonic,
        changed=daemon.account_changed,
        before_listening=daemon.before_listening,
        jitter=_jitter,
    )
    daemon.join(
        Parts(
            db=db,
            incarnation=incarnation,
            current=current,
            platforms=platforms,
            planner=planner,
            runner=runner,
            dispatcher=dispatcher,
            keeper=keeper,
            directory=DirectoryKeeper(db=db, platforms=platforms.live, directories=directories, now=now, sleep=sleep),
            inbox=inbox,
            router=router,
            responder=responder,
            seeder=seeder,
            rulebook=rulebook,
            agents=agents,
            watcher=watcher,
            alerts=alerts,
        )
    )
    return Wired(daemon=daemon, control=control, conversations=conversations, db=db, local=local, current=current)


def _make_platform(
    spec: AccountSpec,
    workspace: str | None,
    db: Database,
    directories: dict[str, Directory],
    seeder: Seeder,
    daemon: Daemon,
) -> Platform:
    """Make the platform of one account; its SDK is imported only if there is such an account."""
    directory = directories[spec.name] = Directory(db=db, account=spec.name, now=system_now)
    if spec.kind is AccountKind.SLACK:
        from delivery.platforms.slack import SlackPlatform

        return SlackPlatform(
            account=spec.name,
            bot_token=spec.bot_token or "",
            app_token=spec.app_token,
            base_url=spec.base_url,
            workspace=workspace,
            directory=directory,
            now=system_now,
            monotonic=system_monotonic,
            sleep=system_sleep,
            on_gap=daemon.gap,
            on_chat_moved=daemon.chat_moved,
        )
    from delivery.platforms.telegram import TelegramPlatform
    from delivery.platforms.telegram_book import StoredChats

    return TelegramPlatform(
        account=spec.name,
        token=spec.token or "",
        base_url=spec.base_url,
        workspace=workspace,
        directory=StoredChats(
            db=db,
            account=spec.name,
            settlement=seeder,
            now=system_now,
            changed=daemon.delivered,
            followed=daemon.chat_followed,
        ),
        now=system_now,
        monotonic=system_monotonic,
        sleep=system_sleep,
    )


def _jitter(wait: timedelta) -> timedelta:
    """Spread the waits of many accounts by a quarter."""
    return wait * random.uniform(0.75, 1.25)
