"""Which offsets the getUpdates loop names, and so what it confirms."""

from collections.abc import Awaitable, Callable

import pytest

from delivery.platforms.telegram_places import Json
from delivery.platforms.telegram_polling import Poller
from delivery.testing import START


class Over(Exception):
    """The script is over."""


def scripted(*batches: object) -> tuple[list[int | None], Callable[[int | None], Awaitable[object]]]:
    asked: list[int | None] = []
    left = list(batches)

    async def fetch(offset: int | None) -> object:
        asked.append(offset)
        if not left:
            raise Over
        return left.pop(0)

    return asked, fetch


async def poll(*batches: object) -> tuple[list[int | None], list[int], list[float]]:
    """Run the loop over what the platform answers; return the offsets asked for, what was taken, and the waits."""
    asked, fetch = scripted(*batches)
    taken: list[int] = []
    waits: list[float] = []

    async def take(update: Json) -> None:
        taken.append(update["update_id"])

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def no_webhook() -> None:
        raise AssertionError("there is no webhook")

    poller = Poller(account="telegram", fetch=fetch, take=take, drop_webhook=no_webhook, now=lambda: START, sleep=wait)
    with pytest.raises(Over):
        await poller.run()
    return asked, taken, waits


async def test_each_batch_is_confirmed_by_the_next_call_only() -> None:
    asked, taken, _ = await poll([{"update_id": 500}, {"update_id": 501}], [{"update_id": 502}])
    assert (asked, taken) == ([None, 502, 503], [500, 501, 502])


async def test_numbers_that_start_lower_after_an_idle_week_are_heard() -> None:
    """After an empty answer nothing is open, so no offset is named that later messages could lie under."""
    asked, taken, _ = await poll([{"update_id": 500}], [], [], [{"update_id": 12}])
    assert (asked, taken) == ([None, 501, None, None, 13], [500, 12])


async def test_an_answer_that_is_no_list_is_waited_out_and_confirms_nothing() -> None:
    asked, taken, waits = await poll([{"update_id": 500}], {"surprise": 1}, [{"update_id": 501}])
    assert (asked, taken, waits) == ([None, 501, 501, 502], [500, 501], [1.0])


async def test_an_update_without_a_number_does_not_stop_the_others() -> None:
    asked, taken, _ = await poll([{"update_id": "x"}, 7, {"update_id": 500}])
    assert (asked, taken) == ([None, 501], [500])
