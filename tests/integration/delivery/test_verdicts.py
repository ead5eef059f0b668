"""What a person settles from the command line."""

import pytest

from delivery.model import CannotTell, InDoubt, Rejected, Sent
from delivery.outbox import OutboxError, resend, resolve


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.up()
    await house.start()
    return platform


async def doubtful(house, slack):
    slack.sends.append(InDoubt(reason="timeout"))
    slack.finds.extend([CannotTell(reason="it cannot be asked")] * 40)
    sent = await house.deliver("one")
    await house.after(40)
    return sent


async def say(house, verb, *words):
    found = await house.db.write(lambda conn: verb(conn, *words, house.clock.now()))
    house.dispatcher.wake()
    await house.settle()
    return found


async def test_resolve_sent_ends_the_doubt_and_sends_nothing(house, slack):
    sent = await doubtful(house, slack)
    await say(house, resolve, sent, "sent")
    row = await house.delivery(sent)
    assert (row.state, slack.said()) == ("degraded", ["one"])
    assert row.error == "a person says that it arrived; its message id is not known"


async def test_resolve_resend_sends_it_again(house, slack):
    sent = await doubtful(house, slack)
    await say(house, resolve, sent, "resend")
    assert ((await house.delivery(sent)).state, slack.said()) == ("sent", ["one", "one"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("d-nowhere", "sent"), "there is no delivery d-nowhere: `hermes-cron runs --json` lists their ids"),
        (("it", "perhaps"), '"perhaps" is no verdict: say "sent" or "resend"'),
        (("it", "resend"), "delivery it is sent, not in doubt: there is nothing to settle"),
    ],
)
async def test_a_verdict_that_cannot_be_is_refused_in_a_sentence(house, slack, words, sentence):
    await house.deliver("one", id="it")
    await house.settle()
    with pytest.raises(OutboxError, match="^" + sentence.replace("(", r"\(") + "$"):
        await say(house, resolve, *words)
    assert slack.said() == ["one"]


async def test_resend_sends_only_what_was_refused(house, slack):
    async def arrives(part):
        return Sent(receipt=slack.receipt(part))

    slack.sends.extend([arrives, Rejected(reason="too long"), arrives])
    sent = await house.deliver("one", "two", "three")
    await house.settle()
    run_id = (await house.delivery(sent)).run_id
    again = await say(house, resend, run_id, "slack:C1")
    assert ([one.id for one in again], slack.said()) == ([sent], ["one", "two", "three", "two"])
    assert (await house.delivery(sent)).state == "sent"


async def test_resend_tries_a_chat_again_that_was_gone(house, slack):
    slack.sends.append(Rejected(reason="archived", chat_is_gone=True))
    sent = await house.deliver("one")
    await house.settle()
    await say(house, resend, (await house.delivery(sent)).run_id, None)
    assert (await house.delivery(sent)).state == "sent"


async def test_resend_looks_up_again_a_target_that_was_unknown(house, slack):
    sent = await house.deliver("one", address=None, target="slack:#ops", error="there is no channel #ops")
    await house.settle()
    await say(house, resend, (await house.delivery(sent)).run_id, None)
    assert ((await house.delivery(sent)).state, (await house.delivery(sent)).chat) == ("sent", "#ops")


async def test_resend_refuses_what_arrived_or_may_have(house, slack):
    sent = await doubtful(house, slack)
    run_id = (await house.delivery(sent)).run_id
    with pytest.raises(OutboxError, match=f"slack:C1 is in_doubt; say what became of it: hermes-cron resolve {sent}"):
        await say(house, resend, run_id, None)
    with pytest.raises(OutboxError, match="was not delivered to slack:#x: its targets are slack:C1"):
        await say(house, resend, run_id, "slack:#x")
    with pytest.raises(OutboxError, match="run nope has no deliveries"):
        await say(house, resend, "nope", None)
    assert slack.said() == ["one"]
