"""The clock that tests move, and the platform that they script."""

import asyncio

from delivery.model import OutgoingPart, PartKind, Rejected, Sent
from delivery.testing import START, ManualClock, ScriptedPlatform


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_sleepers_wake_in_the_order_of_their_time_and_see_it():
    clock, woke = ManualClock(), []

    async def sleeper(name, *naps):
        for nap in naps:
            await clock.sleep(nap)
            woke.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper("a", 3, 3)), asyncio.create_task(sleeper("b", 2, 100))]
    await clock.advance(7, turns)
    assert woke == [("b", 2), ("a", 3), ("a", 6)]
    assert (clock.now() - START).total_seconds() == 7
    for task in tasks:
        task.cancel()


async def test_a_sleeper_that_was_cancelled_holds_nobody_up():
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(1))
    await turns()
    task.cancel()
    await clock.advance(2, turns)
    assert (task.cancelled(), clock.monotonic()) == (True, 2)


async def test_a_scripted_platform_answers_in_order_and_then_takes_everything():
    from delivery.model import Address, ChatKind, DeliveryId

    platform = ScriptedPlatform(now=ManualClock().now)
    part = OutgoingPart(
        delivery_id=DeliveryId("d"),
        n=1,
        kind=PartKind.TEXT,
        address=Address(account="slack", workspace="T1", chat="C1", chat_kind=ChatKind.CHANNEL),
        payload={"text": "x"},
        marker="m",
        intent_at=START,
    )
    platform.sends.append(Rejected(reason="no"))
    first, second = await platform.send(part), await platform.send(part)
    assert first == Rejected(reason="no")
    assert isinstance(second, Sent)
    assert second.receipt.address.message == "1"
    assert platform.said() == ["x", "x"]


async def test_after_a_leap_every_sleeper_that_is_due_wakes_late():
    clock, woke = ManualClock(), []

    async def sleeper(nap):
        await clock.sleep(nap)
        woke.append((nap, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper(nap)) for nap in (1, 5, 60)]
    await turns()
    clock.jump(10)
    await turns()
    assert woke == [(1, 10), (5, 10)]
    tasks[2].cancel()
