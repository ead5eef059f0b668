"""Which chat a name means."""

import pytest

from delivery.directory import address_of, choose
from delivery.model import ChatKind
from delivery.ports import Chat, TargetUnresolved
from delivery.targets import parse_target

OPS = Chat(chat="C1", name="ops", kind=ChatKind.CHANNEL)
OPS_EU = Chat(chat="C2", name="ops-eu", kind=ChatKind.CHANNEL)
KIM = Chat(chat="D7", name="Kim", kind=ChatKind.DM)
KIM_CHANNEL = Chat(chat="C3", name="kim", kind=ChatKind.CHANNEL)
FORUM = Chat(chat="-100777", name="Builds", kind=ChatKind.FORUM)
TOPIC = Chat(chat="-100777", name="Nightly", kind=ChatKind.FORUM, topic="5")
ALL = [OPS, OPS_EU, KIM, KIM_CHANNEL, FORUM, TOPIC]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("C2", OPS_EU),
        ("-100777", FORUM),
        ("#ops", OPS),
        ("OPS", OPS),
        ("#ops-", OPS_EU),
        ("@kim", KIM),
        ("@KI", KIM),
        ("#kim", KIM_CHANNEL),
        ("buil", FORUM),
    ],
)
def test_a_chat_is_found_by_id_by_name_and_by_the_unique_beginning_of_one(name, meant):
    assert choose(ALL, "slack", name) == meant


@pytest.mark.parametrize("name", ["#nowhere", "c2", "Nightly", "#", ""])
def test_what_is_not_there_is_not_found(name):
    assert choose(ALL, "slack", name) is None


def test_an_ambiguous_beginning_is_refused_with_the_candidates():
    with pytest.raises(TargetUnresolved) as refused:
        choose([OPS_EU, Chat(chat="C9", name="ops-us", kind=ChatKind.CHANNEL)], "slack", "#ops")
    assert refused.value.reason == (
        '"#ops" may mean ops-eu (slack:C2), ops-us (slack:C9): write the one that is meant by its id'
    )
    assert refused.value.final


@pytest.mark.parametrize("chat", [FORUM, Chat(chat="-100777", name="", kind=ChatKind.GROUP)])
def test_an_explicit_topic_stays_whatever_the_directory_knows_of_the_chat(chat):
    target = parse_target("telegram:-100777/345", {"telegram": "telegram"})
    assert address_of(target, chat, "42").topic == "345"


def test_an_explicit_thread_stays_when_the_chat_is_found_by_name():
    target = parse_target("slack:#ops/1700000000.000100", {"slack": "slack"})
    assert address_of(target, OPS, "T1").root == "1700000000.000100"
