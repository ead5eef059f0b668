"""Every state that is not final, and what a restart does with it."""

import asyncio

import pytest

from delivery.accounts import AccountKeeper
from delivery.model import CannotTell, InDoubt, NotSent, Sent
from delivery.outbox import on_its_way, recover
from delivery.ports import TargetUnresolved


async def hangs(part):
    await asyncio.get_running_loop().create_future()


async def again(house):
    """Kill the process and start the next one on the same file."""
    await house.restart()
    await house.up()
    await house.start()


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.up()
    return platform


async def test_pending_a_brief_written_with_its_run_is_sent_once_by_the_next_process(house, slack):
    sent = await house.deliver("one", "two")
    await again(house)
    await again(house)
    assert slack.said() == ["one", "two"]
    assert (await house.delivery(sent)).state == "sent"


async def test_pending_after_the_first_part_only_the_second_is_sent(house, slack):
    async def arrives(part):
        return Sent(receipt=slack.receipt(part))

    slack.sends.extend([arrives, NotSent(reason="connection refused")])
    sent = await house.deliver("one", "two")
    await house.start()
    await again(house)
    await house.after(2)
    assert slack.said() == ["one", "two", "two"]
    assert await house.seed(sent) == "1=1,2=2"


async def test_pending_with_a_retry_due_later_keeps_its_wait(house, slack):
    slack.sends.extend([NotSent(reason="connection refused")] * 4)
    await house.deliver("one")
    await house.start()
    await house.after(7)
    await again(house)
    await house.after(7)
    assert len(slack.said()) == 4
    await house.after(2)
    assert len(slack.said()) == 5


async def test_sending_a_part_that_was_on_its_way_is_asked_for_and_found(house, slack):
    slack.sends.append(hangs)
    sent = await house.deliver("one", "two")
    await house.start()
    assert await house.part_states(sent) == ["sending", "pending"]
    await again(house)
    assert (await house.delivery(sent)).state == "in_doubt"
    slack.finds.append(slack.receipt(slack.calls[0].part, "77"))
    await house.after(40)
    assert slack.said() == ["one", "two"]
    assert await house.message_ids(sent) == ["77", "1"]


async def test_sending_a_part_that_never_left_is_sent_once_two_absences_said_so(house, slack):
    slack.sends.append(hangs)
    sent = await house.deliver("one")
    await house.start()
    await again(house)
    await house.after(100)
    assert slack.verbs() == ["send", "find", "find", "send"]
    assert (await house.delivery(sent)).state == "sent"


async def test_sending_where_the_platform_cannot_be_asked_it_is_held_for_a_person(house, slack):
    slack.sends.append(hangs)
    slack.finds.extend([CannotTell(reason="Telegram cannot be asked")] * 20)
    sent = await house.deliver("one")
    await house.start()
    await again(house)
    await house.after(1000)
    assert slack.said() == ["one"]
    assert (await house.delivery(sent)).state == "in_doubt"
    assert house.told[-1].state == "in_doubt"


async def test_in_doubt_between_two_absences_only_the_second_is_asked_for(house, slack):
    slack.sends.append(InDoubt(reason="timeout"))
    await house.deliver("one")
    await house.start()
    await house.after(40)
    assert slack.verbs() == ["send", "find"]
    await again(house)
    await house.after(40)
    assert slack.verbs() == ["send", "find", "find", "send"]


async def test_in_doubt_and_held_for_a_person_stays_so_and_is_never_sent(house, slack):
    slack.sends.append(InDoubt(reason="timeout"))
    slack.finds.extend([CannotTell(reason="no")] * 100)
    sent = await house.deliver("one")
    await house.start()
    await house.hours(48)
    asked = len(slack.verbs())
    await again(house)
    await house.hours(24)
    assert (await house.delivery(sent)).state == "in_doubt"
    assert len(slack.verbs()) == asked


async def test_held_for_a_down_account_goes_out_when_the_account_is_up_in_the_next_process(house, slack):
    slack.sends.append(NotSent(reason="invalid_auth", account_is_down=True))
    sent = await house.deliver("one")
    await house.start()
    assert (await house.delivery(sent)).state == "held"
    await house.restart()
    await house.start()
    await house.after(3600)
    assert slack.said() == ["one"]
    await house.up()
    await house.settle()
    assert (await house.delivery(sent)).state == "sent"


async def test_held_because_its_target_is_not_known_is_resolved_by_the_next_process(house, slack):
    slack.places["#ops"] = TargetUnresolved("not seen yet", final=False)
    sent = await house.deliver("one", address=None, target="slack:#ops")
    await house.start()
    assert (await house.delivery(sent)).state == "held"
    del slack.places["#ops"]
    await again(house)
    await house.after(31)
    assert (await house.delivery(sent)).state == "sent"


async def test_a_seed_that_was_owed_does_not_make_the_brief_go_out_again(house, slack):
    house.settlement.fails.append(RuntimeError("not now"))
    sent = await house.deliver("one")
    await house.start()
    await again(house)
    assert slack.said() == ["one"]
    assert (await house.delivery(sent)).flat_seeded is False


async def test_recovering_twice_is_recovering_once(house, slack):
    slack.sends.append(hangs)
    sent = await house.deliver("one")
    await house.start()
    await house.restart()
    at = house.clock.now()
    first = await house.db.write(lambda conn: recover(conn, at=at))
    second = await house.db.write(lambda conn: recover(conn, at=at))
    assert ([one.id for one in first], second) == ([sent], [])


async def test_a_process_that_dies_at_any_step_posts_every_part_once_where_the_platform_can_be_asked(house):
    """Kill points: before the call, while it is under way (arrived or not), after it."""
    slack = house.scripted()
    arrived: list[str] = []

    def dies(arrives: bool):
        async def send(part):
            if arrives:
                arrived.append(part.marker)
            await hangs(part)

        return send

    async def delivers(part):
        arrived.append(part.marker)
        return Sent(receipt=slack.receipt(part))

    async def find(part):
        slack._called("find", part=part)
        from delivery.model import Absent

        return slack.receipt(part) if part.marker in arrived else Absent()

    slack.find = find
    slack.sends.extend([dies(True), dies(False), delivers, dies(True), *([delivers] * 10)])
    sent = await house.deliver("one", "two", "three", in_thread=True)
    for _ in range(12):
        await again(house)
        await house.after(100)
    assert (await house.delivery(sent)).state == "sent"
    assert len(arrived) == len(set(arrived)) == 4


async def test_what_the_last_process_knew_of_its_connections_is_forgotten(house, slack):
    keeper: AccountKeeper = house.keeper()
    await keeper.prepare()
    await house.deliver("one")
    await house.start()
    assert slack.said() == []


async def test_an_answer_that_comes_while_a_brief_is_being_sent_can_see_that(house, slack):
    slack.sends.append(hangs)
    sent = await house.deliver("one")
    behind = await house.deliver("two")
    await house.start()
    assert await house.db.read(lambda conn: on_its_way(conn, "slack", "C1")) == [sent]
    assert await house.db.read(lambda conn: on_its_way(conn, "slack", "C2")) == []
    assert (await house.delivery(behind)).state == "pending"
