"""What a person sees of a brief on the local page, and what stays true when the process dies."""

from dataclasses import replace

from delivery.model import Address, ChatKind
from delivery.platforms.local import messages


def local(channel: str = "general", root: str | None = None) -> Address:
    return Address(account="local", workspace="local", chat=channel, chat_kind=ChatKind.CHANNEL, root=root)


async def shown(house, channel="general"):
    return await house.db.read(lambda conn: messages(conn, channel))


async def test_a_brief_appears_in_its_channel_with_its_job(house):
    await house.start()
    sent = await house.deliver("3 builds failed", account="local", chat="general", address=local())
    await house.settle()
    (message,) = await shown(house)
    assert (message["text"], message["job"], message["thread"]) == ("3 builds failed", "build-health", None)
    assert (await house.delivery(sent)).state == "sent"
    assert await house.message_ids(sent) == [message["id"]]
    assert [one.state for one in house.told] == ["sent"]


async def test_a_thread_opens_with_a_header_and_the_brief_lies_in_it(house):
    await house.start()
    sent = await house.deliver("one", "two", account="local", chat="general", address=local(), in_thread=True)
    await house.settle()
    header, one, two = await shown(house)
    assert (header["text"], header["thread"], header["job"]) == ("build-health", None, None)
    assert [(one["text"], one["thread"]), (two["text"], two["thread"])] == [
        ("one", header["id"]),
        ("two", header["id"]),
    ]
    assert (await house.delivery(sent)).root == header["id"]


async def test_the_message_its_receipt_and_the_seed_are_there_together_or_not_at_all(house):
    await house.start()
    sent = await house.deliver("brief", account="local", chat="general", address=local())
    await house.settle()
    await house.restart()
    (message,) = await shown(house)
    assert await house.seed(sent) == f"1={message['id']}"


async def test_a_brief_stored_before_the_process_died_is_posted_once_after_the_restart(house):
    sent = await house.deliver("brief", account="local", chat="general", address=local())
    await house.restart()
    await house.start()
    await house.restart()
    await house.start()
    assert [one["text"] for one in await shown(house)] == ["brief"]
    assert (await house.delivery(sent)).state == "sent"


async def test_a_brief_for_a_thread_that_is_not_there_fails_and_says_why(house):
    await house.start()
    sent = await house.deliver(account="local", chat="general", address=replace(local(), root="77"))
    after = await house.deliver("next", account="local", chat="general", address=local())
    await house.settle()
    row = await house.delivery(sent)
    assert row.state == "failed"
    assert row.error == "there is no message 77 in #general: answer one that the channel shows"
    assert (await house.delivery(after)).state == "sent"
