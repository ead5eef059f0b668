"""One task per key, and nothing that came meanwhile is missed."""

import asyncio
from datetime import timedelta

from delivery.crew import Crew
from delivery.testing import START


async def test_a_key_that_is_started_while_it_is_worked_on_is_worked_on_again():
    gate, worked = asyncio.Event(), []

    async def work(key):
        worked.append(key)
        await gate.wait()

    crew = Crew(work, lambda: None)
    crew.start("a")
    await asyncio.sleep(0)
    crew.start("a")
    crew.start("a")
    gate.set()
    await crew.finish()
    assert worked == ["a", "a"]


async def test_keys_are_worked_on_side_by_side():
    together: list[str] = []
    both = asyncio.Event()

    async def work(key):
        together.append(key)
        if len(together) == 2:
            both.set()
        await both.wait()

    crew = Crew(work, lambda: None)
    for key in ("a", "b"):
        crew.start(key)
    await crew.finish()
    assert together == ["a", "b"]


async def test_a_key_is_worked_on_again_when_it_said_so_and_not_before():
    dues, worked = [START + timedelta(seconds=5), None], []

    async def work(key):
        worked.append(key)
        return dues.pop(0)

    crew = Crew(work, lambda: None)
    crew.start("a")
    await crew.finish()
    assert crew.next_due() == START + timedelta(seconds=5)
    crew.start_due(START + timedelta(seconds=4))
    assert worked == ["a"]
    crew.start_due(START + timedelta(seconds=5))
    await crew.finish()
    assert (worked, crew.next_due()) == (["a", "a"], None)
