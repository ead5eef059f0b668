"""Listening to Slack over sockets that end, die and come back. The real SDK over loopback."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from slack_parts.rig import OPS, Rig, slack_rig

from delivery.platforms.slack_time import at_of
from delivery.ports import AccountDown

FDS = Path("/proc/self/fd")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with slack_rig() as made:
        await made.platform.connect()
        yield made


# --- acknowledging -------------------------------------------------------------------------------------


async def test_a_message_is_acknowledged_only_once_it_is_stored(rig):
    stored = asyncio.Event()

    async def hear(inbound) -> None:
        await stored.wait()

    listening = asyncio.create_task(rig.platform.listen(hear))
    await rig.server.connected()
    ts = rig.server.say("#ops", "kim", "hello")
    await rig.server.until(lambda: rig.server.deliveries(ts)[0].envelopes)
    await rig.settle()
    assert rig.server.acks == []
    stored.set()
    await rig.server.until(lambda: rig.server.acked(ts))
    listening.cancel()
    await asyncio.wait((listening,))


async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again(rig, caplog):
    rig.server.hub.patience = 0.05
    failures = iter([True, True])
    rig.refuses = lambda _: next(failures, False)
    await rig.listen()
    ts = rig.server.say("#ops", "kim", "hello")
    await rig.server.until(lambda: rig.server.acked(ts))
    [delivery] = rig.server.deliveries(ts)
    assert [one.attempt for one in delivery.envelopes] == [0, 1, 2]
    assert [one.text for one in rig.heard] == ["hello"]
    assert "inbound_not_stored" in {getattr(one, "action", None) for one in caplog.records}


async def test_messages_are_heard_in_the_order_in_which_they_were_written(rig):
    await rig.listen()
    stamps = [rig.server.say("#ops", "kim" if n % 2 else "alex", str(n)) for n in range(30)]
    await rig.said(*stamps)
    assert [one.address.message for one in rig.heard] == stamps


async def test_a_slow_store_of_one_message_does_not_silence_the_socket(rig):
    released = asyncio.Event()
    heard = []

    async def hear(inbound) -> None:
        heard.append(inbound.text)
        if inbound.text == "slow":
            await released.wait()

    listening = asyncio.create_task(rig.platform.listen(hear))
    await rig.server.connected()
    slow, quick = rig.server.say("#ops", "kim", "slow"), rig.server.say("#ops", "kim", "quick")
    await rig.server.until(lambda: rig.server.acked(quick))
    assert not rig.server.acked(slow)
    released.set()
    await rig.server.until(lambda: rig.server.acked(slow))
    listening.cancel()
    await asyncio.wait((listening,))


async def test_what_is_being_stored_when_it_ends_is_stored_and_acknowledged(rig):
    begun, released, stored = asyncio.Event(), asyncio.Event(), []

    async def hear(inbound) -> None:
        begun.set()
        await released.wait()
        stored.append(inbound.address.message)

    listening = asyncio.create_task(rig.platform.listen(hear))
    await rig.server.connected()
    ts = rig.server.say("#ops", "kim", "hello")
    await begun.wait()
    listening.cancel()
    await rig.settle()
    released.set()
    await asyncio.wait((listening,))
    await rig.server.until(lambda: rig.server.acked(ts))
    assert stored == [ts]


async def test_what_takes_too_long_to_store_is_cut_off_at_the_end_and_comes_again(rig):
    begun = asyncio.Event()

    async def hear(inbound) -> None:
        begun.set()
        await asyncio.Event().wait()

    listening = asyncio.create_task(rig.platform.listen(hear))
    await rig.server.connected()
    rig.server.say("#ops", "kim", "hello")
    await begun.wait()
    listening.cancel()
    await rig.settle()
    assert not listening.done()
    await rig.pass_time(3)
    await asyncio.wait((listening,))
    assert rig.server.acks == []


async def test_no_text_and_no_token_is_logged(rig, caplog):
    caplog.set_level(logging.DEBUG)
    rig.refuses = lambda inbound: inbound.text == "also confidential"
    await rig.listen()
    await rig.said(rig.server.say("#ops", "kim", "confidential"))
    ts = rig.server.say("#ops", "kim", "also confidential")
    await rig.server.until(lambda: len(rig.server.deliveries(ts)[0].envelopes) == 1)
    await rig.stop_listening()
    ours = [one for one in caplog.records if one.name != "aiohttp.access"]
    assert not [one for one in ours if "confidential" in one.getMessage() or "xapp" in one.getMessage()]


# --- logins --------------------------------------------------------------------------------------------


async def test_without_an_app_token_it_warns_once_and_waits(caplog):
    async with slack_rig(app_token=None) as rig:
        await rig.platform.connect()
        listening = asyncio.create_task(rig.platform.listen(rig.hear))
        await rig.settle()
        assert not listening.done()
        assert [getattr(one, "action", None) for one in caplog.records].count("cannot_listen") == 1
        listening.cancel()
        await asyncio.wait((listening,))


@pytest.mark.parametrize("app_token", ["xapp-wrong-secret", "xoxb-test-token"])
async def test_an_app_token_that_is_refused_takes_the_account_down(app_token):
    async with slack_rig(app_token=app_token) as rig:
        await rig.platform.connect()
        with pytest.raises(AccountDown, match="app_token:") as down:
            await rig.platform.listen(rig.hear)
    assert "secret" not in down.value.reason


async def test_an_app_token_without_its_scope_names_it(rig):
    rig.server.api.app_scopes.clear()
    with pytest.raises(AccountDown, match="connections:write"):
        await rig.platform.listen(rig.hear)


async def test_a_login_that_is_revoked_while_listening_ends_it(rig):
    await rig.listen()
    rig.server.fault("apps.connections.open", "error", code="token_revoked", times=None)
    await rig.server.disconnect("link_disabled")
    with pytest.raises(AccountDown, match="revoked"):
        await rig._listening


async def test_listening_twice_at_once_is_an_error(rig):
    await rig.listen()
    with pytest.raises(RuntimeError, match="listening already"):
        await rig.platform.listen(rig.hear)


async def test_listening_again_after_the_end_leaves_no_second_ear(rig):
    await rig.listen()
    await rig.platform.connect()
    await rig.stop_listening()
    await rig.server.until(lambda: not rig.server.hub.sockets)
    await rig.listen()
    ts = rig.server.say("#ops", "kim", "hello")
    await rig.said(ts)
    assert (len(rig.server.hub.sockets), len(rig.heard)) == (1, 1)


async def test_closing_ends_the_listening(rig):
    await rig.listen()
    await rig.platform.close()
    await rig.platform.close()
    with pytest.raises(AccountDown, match="closed"):
        await rig._listening
    await rig.server.until(lambda: not rig.server.hub.sockets)


# --- sockets that end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_successor_is_there_before_slack_closes_the_old_socket(rig, reason):
    await rig.listen()
    [old] = rig.server.hub.sockets
    await rig.server.disconnect(reason, close_after=0.5)
    both = await rig.server.connected(2)
    assert old in both
    stamps = [rig.server.say("#ops", "kim", str(n)) for n in range(4)]
    await rig.said(*stamps)
    assert sorted(str(one.address.message) for one in rig.heard) == stamps  # of two sockets either may be first
    assert {one.socket for one in rig.server.acks} == {1, 2}
    await rig.server.until(lambda: old not in rig.server.hub.sockets)
    assert rig.gaps == []


async def test_an_old_socket_that_slack_forgets_is_closed_after_a_while(rig):
    await rig.listen()
    [old] = rig.server.hub.sockets
    await rig.server.disconnect("warning", close_after=60)
    await rig.server.connected(2)
    await rig.pass_time(10)
    await rig.server.until(lambda: old not in rig.server.hub.sockets)
    assert len(rig.server.hub.sockets) == 1


async def test_a_socket_that_is_cut_is_replaced_at_once_and_the_gap_is_told(rig):
    await rig.listen()
    rig.server.hub.drop_all()
    await rig.server.until(lambda: rig.server.hub.opened == 2)
    await rig.said(rig.server.say("#ops", "kim", "hello"))
    assert rig.gaps == ["slack"]


async def test_a_socket_that_dies_silently_is_replaced_within_a_minute(rig):
    await rig.listen()
    [dead] = rig.server.hub.sockets
    rig.server.silence()
    lost = rig.server.say("#ops", "kim", "into the void")
    await rig.pass_time(40)
    await rig.server.until(lambda: rig.server.hub.opened == 2)
    ts = rig.server.say("#ops", "kim", "hello")
    await rig.said(ts)
    await rig.server.until(lambda: dead not in rig.server.hub.sockets)
    assert ([one.address.message for one in rig.heard], rig.gaps) == ([ts], ["slack"])
    await rig.platform.catch_up(OPS, at_of(lost) - timedelta(seconds=1), rig.hear)
    assert [one.address.message for one in rig.heard] == [ts, lost, ts]


async def test_a_socket_in_a_quiet_channel_is_left_alone(rig):
    await rig.listen()
    await rig.pass_time(300)
    assert (rig.server.hub.opened, rig.gaps) == (1, [])


async def test_after_an_outage_it_comes_back_by_itself(rig, caplog):
    await rig.listen()
    rig.server.outage("http_503")
    await rig.server.until(lambda: not rig.server.hub.sockets)
    await rig.pass_time(20)
    rig.server.outage(None)
    await rig.pass_time(60)
    await rig.server.until(lambda: rig.server.hub.opened == 2)
    await rig.said(rig.server.say("#ops", "kim", "hello"))
    assert rig.gaps == ["slack"]
    assert "socket_failed" in {getattr(one, "action", None) for one in caplog.records}


async def test_a_server_that_is_not_there_at_the_start_is_waited_for(rig):
    await rig.server.stop()
    listening = asyncio.create_task(rig.platform.listen(rig.hear))
    await rig.pass_time(5)
    assert not listening.done()
    await rig.server.start()
    await rig.pass_time(60)
    await rig.server.until(lambda: rig.server.hub.sockets)
    listening.cancel()
    await asyncio.wait((listening,))


async def test_slacks_wait_before_a_new_socket_is_kept(rig):
    rig.server.fault("apps.connections.open", "429", retry_after=120)
    listening = asyncio.create_task(rig.platform.listen(rig.hear))
    await rig.server.until(lambda: rig.server.calls_to("apps.connections.open"))
    await rig.pass_time(100)
    assert rig.server.hub.opened == 0
    await rig.pass_time(60)
    await rig.server.until(lambda: rig.server.hub.opened == 1)
    listening.cancel()
    await asyncio.wait((listening,))


async def test_too_many_sockets_of_the_app_are_waited_for(rig):
    async with aiohttp.ClientSession() as http:
        link = f"{rig.server.url}/link/?ticket="
        others = [await http.ws_connect(link + rig.server.hub.ticket()) for _ in range(10)]
        listening = asyncio.create_task(rig.platform.listen(rig.hear))
        await rig.server.until(lambda: rig.server.calls_to("apps.connections.open"))
        await rig.pass_time(10)
        assert len(rig.server.hub.sockets) == len(others)
    await rig.server.until(lambda: not rig.server.hub.sockets)
    await rig.pass_time(60)
    await rig.server.until(lambda: rig.server.hub.sockets)
    await rig.said(rig.server.say("#ops", "kim", "hello"))
    listening.cancel()
    await asyncio.wait((listening,))


@pytest.mark.skipif(not FDS.is_dir(), reason="counts open files in /proc")
async def test_no_descriptor_is_left_behind(rig):
    async def once() -> None:
        await rig.listen()
        rig.server.hub.drop_all()
        opened = rig.server.hub.opened
        await rig.server.until(lambda: rig.server.hub.opened > opened)
        for _ in range(5):
            await rig.platform.send(rig.part())
        await rig.stop_listening()
        await rig.server.until(lambda: not rig.server.hub.sockets)

    await once()
    before = len(os.listdir(FDS))
    for _ in range(6):
        await once()
    await rig.settle()
    assert len(os.listdir(FDS)) <= before + 1
