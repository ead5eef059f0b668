"""Logging in to Telegram, naming its places, and following them when they move, go and come back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from telegrambed import BOT, Bed, telegram_bed

from delivery.chats import chat_is_gone, gate
from delivery.directory import known_chats
from delivery.model import Address, ChatKind, NotSent, Rejected
from delivery.ports import AccountDown, Chat, Platform, TargetUnresolved
from delivery.targets import Target, parse_target
from state import schema


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    async with telegram_bed(tmp_path) as made:
        yield made


def target(text: str) -> Target:
    return parse_target(text, {"telegram": "telegram"})


# --- the login ----------------------------------------------------------------------------------------------


async def test_the_workspace_is_the_bots_id(bed: Bed) -> None:
    platform: Platform = bed.another()
    assert platform.workspace is None
    assert await platform.connect() == BOT == platform.workspace
    assert (platform.account, platform.kind) == ("telegram", "telegram")
    await platform.close()


@pytest.mark.parametrize(("token", "words"), [("7000000001:wrong", "Unauthorized"), ("nonsense", "Not Found")])
async def test_a_wrong_token_is_an_account_that_is_down_and_is_not_repeated(bed: Bed, token: str, words: str) -> None:
    """B105."""
    platform = bed.another(token=token)
    with pytest.raises(AccountDown) as down:
        await platform.connect()
    await platform.close()
    assert down.value.reason == (
        f"Telegram refused the token of account telegram ({words}): take the bot's token from @BotFather into jobs.yaml"
    )


async def test_a_server_that_is_away_is_an_account_that_is_down_for_now(bed: Bed) -> None:
    await bed.server.go_down()
    with pytest.raises(AccountDown, match="Telegram cannot be reached: ConnectError"):
        await bed.platform.connect()
    await bed.server.come_back()
    assert await bed.platform.connect() == BOT


@pytest.mark.parametrize("kind", ["500", "502", "not_json", "cut_before"])
async def test_a_server_in_trouble_is_an_account_that_is_down_for_now(bed: Bed, kind: str) -> None:
    bed.server.fault("getMe", kind)
    with pytest.raises(AccountDown, match="Telegram cannot be reached"):
        await bed.platform.connect()


async def test_a_base_url_may_end_in_a_slash(bed: Bed) -> None:
    platform = bed.another(base_url=f"{bed.server.url}/")
    assert await platform.connect() == BOT
    await platform.close()


# --- targets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("group", ChatKind.GROUP),
        ("supergroup", ChatKind.GROUP),
        ("forum", ChatKind.FORUM),
        ("channel", ChatKind.CHANNEL),
    ],
)
async def test_a_number_is_the_chat_of_that_number(bed: Bed, kind: str, expected: ChatKind) -> None:
    chat = bed.server.add_chat(kind, "Ops", bot="administrator")
    assert await bed.platform.resolve(target(f"telegram:{chat.id}")) == Address(
        account="telegram", workspace=BOT, chat=str(chat.id), chat_kind=expected
    )


async def test_a_person_is_their_private_chat(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    bed.server.private(ann)
    assert (await bed.platform.resolve(target(f"telegram:{ann.id}"))).chat_kind is ChatKind.DM


async def test_a_name_is_looked_up(bed: Bed) -> None:
    channel = bed.server.add_chat("channel", "News", username="newschannel", bot="administrator")
    resolved = await bed.platform.resolve(target("telegram:@NewsChannel"))
    assert (resolved.chat, resolved.chat_kind) == (str(channel.id), ChatKind.CHANNEL)


async def test_a_topic_stays_as_it_was_written_known_chat_or_not(bed: Bed) -> None:
    """B065."""
    forum = bed.server.add_chat("forum", "Ops", bot="administrator")
    written = target(f"telegram:{forum.id}/345")
    first = await bed.platform.resolve(written)
    known = await bed.rows(schema.directory, schema.directory.c.chat)
    second = await bed.platform.resolve(written)
    assert (first.topic, known, second) == ("345", [(str(forum.id),)], first)


async def test_the_general_topic_is_none(bed: Bed) -> None:
    """B069."""
    forum = bed.server.add_chat("forum", "Ops", bot="administrator")
    resolved = await bed.platform.resolve(Target(account="telegram", chat=str(forum.id), topic="1"))
    assert resolved.topic is None


async def test_a_place_that_the_bot_does_not_know_is_refused_with_a_way_out(bed: Bed) -> None:
    with pytest.raises(TargetUnresolved) as unknown:
        await bed.platform.resolve(target("telegram:-100777"))
    assert unknown.value.final
    assert unknown.value.reason.startswith("telegram:-100777: Telegram knows no chat -100777 for this bot: add the bot")


async def test_a_lookup_that_got_no_answer_is_tried_again_later(bed: Bed) -> None:
    bed.server.add_chat("group", "Ops", id=-5)
    for kind in ("cut_before", "500", "429"):
        bed.server.fault("getChat", kind)
        with pytest.raises(TargetUnresolved) as unknown:
            await bed.platform.resolve(target("telegram:-5"))
        assert not unknown.value.final
    assert (await bed.platform.resolve(target("telegram:-5"))).chat == "-5"


async def test_a_lookup_with_a_revoked_token_is_the_accounts_trouble(bed: Bed) -> None:
    bed.server.token = f"{BOT}:new"
    with pytest.raises(AccountDown, match="refused the token"):
        await bed.platform.resolve(target("telegram:-5"))


async def test_a_group_that_moved_is_followed_when_it_is_looked_up(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    new = bed.server.migrate(group, by=ann)
    resolved = await bed.platform.resolve(target(f"telegram:{group.id}"))
    assert resolved.chat == str(new.id)
    assert bed.moves.moved == [(str(group.id), str(new.id))]


# --- what the bot has met -------------------------------------------------------------------------------------


async def test_the_chats_are_those_that_were_met_also_after_a_restart(bed: Bed) -> None:
    ann = bed.server.add_user("Ann", username="ann")
    chat = bed.server.private(ann)
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="left")
    async with bed.listening():
        bed.server.say(chat, ann, "/start")
        bed.server.set_bot_status(forum, "administrator", by=ann)
        topic = bed.server.topic(forum, "builds", by=ann)
        await bed.server.wait_read()
    met = [
        Chat(chat=str(chat.id), name="Ann", kind=ChatKind.DM),
        Chat(chat=str(forum.id), name="Ops", kind=ChatKind.FORUM),
        Chat(chat=str(forum.id), name="builds", kind=ChatKind.FORUM, topic=str(topic.id)),
    ]
    by_name = sorted(met, key=lambda one: one.name)
    assert sorted(await bed.platform.chats(), key=lambda one: one.name) == by_name
    again = bed.another()
    assert sorted(await again.chats(), key=lambda one: one.name) == by_name
    await again.close()


async def test_a_new_title_is_the_chats_name(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann], bot="administrator")
    await bed.hears(lambda: bed.server.say(group, ann, "hello"))
    async with bed.listening():
        group.title = "Operations"
        bed.server.service(group, ann, new_chat_title="Operations")
        await bed.server.wait_read()
    assert [chat.name for chat in await bed.db.read(lambda conn: known_chats(conn, "telegram"))] == ["Operations"]


async def test_a_person_who_blocks_the_bot_is_gone_and_back_when_they_let_it_in(bed: Bed) -> None:
    """B058."""
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)

    async def why() -> str | None:
        return (await bed.db.read(lambda conn: gate(conn, "telegram", str(chat.id)))).gone

    async with bed.listening():
        bed.server.block(ann)
        await bed.server.wait_read()
        assert await why() == "the person has blocked the bot"
        bed.server.unblock(ann)
        await bed.server.wait_read()
        assert await why() is None


async def test_whoever_writes_again_is_back(bed: Bed) -> None:
    """B058."""
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    await bed.hears(lambda: bed.server.say(chat, ann, "hello"))
    bed.server.fault("sendMessage", "error", code=403, description="Forbidden: bot was blocked by the user")
    result = await bed.send(chat)
    assert isinstance(result, Rejected) and result.chat_is_gone
    await bed.db.write(lambda conn: chat_is_gone(conn, "telegram", str(chat.id), result.reason))  # as the outbox does
    await bed.hears(lambda: bed.server.say(chat, ann, "still here"))
    assert (await bed.db.read(lambda conn: gate(conn, "telegram", str(chat.id)))).gone is None


async def test_a_group_that_throws_the_bot_out_is_gone(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann])
    async with bed.listening():
        bed.server.set_bot_status(group, "kicked", by=ann)
        await bed.server.wait_read()
    assert (await bed.db.read(lambda conn: gate(conn, "telegram", str(group.id)))).gone == (
        "the bot was removed from Ops"
    )


async def test_a_group_that_becomes_a_supergroup_is_followed_at_once(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    async with bed.listening():
        new = bed.server.migrate(group, by=ann, forum=True)
        await bed.server.wait_read()
    assert set(bed.moves.moved) == {(str(group.id), str(new.id))}
    assert (str(group.id), str(new.id)) in await bed.rows(schema.chats, schema.chats.c.chat, schema.chats.c.moved_to)


# --- threads, typing, taking back -------------------------------------------------------------------------------


async def test_topics_are_opened_in_forums_and_where_private_chats_have_them(bed: Bed) -> None:
    forum = bed.address(bed.server.add_chat("forum", "Ops"))
    person = bed.address(bed.server.private(bed.server.add_user("Ann")))
    others = [bed.address(bed.server.add_chat(kind, kind)) for kind in ("group", "supergroup", "channel")]
    opening = bed.platform.opening(forum, "build-health")
    assert opening is not None and (opening.payload, opening.text) == ({"name": "build-health"}, "build-health")
    assert [bed.platform.opening(place, "x") for place in [person, *others]] == [None] * 4
    bed.server.has_topics_enabled = True
    await bed.platform.connect()
    assert bed.platform.opening(person, "x") is not None


async def test_no_topic_is_opened_where_the_place_is_one_already(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops")
    assert bed.platform.opening(bed.address(forum, topic="23"), "x") is None
    assert bed.platform.opening(bed.address(forum, root="23"), "x") is None
    assert bed.platform.opening(bed.address(forum, topic="1"), "x") is not None


async def test_a_topics_name_fits(bed: Bed) -> None:
    forum = bed.address(bed.server.add_chat("forum", "Ops"))
    long, empty = bed.platform.opening(forum, "x" * 500), bed.platform.opening(forum, " \n ")
    assert long is not None and long.payload == {"name": "x" * 128}
    assert empty is not None and empty.payload == {"name": "Brief"}


async def test_typing_is_shown_until_the_answer_is_there(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann])
    topic = bed.server.topic(forum, "builds", by=ann)
    async with bed.platform.working(bed.address(forum, topic=str(topic.id))):
        for count in (1, 2, 3):
            await bed.naps.until(count)
            bed.naps.wake()
    assert set(bed.naps.taken) == {4.5}
    actions = bed.asked("sendChatAction")
    assert {(one["action"], one["message_thread_id"]) for one in actions} == {("typing", str(topic.id))}
    assert len(actions) >= 3


async def test_typing_stops_at_a_flood_wait(bed: Bed) -> None:
    """B060: nothing lengthens the ban."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendChatAction", "429", retry_after=1000)
    async with bed.platform.working(bed.address(chat)):
        await bed.server.wait_calls("sendChatAction")
        await bed.sent(chat, "the answer")
    assert len(bed.asked("sendChatAction")) == 1
    assert bed.naps.taken == []


async def test_typing_is_not_shown_in_channels_and_its_failure_hurts_nobody(bed: Bed) -> None:
    channel = bed.server.add_chat("channel", "News", bot="administrator")
    async with bed.platform.working(bed.address(channel)):
        pass
    await bed.server.go_down()
    async with bed.platform.working(bed.address(channel)):
        pass
    await bed.server.come_back()
    assert bed.asked("sendChatAction") == []


async def test_typing_goes_on_after_a_hiccup(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendChatAction", "cut_before")
    async with bed.platform.working(bed.address(chat)):
        await bed.naps.until(1)
        bed.naps.wake()
        await bed.naps.until(2)
    assert len(bed.asked("sendChatAction")) == 2


async def test_a_message_is_taken_back(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    receipt = (await bed.sent(chat)).receipt
    assert await bed.platform.retract(receipt)
    assert bed.texts() == []
    assert await bed.platform.retract(receipt), "it is gone already"
    await bed.server.go_down()
    assert not await bed.platform.retract(receipt)
    await bed.server.come_back()


async def test_a_closed_account_says_so(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    await bed.platform.close()
    assert await bed.send(chat) == NotSent(reason="the account is closed")
