"""Waits that a platform asks for are kept to the second, survive a restart, and cost nobody else anything."""

from delivery.model import Sent, Throttled


async def test_a_brief_is_sent_once_the_wait_that_the_server_asked_for_is_over(house):
    slack = house.scripted()
    await house.up()
    await house.start()
    slack.sends.append(Throttled(retry_after=37))
    sent = await house.deliver("one")
    await house.after(36.9)
    assert slack.said() == ["one"]
    await house.after(0.2)
    assert (await house.delivery(sent)).state == "sent"
    assert [(one.at - slack.calls[0].at).total_seconds() for one in slack.calls] == [0, 37]


async def test_a_wait_is_no_failed_attempt(house):
    slack = house.scripted()
    await house.up()
    await house.start()
    slack.sends.extend([Throttled(retry_after=1)] * 20)
    sent = await house.deliver("one")
    await house.after(30)
    assert (await house.delivery(sent)).state == "sent"
    assert len(slack.said()) == 21


async def test_of_a_brief_in_four_parts_four_messages_go_out_however_long_the_third_must_wait(house):
    slack = house.scripted()
    await house.up()
    await house.start()

    async def arrives(part):
        return Sent(receipt=slack.receipt(part))

    slack.sends.extend([arrives, arrives, Throttled(retry_after=223)])
    sent = await house.deliver("1", "2", "3", "4")
    await house.after(224)
    assert slack.said() == ["1", "2", "3", "3", "4"]
    assert await house.message_ids(sent) == ["1", "2", "3", "4"]


async def test_a_chat_in_a_flood_wait_gets_no_call_of_any_kind_and_other_chats_go_on(house):
    telegram = house.scripted("telegram", kind="telegram")
    await house.up()
    await house.start()
    telegram.sends.append(Throttled(retry_after=1000))
    waiting = await house.deliver("parked", account="telegram", chat="7")
    await house.settle()
    async with house.dispatcher.working(telegram.calls[0].part.address):
        await house.deliver("elsewhere", account="telegram", chat="8")
        await house.after(300)
    assert (telegram.verbs(), telegram.said()) == (["send", "send"], ["parked", "elsewhere"])
    assert (await house.delivery(waiting)).state == "pending"


async def test_a_flood_wait_survives_a_restart_with_its_message(house):
    telegram = house.scripted("telegram", kind="telegram")
    await house.up()
    await house.start()
    telegram.sends.append(Throttled(retry_after=1000))
    waiting = await house.deliver("parked", account="telegram", chat="7")
    await house.after(300)
    await house.restart()
    await house.up()
    await house.start()
    await house.after(699)
    assert telegram.said() == ["parked"]
    await house.after(2)
    assert telegram.said() == ["parked", "parked"]
    assert (await house.delivery(waiting)).state == "sent"


async def test_the_sign_that_an_answer_is_being_written_ends_with_the_flood_wait(house):
    telegram = house.scripted("telegram", kind="telegram")
    await house.up()
    await house.start()
    brief = await house.brief(account="telegram", chat="7")
    async with house.dispatcher.working(brief.address):
        await house.settle()
        assert telegram.is_working == 1
        telegram.sends.append(Throttled(retry_after=1000))
        await house.deliver("one", account="telegram", chat="7")
        await house.settle()
        assert telegram.is_working == 0


async def test_a_wait_of_the_whole_account_holds_every_chat_of_it_and_no_other_account(house):
    slack, telegram = house.scripted(), house.scripted("telegram", kind="telegram")
    await house.up()
    await house.start()
    telegram.sends.append(Throttled(retry_after=60, whole_account=True))
    await house.deliver("one", account="telegram", chat="7")
    await house.settle()
    await house.deliver("two", account="telegram", chat="8")
    await house.deliver("three", chat="C1")
    await house.after(59)
    assert (telegram.said(), slack.said()) == (["one"], ["three"])
    await house.after(2)
    assert sorted(telegram.said()) == ["one", "one", "two"]


async def test_ten_briefs_to_one_channel_arrive_in_order_about_one_a_second(house):
    slack = house.scripted(pace=1.0)
    await house.up()
    await house.start()

    async def arrives(part):
        return Sent(receipt=slack.receipt(part))

    slack.sends.extend([arrives, arrives, arrives, Throttled(retry_after=30)])
    for n in range(10):
        await house.deliver(f"brief {n}")
    await house.after(45)
    said = slack.said()
    assert [said[n] for n in range(len(said)) if n != 3] == [f"brief {n}" for n in range(10)]
    took = (slack.calls[-1].at - slack.calls[0].at).total_seconds()
    assert took == 39


async def test_pace_is_kept_per_channel(house):
    slack = house.scripted(pace=1.0)
    await house.up()
    await house.start()
    for chat in ("C1", "C2", "C3"):
        await house.deliver(chat, chat=chat)
    await house.settle()
    assert sorted(slack.said()) == ["C1", "C2", "C3"]
