"""Targets that could not be resolved when their brief was composed."""

import pytest

from delivery.model import PartKind, Surface
from delivery.ports import AccountDown, TargetUnresolved


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.start()
    return platform


async def unresolved(house, target="slack:#ops", **changes):
    return await house.deliver("one", address=None, target=target, **changes)


async def test_a_brief_waits_for_its_account_and_then_goes_to_the_place_that_its_target_names(house, slack):
    sent = await unresolved(house)
    await house.after(3600)
    row = await house.delivery(sent)
    assert (row.state, row.error, slack.calls) == (
        "held",
        "waiting until slack can say where slack:#ops is",
        [],
    )
    await house.up()
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.chat, row.target) == ("sent", "#ops", "slack:#ops")


async def test_it_is_resolved_once_and_what_other_accounts_have_goes_on_meanwhile(house, slack):
    telegram = house.scripted("telegram", kind="telegram")
    await house.up("telegram")
    await unresolved(house)
    await house.deliver("two", account="telegram", chat="7")
    await house.settle()
    assert telegram.said() == ["two"]
    await house.up("slack")
    await house.after(3600)
    assert slack.verbs() == ["resolve", "send"]


async def test_an_explicit_thread_in_the_target_stays(house, slack):
    await house.up()
    await unresolved(house, "slack:#ops/1700000000.000100")
    await house.settle()
    assert slack.calls[-1].part.address.root == "1700000000.000100"


async def test_a_name_from_targets_is_resolved_by_the_place_it_stands_for(house, slack):
    await house.up()
    sent = await unresolved(house, "team", place="slack:#ops")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.target, row.chat, row.state) == ("team", "#ops", "sent")


async def test_a_thread_is_opened_under_its_title_once_the_place_is_known(house, slack):
    await house.up()
    await unresolved(house, surface=Surface.THREAD, title="Build health, 2 March")
    await house.settle()
    assert slack.said() == ["Build health, 2 March", "one"]
    assert slack.calls[1].part.kind is PartKind.HEADER


async def test_a_target_that_is_nowhere_fails_with_the_platforms_sentence(house, slack):
    slack.places["#opps"] = TargetUnresolved('no channel "#opps"; did you mean #ops?', final=True)
    await house.up()
    sent = await unresolved(house, "slack:#opps")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("failed", 'no channel "#opps"; did you mean #ops?')
    assert house.told[-1].id == sent


async def test_a_target_that_may_turn_up_is_looked_up_again_for_a_day_and_then_given_up(house, slack):
    slack.places["#ops"] = TargetUnresolved("the directory is not read yet", final=False)
    await house.up()
    sent = await unresolved(house)
    await house.after(3600)
    assert (await house.delivery(sent)).state == "held"
    assert 4 < len(slack.calls) < 12
    await house.hours(25)
    assert (await house.delivery(sent)).state == "failed"


async def test_two_targets_of_a_run_that_turn_out_to_be_one_place_get_one_brief(house, slack):
    run = await house.run_of()
    first = await house.deliver("one", run_id=run, chat="#ops", target="slack:C1")
    second = await unresolved(house, run_id=run)
    await house.up()
    await house.settle()
    assert slack.said() == ["one"]
    row = await house.delivery(second)
    assert ((await house.delivery(first)).state, row.state) == ("sent", "failed")
    assert row.error == "the same place as slack:C1, where this run delivers already"


async def test_an_account_that_goes_down_while_it_is_asked_keeps_the_brief_held(house, slack):
    async def down(target):
        raise AccountDown("invalid_auth")

    await house.up()
    slack.resolve = down
    sent = await unresolved(house)
    await house.settle()
    assert (await house.delivery(sent)).state == "held"
    del slack.resolve
    await house.up()
    await house.settle()
    assert (await house.delivery(sent)).state == "sent"


async def test_a_lookup_that_breaks_costs_only_its_own_delivery(house, slack):
    real = slack.resolve

    async def broken(target):
        if target.chat == "#ops":
            raise RuntimeError("a bug")
        return await real(target)

    slack.resolve = broken
    await house.up()
    first, second = await unresolved(house), await unresolved(house, "slack:#dev")
    await house.settle()
    assert ((await house.delivery(first)).state, (await house.delivery(second)).state) == ("held", "sent")


async def test_a_local_target_is_resolved_without_any_connection(house, slack):
    sent = await house.deliver("one", account="local", address=None, target="local:#ops")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.chat) == ("sent", "ops")


async def test_a_target_text_that_is_no_target_fails_in_a_sentence(house, slack):
    await house.up()
    sent = await unresolved(house, "slack:nonsense here")
    await house.settle()
    row = await house.delivery(sent)
    assert row.state == "failed"
    assert "slack:nonsense here" in row.error
