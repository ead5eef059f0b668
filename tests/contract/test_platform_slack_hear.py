"""What is heard of what people write in Slack, and in which words. The real SDK over loopback."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from slack_parts.rig import Rig, slack_rig

from delivery.model import ChatKind


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with slack_rig() as made:
        await made.platform.connect()
        await made.listen()
        yield made


# --- where and who ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("public_channel", ChatKind.CHANNEL),
        ("private_channel", ChatKind.CHANNEL),
        ("im", ChatKind.DM),
        ("mpim", ChatKind.GROUP),
    ],
)
async def test_a_message_is_heard_with_its_place(rig, kind, meant):
    place = rig.server.add_channel("place", kind=kind, members=["kim", "hermes"])
    ts = rig.server.say(place.id, "kim", "why did it fail?")
    [heard] = await rig.said(ts)
    where = heard.address
    assert (where.account, where.workspace, where.chat, where.chat_kind) == ("slack", "T0TEAM", place.id, meant)
    assert (where.message, where.root, where.topic) == (ts, None, None)
    assert (heard.text, heard.mentioned, heard.is_edit) == ("why did it fail?", False, False)


async def test_the_author_has_a_name_and_the_message_its_instant(rig):
    ts = rig.server.say("#ops", "kim", "hello")
    [heard] = await rig.said(ts)
    assert (heard.author.id, heard.author.name, heard.author.is_bot) == ("U0KIM", "kim", False)
    assert heard.at == datetime.fromtimestamp(int(ts[:10]), UTC) + timedelta(microseconds=int(ts[11:]))


async def test_a_name_is_asked_for_once(rig):
    await rig.said(*[rig.server.say("#ops", "kim", str(n)) for n in range(5)])
    assert len(rig.server.calls_to("users.info")) == 1


async def test_without_the_right_to_see_names_the_id_is_the_name(rig):
    rig.server.scopes.discard("users:read")
    [heard] = await rig.said(rig.server.say("#ops", "kim", "hello"))
    assert heard.author.name == "U0KIM"


async def test_a_slow_answer_about_a_name_does_not_hold_up_the_acknowledgement(rig):
    rig.server.fault("users.info", "slow", seconds=30)
    ts = rig.server.say("#ops", "kim", "hello")
    await rig.server.until(lambda: rig.server.calls_to("users.info"))
    await rig.pass_time(2)
    [heard] = await rig.said(ts)
    assert heard.author.name == "U0KIM"


async def test_an_answer_in_a_thread_names_the_root_and_whose_it_is(rig):
    ours = await rig.platform.send(rig.part())
    root = ours.receipt.address.message
    other = rig.server.say("#ops", "alex", "other root")
    stamps = [rig.server.say("#ops", "kim", "why?", thread_ts=one) for one in (root, other)]
    heard = (await rig.said(*stamps))[-2:]
    assert [(one.address.root, one.answers_us) for one in heard] == [(root, True), (other, False)]
    assert [one.answered_at for one in heard] == [ours.receipt.at, None]


async def test_a_roots_own_thread_ts_is_no_root(rig):
    ts = rig.server.say("#ops", "kim", "root")
    rig.server.say("#ops", "alex", "below", thread_ts=ts)
    rig.server.edit("#ops", ts, "root, mended")  # by now the root carries thread_ts == ts
    heard = await rig.until_heard(3)
    assert (heard[-1].text, heard[-1].address.root) == ("root, mended", None)


async def test_a_person_of_another_company_is_heard_in_our_workspace(rig):
    rig.server.add_user("sam", team="T0OTHER")
    rig.server.add_channel("joint", shared=True)
    [heard] = await rig.said(rig.server.say("#joint", "sam", "hello"))
    assert (heard.address.workspace, heard.author.name) == ("T0TEAM", "sam")


# --- one post, several events -------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["after", "before"])
async def test_a_mention_comes_as_two_events_that_name_one_message(rig, order):
    ts = rig.server.say("#ops", "kim", "status?", mention=True, order=order)
    heard = await rig.said(ts)
    assert {(one.address.chat, one.address.message) for one in heard} == {("C0OPS", ts)}
    assert [(one.text, one.mentioned) for one in heard] == [("status?", True)] * 2


async def test_a_mention_alone_is_heard(rig):
    [heard] = await rig.said(rig.server.say("#ops", "kim", "status?", mention=True, order="alone"))
    assert (heard.text, heard.mentioned, heard.address.chat_kind) == ("status?", True, ChatKind.CHANNEL)


async def test_a_mention_alone_keeps_the_kind_of_a_chat_that_is_known(rig):
    place = rig.server.add_channel("few", kind="mpim", members=["kim", "alex", "hermes"])
    first = rig.server.say(place.id, "kim", "hello")
    second = rig.server.say(place.id, "kim", "status?", mention=True, order="alone")
    heard = await rig.said(first, second)
    assert heard[1].address.chat_kind is ChatKind.GROUP


async def test_also_send_to_channel_is_one_answer_in_its_thread(rig):
    root = (await rig.platform.send(rig.part())).receipt.address.message
    ts = rig.server.say("#ops", "kim", "both", thread_ts=root, broadcast=True)
    await rig.all_acked()
    [heard] = rig.heard
    assert (heard.address.message, heard.address.root, heard.answers_us) == (ts, root, True)


async def test_a_second_delivery_of_an_event_names_the_same_message(rig):
    ts = rig.server.say("#ops", "kim", "hello")
    [delivery] = await rig.server.until(lambda: rig.server.acked(ts) and rig.server.deliveries(ts))
    rig.server.redeliver(delivery)
    await rig.server.until(lambda: len(delivery.acks) == 2)
    assert [one.address.message for one in rig.heard] == [ts, ts]


# --- edits ---------------------------------------------------------------------------------------------


async def test_an_edit_is_heard_under_the_message_it_changes(rig):
    ts = rig.server.say("#ops", "kim", "one")
    rig.server.edit("#ops", ts, "two")
    first, second = await rig.until_heard(2)
    assert (first.text, first.is_edit) == ("one", False)
    assert (second.text, second.is_edit, second.address.message) == ("two", True, ts)
    assert second.at > first.at


async def test_an_edit_that_adds_our_name_mentions_us(rig):
    ts = rig.server.say("#ops", "kim", "status?")
    rig.server.edit("#ops", ts, "<@U0BOT> status?")
    heard = await rig.until_heard(2)
    assert (heard[1].text, heard[1].mentioned) == ("status?", True)


@pytest.mark.parametrize("change", ["touch", "unfurl"])
async def test_a_change_without_a_change_of_words_is_nothing(rig, change):
    ts = rig.server.say("#ops", "kim", "see https://example.com/")
    getattr(rig.server, change)("#ops", ts)
    await rig.all_acked()
    assert len(rig.heard) == 1


async def test_a_preview_of_a_link_in_our_own_post_is_nothing(rig):
    sent = await rig.platform.send(rig.part("see https://example.com/"))
    rig.server.unfurl("#ops", sent.receipt.address.message)
    rig.server.edit("#ops", sent.receipt.address.message, "mended")
    await rig.all_acked()
    assert rig.heard == []


async def test_a_deleted_root_leaves_nothing_to_answer(rig):
    ts = rig.server.say("#ops", "kim", "root")
    rig.server.say("#ops", "alex", "below", thread_ts=ts)
    rig.server.remove(ts, "#ops")
    rig.server.emit(
        "#ops",
        {
            "type": "message",
            "subtype": "message_changed",
            "channel": "C0OPS",
            "message": {"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "text": "gone", "ts": ts},
            "previous_message": {"type": "message", "user": "U0KIM", "text": "root", "ts": ts},
        },
    )
    await rig.all_acked()
    assert [one.text for one in rig.heard] == ["root", "below"]


# --- who is not heard ----------------------------------------------------------------------------------


async def test_our_own_posts_are_not_heard(rig):
    await rig.platform.send(rig.part())
    rig.server.say("#ops", "hermes", "by user id alone")
    rig.server.emit(
        "#ops",
        {
            "type": "message",
            "channel": "C0OPS",
            "ts": "1700000000.000200",
            "bot_id": "B0BOT",
            "text": "by bot id alone",
        },
    )
    await rig.all_acked()
    assert rig.heard == []


async def test_another_bot_is_heard_as_a_bot(rig):
    [heard] = await rig.said(rig.server.bot_says("#ops", "build failed", name="jenkins"))
    assert (heard.author.id, heard.author.name, heard.author.is_bot) == ("B0OTHER", "jenkins", True)


@pytest.mark.parametrize("subtype", ["channel_join", "channel_topic", "huddle_thread", "reminder_add"])
async def test_what_nobody_said_is_acknowledged_and_dropped(rig, subtype):
    await rig.said(rig.server.say("#ops", "kim", "kim joined", subtype=subtype))
    assert rig.heard == []


@pytest.mark.parametrize("subtype", ["me_message", "file_share"])
async def test_words_with_a_file_and_me_messages_are_heard(rig, subtype):
    [heard] = await rig.said(rig.server.say("#ops", "kim", "looks odd", subtype=subtype))
    assert heard.text == "looks odd"


async def test_reactions_clicks_and_strange_events_are_acknowledged_and_dropped(rig):
    ours = (await rig.platform.send(rig.part())).receipt.address.message
    rig.server.react("#ops", "kim", ours)
    rig.server.click("#ops", "kim", ours, "snooze")
    rig.server.emit("#ops", {"type": "member_joined_channel", "user": "U0KIM", "channel": "C0OPS"})
    rig.server.emit("#ops", {"type": "message", "channel": "C0OPS", "text": "no ts"})
    rig.server.emit("#ops", {"type": "message", "subtype": "message_changed", "channel": "C0OPS"})
    await rig.all_acked()
    assert rig.heard == []


# --- the words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("<@U0BOT> why?", "why?"),
        ("<@U0BOT>: why?", "why?"),
        ("hey <@U0BOT> why?", "hey why?"),
        ("<@U0ALEX> said a &lt;b&gt; &amp;amp; c", "@alex said a <b> &amp; c"),
        ("see <https://example.com/?a=1&amp;b=2|the log>", "see the log (https://example.com/?a=1&b=2)"),
        ("see <http://example.com|example.com>", "see example.com"),
        ("see <https://example.com/a>", "see https://example.com/a"),
        ("<mailto:kim@example.com|kim@example.com>", "kim@example.com"),
        ("in <#C0OPS|ops> and <#C0GONE>", "in #ops and #C0GONE"),
        ("<!here> <!subteam^S1|@oncall> <!date^1700000000^{date}|14 Nov>", "@here @oncall 14 Nov"),
        ("line one\n<@U0BOT> line two", "line one\n line two"),
    ],
)
async def test_slacks_notation_becomes_readable(rig, typed, read):
    [heard] = await rig.said(rig.server.say("#ops", "kim", typed))
    assert heard.text == read


async def test_a_link_to_a_message_of_this_chat_quotes_it(rig):
    link = "<https://testers.slack.com/archives/C0OPS/p1700000000000100>"
    reply = "<https://testers.slack.com/archives/C0OPS/p1700000000000300?thread_ts=1700000000.000100&amp;cid=C0OPS>"
    first = rig.server.say("#ops", "kim", f"why? {link}")
    second = rig.server.say("#ops", "kim", f"and {reply}")
    heard = await rig.said(first, second)
    assert heard[0].quoted == ("1700000000.000100",)
    assert heard[1].quoted == ("1700000000.000300", "1700000000.000100")


@pytest.mark.parametrize(
    "link",
    [
        "https://testers.slack.com/archives/C0GENERAL/p1700000000000100",
        "https://evil.example/archives/C0OPS/p1700000000000100",
    ],
)
async def test_a_link_to_elsewhere_quotes_nothing(rig, link):
    [heard] = await rig.said(rig.server.say("#ops", "kim", f"why? <{link}>"))
    assert heard.quoted == ()


async def test_a_share_of_our_message_in_the_same_chat_answers_us(rig):
    root = (await rig.platform.send(rig.part())).receipt.address.message
    share = {"is_share": True, "is_msg_unfurl": True, "channel_id": "C0OPS", "ts": root, "author_id": "U0BOT"}
    elsewhere = {**share, "channel_id": "C0GENERAL"}
    first = rig.server.say("#ops", "kim", "why?", extra={"attachments": [share]})
    second = rig.server.say("#ops", "kim", "why?", extra={"attachments": [elsewhere]})
    heard = await rig.said(first, second)
    assert [(one.quoted, one.answers_us) for one in heard] == [((root,), True), ((), False)]


# --- beside messages -----------------------------------------------------------------------------------


async def test_a_slash_command_is_heard_as_said_to_us(rig):
    delivery = rig.server.slash("#ops", "kim", "/cron", "list")
    await rig.server.until(lambda: delivery.acks)
    [heard] = rig.heard
    assert (heard.text, heard.mentioned, heard.author.id, heard.author.name) == ("/cron list", True, "U0KIM", "kim")
    assert heard.address.chat == "C0OPS"
    assert heard.address.message.startswith("slash:")


async def test_a_channel_that_changes_its_id_is_told(rig):
    rig.server.add_channel("secret", kind="private_channel")
    rig.server.change_channel_id("#secret", "C0JOINT")
    await rig.all_acked()
    assert rig.moves == [("slack", "C0SECRET", "C0JOINT")]
    assert rig.heard == []
