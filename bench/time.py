"""Time under load: how late runs start, how long 10,000 jobs take to load, what planning and catching up cost.

    python bench/time.py [--jobs 1000] [--many 10000] [--json]

Start lateness is measured twice: until the run's row says that it started, and until its agent was called, which is
after that row was durable. Plain APScheduler with trivial coroutines runs in the same process, one after the other.
The bars: p99 below a second, the event loop never blocked for more than 50 ms, 10,000 jobs ready in 5 s and 300 MB.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy import func, select

from cron.agents.ports import BriefRequest, Composed, Started
from cron.agents.text import TextAgent
from cron.jobs import load_config
from cron.model import CatchUp
from cron.schedule import parse_schedule
from cron.span import Policy, plan_span
from cron.wiring import wired
from state.clock import SYSTEM, Clock
from state.schema import occurrences, runs

LEAD = 6.0  # seconds between the start and the second in which everything is due
FORMS = (
    "{minute} {hour} * * 1-5",
    "{minute}-59/15 * * * *",
    "every {count}m",
    "weekdays at {hour}:{minute:02}",
    "{minute} 2 * * *",
    "{minute} {hour} 1 * *",
    "every {count}s",
    "{minute} * * * *",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=("late", "load", "plan", "week"), help="one part, in this process")
    chosen = parser.parse_args()
    if chosen.only is not None:
        print(json.dumps(part(chosen.only, chosen)))
        return
    found: dict[str, Any] = {}
    for name in ("late", "load", "plan", "week"):  # each in its own process: memory is the process's
        command = [sys.executable, __file__, "--only", name, "--jobs", str(chosen.jobs), "--many", str(chosen.many)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        found[name] = json.loads(done.stdout.splitlines()[-1])
    if chosen.json:
        print(json.dumps(found, indent=2))
    else:
        tell(found, chosen)


def part(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    if name == "late":
        return {"hermes_cron": asyncio.run(same_second(chosen.jobs)), "apscheduler": asyncio.run(plain(chosen.jobs))}
    if name == "load":
        return asyncio.run(load(chosen.many))
    if name == "plan":
        return plan()
    return asyncio.run(week(chosen.jobs))


def tell(found: dict[str, Any], chosen: argparse.Namespace) -> None:
    ours, plain = found["late"]["hermes_cron"], found["late"]["apscheduler"]
    print(f"(load of the machine now: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors)")
    print(f"{chosen.jobs:,} jobs due in the same second        p50        p99    longest block of the event loop")
    row = "  {:38} {:7.0f} ms {:7.0f} ms {:10.0f} ms"
    print(row.format("hermes-cron, until the row says so", *(ours[k] for k in ("p50_ms", "p99_ms", "block_ms"))))
    print(
        row.format(
            "hermes-cron, until the agent is called", *(ours[k] for k in ("agent_p50_ms", "agent_p99_ms", "block_ms"))
        )
    )
    print(row.format("APScheduler, trivial coroutines", *(plain[k] for k in ("p50_ms", "p99_ms", "block_ms"))))
    print(f"  all {chosen.jobs:,} briefs delivered and seeded after {ours['delivered_s']:.1f} s")
    many = found["load"]
    print(
        f"{chosen.many:,} jobs from YAML: read in {many['read_s']:.2f} s, ready in {many['ready_s']:.2f} s, "
        f"{many['memory_mb']:.0f} MB"
    )
    print("100,000 occurrences planned:")
    for text, micros in found["plan"].items():
        print(f"  {text:30} {micros:8.1f} us each")
    week = found["week"]
    print(
        f"a week of downtime, {chosen.jobs:,} jobs: {week['runs']:,} runs and {week['skipped']:,} skipped occurrences "
        f"in {week['rows']:,} rows; planned after {week['planned_s']:.1f} s, longest block {week['block_ms']:.0f} ms"
    )


# --- the same second ----------------------------------------------------------------------------------


class Probe:
    """Looks how long the event loop did not come round."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest = max(self.longest, now - before - 0.001)
            before = now


def jobs_file(folder: Path, schedules: list[str], more: str = "") -> Path:
    path = folder / "jobs.yaml"
    lines = [f"  job-{n:05}: {{schedule: '{text}', text: hello{more}}}\n" for n, text in enumerate(schedules)]
    path.write_text("timezone: Europe/Berlin\njobs:\n" + "".join(lines), encoding="utf-8")
    return path


async def same_second(count: int) -> dict[str, Any]:
    called: dict[str, datetime] = {}
    compose = TextAgent.compose

    async def timed(self: TextAgent, request: BriefRequest, started: Started) -> Composed:
        called[request.run_id] = datetime.now(UTC)
        return await compose(self, request, started)

    TextAgent.compose = timed  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        due = (datetime.now(UTC) + timedelta(seconds=LEAD + count / 500)).replace(microsecond=0)
        path = jobs_file(Path(name), [f"{due:%Y-%m-%dT%H:%M:%SZ}"] * count)
        config = load_config(path, environ={}, host_zone="UTC")
        async with wired(config, home=Path(name) / "home", environ={}, host_zone="UTC") as made:
            stop = asyncio.Event()
            daemon = asyncio.create_task(made.daemon.run(stop))
            await made.daemon.ready.wait()
            await asyncio.sleep((due - datetime.now(UTC)).total_seconds() - 0.5)
            probe = Probe()
            probing = asyncio.create_task(probe.run())
            open_runs = select(func.count()).select_from(runs).where(runs.c.state == "closed")
            while await made.db.read(lambda conn: conn.execute(open_runs).scalar_one()) < count:
                await asyncio.sleep(0.2)
            delivered = datetime.now(UTC) - due
            probing.cancel()
            begun = await made.db.read(
                lambda conn: {row.id: row.started_at for row in conn.execute(select(runs.c.id, runs.c.started_at))}
            )
            stop.set()
            await daemon
    late = [(at - due).total_seconds() for at in begun.values()]
    agent = [(called[run] - due).total_seconds() for run in begun]
    return {
        **quantiles(late),
        **{f"agent_{key}": value for key, value in quantiles(agent).items()},
        "block_ms": probe.longest * 1000,
        "delivered_s": delivered.total_seconds(),
    }


