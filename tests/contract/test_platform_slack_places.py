"""Which place in Slack a target means, what the directory learns, and what is shown while an answer is written."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from seedbed import opened
from slack_parts.rig import OPS, Rig, slack_rig, target

from delivery.directory import Directory
from delivery.model import ChatKind
from delivery.ports import AccountDown, Chat, TargetUnresolved
from delivery.testing import ManualClock

NEVER = "1700000000.000100"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with slack_rig() as made:
        await made.platform.connect()
        yield made


async def unresolved(rig: Rig, text: str) -> TargetUnresolved:
    with pytest.raises(TargetUnresolved) as problem:
        await rig.platform.resolve(target(text))
    return problem.value


# --- targets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["C0OPS", "#ops", "#OPS", "#op"])
async def test_a_channel_is_found_by_id_by_name_and_by_a_unique_beginning(rig, text):
    assert await rig.platform.resolve(target(text)) == OPS


@pytest.mark.parametrize("text", ["@kim", "@KIM", "U0KIM", "D0KIM"])
async def test_a_person_is_a_direct_conversation(rig, text):
    rig.server.world.open_im("kim")
    found = await rig.platform.resolve(target(text))
    assert found == replace(OPS, chat="D0KIM", chat_kind=ChatKind.DM)


async def test_a_person_never_written_to_is_opened_a_conversation_with_once(rig):
    first = await rig.platform.resolve(target("@alex"))
    assert await rig.platform.resolve(target("U0ALEX")) == first
    assert len(rig.server.calls_to("conversations.open")) == 1


async def test_a_group_conversation_is_a_group(rig):
    place = rig.server.add_channel("few", kind="mpim", members=["kim", "alex", "hermes"])
    assert (await rig.platform.resolve(target(place.id))).chat_kind is ChatKind.GROUP


async def test_a_private_channel_is_a_channel(rig):
    place = rig.server.add_channel("secret", kind="private_channel")
    assert (await rig.platform.resolve(target(place.id))).chat_kind is ChatKind.CHANNEL


async def test_a_known_id_is_not_asked_for_again(rig):
    for _ in range(3):
        await rig.platform.resolve(target("C0OPS"))
    assert len(rig.server.calls_to("conversations.info")) == 1


@pytest.mark.parametrize("text", ["C0NOWHERE", "#nowhere", "@nobody", "U0NOBODY", "D0NOBODY"])
async def test_what_is_not_there_is_refused_for_good_in_one_sentence(rig, text):
    problem = await unresolved(rig, text)
    assert problem.final
    assert text in problem.reason


async def test_a_private_channel_without_us_says_to_invite_the_bot(rig):
    place = rig.server.add_channel("secret", kind="private_channel", members=["kim"])
    assert "invite it" in (await unresolved(rig, place.id)).reason


async def test_several_people_of_one_name_are_named(rig):
    for some_id in ("U0ONE", "U0TWO"):
        rig.server.world.add_user("lee", id=some_id)
    problem = await unresolved(rig, "@lee")
    assert problem.final
    assert "U0ONE" in problem.reason
    assert "U0TWO" in problem.reason


async def test_an_ambiguous_channel_is_refused_with_the_candidates(rig):
    rig.server.add_channel("ops-eu")
    rig.server.add_channel("ops-us")
    problem = await unresolved(rig, "#ops-")
    assert problem.final
    assert "C0OPSEU" in problem.reason
    assert "C0OPSUS" in problem.reason


async def test_an_existing_thread_is_kept_as_it_was_written(rig):
    root = rig.server.say("#ops", "kim", "standing thread")
    assert await rig.platform.resolve(target(f"#ops/{root}")) == replace(OPS, root=root)


async def test_a_target_that_names_a_reply_means_its_thread(rig):
    root = rig.server.say("#ops", "kim", "root")
    reply = rig.server.say("#ops", "alex", "below", thread_ts=root)
    assert await rig.platform.resolve(target(f"C0OPS/{reply}")) == replace(OPS, root=root)


async def test_a_thread_that_is_not_there_is_refused(rig):
    problem = await unresolved(rig, f"C0OPS/{NEVER}")
    assert problem.final
    assert NEVER in problem.reason


async def test_a_thread_that_cannot_be_looked_at_stays_as_it_was_written(rig):
    root = rig.server.say("#ops", "kim", "root")
    rig.server.fault("conversations.replies", "429")
    assert await rig.platform.resolve(target(f"C0OPS/{root}")) == replace(OPS, root=root)


@pytest.mark.parametrize(
    ("text", "method"),
    [("C0OPS", "conversations.info"), ("#ops", "conversations.list"), ("@alex", "users.list")],
)
@pytest.mark.parametrize("kind", ["429", "http_500_before", "html"])
async def test_what_cannot_be_looked_up_now_is_looked_up_later(rig, text, method, kind):
    rig.server.fault(method, kind)
    assert not (await unresolved(rig, text)).final
    assert (await rig.platform.resolve(target(text))).account == "slack"


async def test_without_the_scope_an_id_is_taken_by_its_first_letter(rig):
    rig.server.scopes.difference_update({"channels:read", "im:read"})
    rig.server.world.open_im("kim")
    assert (await rig.platform.resolve(target("C0OPS"))).chat_kind is ChatKind.CHANNEL
    assert (await rig.platform.resolve(target("D0KIM"))).chat_kind is ChatKind.DM


async def test_without_the_scope_a_name_cannot_be_looked_up_and_says_what_is_missing(rig):
    rig.server.scopes.difference_update({"channels:read", "groups:read", "im:read", "mpim:read"})
    await rig.platform.connect()
    assert "channels:read" in (await unresolved(rig, "#ops")).reason


@pytest.mark.parametrize("text", ["C0OPS", "#ops", "@kim", "U0KIM"])
async def test_a_login_that_is_refused_takes_the_account_down(rig, text):
    rig.server.fault("*", "error", code="token_revoked", times=None)
    with pytest.raises(AccountDown, match="revoked"):
        await rig.platform.resolve(target(text))


async def test_a_network_that_is_down_takes_the_account_down(rig):
    await rig.server.stop()
    with pytest.raises(AccountDown):
        await rig.platform.resolve(target("C0OPS"))
    await rig.server.start()


async def test_a_stored_workspace_does_not_spare_the_first_login():
    async with slack_rig(workspace="T0TEAM") as rig:
        assert rig.platform.workspace == "T0TEAM"
        assert await rig.platform.resolve(target("C0OPS")) == OPS


# --- the directory -------------------------------------------------------------------------------------


async def test_the_list_has_every_kind_of_place_with_name_and_members(rig):
    rig.server.world.open_im("kim")
    rig.server.add_channel("secret", kind="private_channel", members=["kim", "hermes"])
    rig.server.add_channel("theirs", kind="private_channel", members=["kim"])
    rig.server.add_channel("old").is_archived = True
    few = rig.server.world.open_mpim(["kim", "alex"])
    rig.server.api.page_cap = 2
    found = {one.chat: one for one in await rig.platform.chats()}
    assert found == {
        "C0GENERAL": Chat(chat="C0GENERAL", name="general", kind=ChatKind.CHANNEL, members=3),
        "C0OPS": Chat(chat="C0OPS", name="ops", kind=ChatKind.CHANNEL, members=3),
        "C0SECRET": Chat(chat="C0SECRET", name="secret", kind=ChatKind.CHANNEL, members=2),
        "D0KIM": Chat(chat="D0KIM", name="kim", kind=ChatKind.DM),
        few.id: Chat(chat=few.id, name=few.name, kind=ChatKind.GROUP, members=3),
    }


async def test_only_the_kinds_that_the_token_may_see_are_asked_for(rig):
    rig.server.scopes.difference_update({"groups:read", "mpim:read", "im:read"})
    await rig.platform.connect()
    assert {one.chat for one in await rig.platform.chats()} == {"C0GENERAL", "C0OPS"}


@pytest.mark.parametrize("kind", ["429", "http_500_before", "truncated"])
async def test_half_a_list_is_no_list(rig, kind):
    rig.server.api.page_cap = 1
    rig.server.fault("conversations.list", kind, skip=1)
    with pytest.raises(AccountDown):
        await rig.platform.chats()


async def test_names_are_found_in_the_stored_directory_without_asking_slack(tmp_path: Path):
    with opened(tmp_path) as db:
        directory = Directory(db=db, account="slack", now=lambda: datetime.now(UTC))
        async with slack_rig(directory=directory) as rig:
            rig.server.world.open_im("kim")
            found = [await rig.platform.resolve(target(text)) for text in ("#ops", "C0OPS", "@kim")]
            assert found == [OPS, OPS, replace(OPS, chat="D0KIM", chat_kind=ChatKind.DM)]
            assert len(rig.server.calls_to("conversations.list")) == 1
            assert rig.server.calls_to("conversations.info") == rig.server.calls_to("conversations.open") == []


async def test_a_person_is_found_though_others_who_were_written_to_begin_with_that_name(tmp_path: Path):
    with opened(tmp_path) as db:
        directory = Directory(db=db, account="slack", now=lambda: datetime.now(UTC))
        async with slack_rig(directory=directory) as rig:
            for name in ("lee", "lee-ann", "lee-roy"):
                rig.server.add_user(name)
            for name in ("lee-ann", "lee-roy"):
                rig.server.world.open_im(name)
            await directory.refresh(rig.platform.chats)
            assert (await rig.platform.resolve(target("@lee"))).chat == "D0LEE"


async def test_a_channel_made_since_is_found_by_listing_anew(tmp_path: Path):
    with opened(tmp_path) as db:
        clock = ManualClock()
        directory = Directory(db=db, account="slack", now=clock.now)
        async with slack_rig(directory=directory) as rig:
            await rig.platform.resolve(target("#ops"))
            rig.server.add_channel("new")
            await clock.advance(31, rig.settle)
            assert (await rig.platform.resolve(target("#new"))).chat == "C0NEW"


# --- the status ----------------------------------------------------------------------------------------


async def test_a_thread_shows_that_an_answer_is_being_written(rig):
    root = rig.server.say("#ops", "kim", "why?")
    async with rig.platform.working(replace(OPS, root=root)):
        [status] = await rig.server.until(lambda: rig.server.statuses)
    assert (status.channel, status.thread_ts) == ("C0OPS", root)
    assert status.status


async def test_the_status_is_renewed_before_it_lapses_and_not_after_the_end(rig):
    root = rig.server.say("#ops", "kim", "why?")
    async with rig.platform.working(replace(OPS, root=root)):
        await rig.server.until(lambda: rig.server.statuses)
        await rig.settle()
        await rig.pass_time(100)
        await rig.server.until(lambda: len(rig.server.statuses) == 2)
    await rig.pass_time(300)
    assert len(rig.server.statuses) == 2


async def test_at_top_level_there_is_nothing_to_show(rig):
    async with rig.platform.working(replace(OPS, message="1700000000.000100")):
        await rig.settle()
    assert rig.server.calls_to("assistant.threads.setStatus") == []


@pytest.mark.parametrize("kind", ["429", "cut_before", "http_500_before"])
async def test_a_status_that_cannot_be_shown_disturbs_nobody(rig, kind):
    root = rig.server.say("#ops", "kim", "why?")
    rig.server.fault("assistant.threads.setStatus", kind)
    async with rig.platform.working(replace(OPS, root=root)):
        await rig.server.until(lambda: rig.server.calls_to("assistant.threads.setStatus"))
        await rig.settle()
        await rig.pass_time(300)
    assert len(rig.server.calls_to("assistant.threads.setStatus")) == 1


async def test_an_error_inside_is_not_swallowed(rig):
    with pytest.raises(ZeroDivisionError):
        async with rig.platform.working(replace(OPS, root=NEVER)):
            raise ZeroDivisionError


async def test_a_server_that_hangs_does_not_hold_up_the_answer(rig):
    root = rig.server.say("#ops", "kim", "why?")
    rig.server.fault("assistant.threads.setStatus", "slow", seconds=30)
    async with asyncio.timeout(5), rig.platform.working(replace(OPS, root=root)):
        await rig.server.until(lambda: rig.server.calls_to("assistant.threads.setStatus"))