async def plain(count: int) -> dict[str, Any]:
    late: list[float] = []
    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    due = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)

    async def job() -> None:
        late.append((datetime.now(UTC) - due).total_seconds())

    for _ in range(count):
        scheduler.add_job(job, "date", run_date=due)
    scheduler.start()
    await asyncio.sleep((due - datetime.now(UTC)).total_seconds() - 0.5)
    probe = Probe()
    probing = asyncio.create_task(probe.run())
    while len(late) < count:
        await asyncio.sleep(0.05)
    probing.cancel()
    scheduler.shutdown(wait=False)
    return {**quantiles(late), "block_ms": probe.longest * 1000}


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"p50_ms": ordered[len(ordered) // 2] * 1000, "p99_ms": ordered[int(len(ordered) * 0.99)] * 1000}


# --- many jobs, and long spans ------------------------------------------------------------------------


def a_schedule(n: int) -> str:
    """Return one of many different schedules."""
    form = FORMS[n % len(FORMS)]
    return form.format(minute=n // len(FORMS) % 60, hour=n // 480 % 24, count=60 + n)


async def load(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        path = jobs_file(Path(name), [a_schedule(n) for n in range(count)], ", jitter: 1m")
        began = time.perf_counter()
        config = load_config(path, environ={}, host_zone="UTC", now=datetime.now(UTC))
        read = time.perf_counter() - began
        async with wired(config, home=Path(name) / "home", environ={}, host_zone="UTC") as made:
            stop = asyncio.Event()
            daemon = asyncio.create_task(made.daemon.run(stop))
            await made.daemon.ready.wait()
            ready = time.perf_counter() - began
            planner = made.control.planner
            while len(planner._engine.armed) < count:
                await asyncio.sleep(0.05)
            armed = time.perf_counter() - began
            await asyncio.sleep(1)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            stop.set()
            await daemon
    return {"read_s": read, "ready_s": ready, "armed_s": armed, "memory_mb": memory}


def plan() -> dict[str, float]:
    """Cover spans of 200 occurrences until there were 100,000, schedule by schedule; microseconds for each."""
    found = {}
    zone, base = ZoneInfo("Europe/Berlin"), datetime(2026, 1, 5, tzinfo=UTC)
    for text in ("every 90s", "*/15 * * * *", "0 9 * * 1-5", "every monday, thursday at 14:30"):
        schedule = parse_schedule(text, zone=zone, anchor=base)
        spans, cursor, count = [], base, 0
        while count < 100_000:
            instants = schedule.between(cursor, cursor + timedelta(days=3660), 200)
            spans.append((cursor, instants[-1]))
            cursor = base if instants[-1].year > 2035 else instants[-1]
            count += len(instants)
        began = time.perf_counter()
        for since, until in spans:
            plan_span(
                schedule,
                Policy(late=timedelta(hours=1), catch_up=CatchUp.LATEST),
                cursor=since,
                now=until,
                missed_until=until,
            )
        found[text] = (time.perf_counter() - began) / count * 1e6
    return found


async def week(count: int) -> dict[str, Any]:
    """A daemon is down for a week: how long until each job's rows are written and its one run is claimed."""
    with tempfile.TemporaryDirectory() as name:
        path = jobs_file(Path(name), [a_schedule(n) for n in range(count)])
        shift = timedelta(days=-7)

        def past() -> datetime:
            return datetime.now(UTC) + shift

        config = load_config(path, environ={}, host_zone="UTC")
        home = Path(name) / "home"
        clock = Clock(now=past, monotonic=SYSTEM.monotonic, sleep=SYSTEM.sleep)
        async with wired(config, home=home, environ={}, host_zone="UTC", clock=clock) as made:
            stop = asyncio.Event()
            daemon = asyncio.create_task(made.daemon.run(stop))
            await made.daemon.ready.wait()
            stop.set()
            await daemon
        async with wired(config, home=home, environ={}, host_zone="UTC") as made:
            stop = asyncio.Event()
            probe = Probe()
            probing = asyncio.create_task(probe.run())
            began = time.perf_counter()
            daemon = asyncio.create_task(made.daemon.run(stop))
            await made.daemon.ready.wait()
            planner = made.control.planner
            await planner.pass_over(list(planner.planned))
            planned = time.perf_counter() - began
            probing.cancel()
            kept = await made.db.read(
                lambda conn: conn.execute(
                    select(
                        func.count(),
                        func.count().filter(occurrences.c.outcome.is_(None) | (occurrences.c.outcome == "ran")),
                        func.sum(occurrences.c.count).filter(occurrences.c.outcome == "coalesced"),
                    ).select_from(occurrences)
                ).one()
            )
            stop.set()
            await daemon
    return {
        "planned_s": planned,
        "rows": kept[0],
        "runs": kept[1],
        "skipped": kept[2] or 0,
        "block_ms": probe.longest * 1000,
    }


if __name__ == "__main__":
    main()
