"""The spot that an answer names is a spot that the brief was bound to: every platform, chat, surface and rule."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seedbed import START

from delivery.model import Address, Author, ChatKind, Inbound, PartKind
from seeding.keys import (
    candidates_for,
    flat_key,
    is_flat,
    keys_for,
    message_key,
    moved,
    thread_key,
)
from seeding.model import ChatRules, Landed, Listen, SessionScope

component = st.text(min_size=0, max_size=6) | st.text(alphabet=":%=/#|- ab1", max_size=8)
maybe = st.none() | component


@given(
    st.tuples(component, component, component, maybe, maybe), st.tuples(component, component, component, maybe, maybe)
)
def test_two_different_flat_spots_never_have_one_name(one, other):
    def spell(spot):
        return flat_key(account=spot[0], workspace=spot[1], chat=spot[2], topic=spot[3], user=spot[4])

    assert (spell(one) == spell(other)) == (one == other)


@given(st.tuples(*[component] * 4), st.tuples(*[component] * 4), maybe)
def test_two_different_messages_never_have_one_name_nor_that_of_a_chat(one, other, topic):
    def spell(spot):
        return thread_key(account=spot[0], workspace=spot[1], chat=spot[2], message=spot[3])

    assert (spell(one) == spell(other)) == (one == other)
    assert spell(one) != flat_key(account=other[0], workspace=other[1], chat=other[2], topic=topic)


@given(st.tuples(*[component] * 4), component)
def test_a_moved_key_is_the_key_of_the_new_chat(spot, chat):
    account, workspace, old, last = spot
    thread = thread_key(account=account, workspace=workspace, chat=old, message=last)
    flat = flat_key(account=account, workspace=workspace, chat=old, topic=last)
    assert moved(thread, chat=chat) == thread_key(account=account, workspace=workspace, chat=chat, message=last)
    assert moved(flat, chat=chat) == flat_key(account=account, workspace=workspace, chat=chat, topic=last)
    assert (is_flat(thread), is_flat(flat)) == (False, True)


# --- the table of DESIGN.md, section 8, and its further spots --------------------------------------------


@dataclass(frozen=True)
class Case:
    """A posted brief and everything a person's answer to it may look like on the wire."""

    landed: tuple[Landed, ...]
    answers: tuple[Inbound, ...]
    rules: ChatRules


def text(address: Address, message: str, **more: object) -> Landed:
    return Landed(kind=PartKind.TEXT, address=replace(address, message=message, **more))


def wrote(address: Address, *, user: str = "U1", **more: object) -> Inbound:
    named = replace(address, message="900", **{k: more.pop(k) for k in ("topic", "root") if k in more})
    return Inbound(address=named, author=Author(id=user, name="Kim"), text="why?", at=START, **more)


def slack(kind: ChatKind) -> Address:
    return Address(account="slack", workspace="T1", chat="C1", chat_kind=kind)


def telegram(kind: ChatKind, topic: str | None = None) -> Address:
    return Address(account="tg", workspace="42", chat="-100", chat_kind=kind, topic=topic)


parts = st.integers(1, 4).map(lambda n: [f"10{k}" for k in range(1, n + 1)])
listens = st.sampled_from(Listen)
scopes = st.sampled_from(SessionScope)


@st.composite
def threaded_cases(draw: st.DrawFn) -> Case:
    """Slack and the local page: threads are places."""
    kind = draw(st.sampled_from([ChatKind.DM, ChatKind.GROUP, ChatKind.CHANNEL]))
    where = slack(kind) if draw(st.booleans()) else replace(slack(kind), account="local", workspace="local")
    messages = draw(parts)
    how = draw(st.sampled_from(["flat", "thread", "existing"]))
    rules = ChatRules(listen=draw(listens), sessions=draw(scopes), has_threads=True)
    quotes = [wrote(where, quoted=(message,)) for message in messages]
    flat = [wrote(where)]
    match how:
        case "flat":
            landed = [text(where, message) for message in messages]
            under = [wrote(where, root=message) for message in messages]
        case "thread":
            opening = Landed(kind=PartKind.HEADER, address=replace(where, message="100"))
            landed = [opening, *(text(where, message, root="100") for message in messages)]
            under = [wrote(where, root="100"), wrote(where, root="100", quoted=("777",))]
        case _:
            landed = [text(where, message, root="50") for message in messages]
            under, flat = [wrote(where, root="50")], []
    edits = [replace(one, is_edit=True) for one in under]
    return Case(landed=tuple(landed), answers=(*under, *quotes, *flat, *edits), rules=rules)


@st.composite
def quoting_cases(draw: st.DrawFn) -> Case:
    """Telegram: an answer quotes; topics are places."""
    kind = draw(st.sampled_from([ChatKind.DM, ChatKind.GROUP, ChatKind.FORUM]))
    messages = draw(parts)
    general = draw(st.sampled_from([None, "", "1"]))
    topic = draw(st.sampled_from([general, "23"])) if kind is not ChatKind.GROUP else None
    opened = kind is not ChatKind.GROUP and draw(st.booleans())
    where = telegram(kind, "77" if opened else topic)
    rules = ChatRules(listen=draw(listens), sessions=draw(scopes), has_threads=False)
    landed = [text(where, message) for message in messages]
    if opened:
        landed.insert(0, Landed(kind=PartKind.TOPIC, address=replace(where, message="77")))
    replies = [wrote(where, root=message) for message in messages]
    elsewhere = [wrote(telegram(kind, "55"), quoted=(message,)) for message in messages]
    chains = [wrote(where, root="888", thread=message) for message in messages]
    comments = [wrote(telegram(ChatKind.GROUP), root="999", copied_root=(where.chat, message)) for message in messages]
    comments = [replace(one, address=replace(one.address, chat="-200")) for one in comments]
    plain = [wrote(where)]
    if opened:
        plain.append(wrote(telegram(kind, general)))  # in the chat itself, not in the topic
    return Case(landed=tuple(landed), answers=(*replies, *elsewhere, *chains, *comments, *plain), rules=rules)


@given(threaded_cases() | quoting_cases(), st.sampled_from(["U1", "U2"]))
def test_the_first_bound_candidate_of_any_answer_is_a_spot_of_the_brief(case: Case, user: str):
    for answer in case.answers:
        answer = replace(answer, author=Author(id=user, name=user))
        mine = keys_for(case.landed, case.rules, user=user)
        own = {*mine.flat, *mine.thread}
        # Other briefs of the account are bound as well; none of them may catch the answer first.
        others = {
            flat_key(account="tg", workspace="42", chat="-200"),
            flat_key(account="slack", workspace="T1", chat="C2"),
            thread_key(account="tg", workspace="43", chat="-100", message="101"),
        }
        first = next((one.key for one in candidates_for(answer, case.rules) if one.key in own | others), None)
        assert first in own


@given(threaded_cases() | quoting_cases())
def test_a_message_of_the_brief_that_is_answered_leads_to_its_own_session_not_to_the_flat_one(case: Case):
    keys = keys_for(case.landed, case.rules, user="U1")
    assert not set(keys.flat) & set(keys.thread)
    for answer in case.answers:
        if answer.address.root is None:
            continue
        first = next(one.key for one in candidates_for(answer, case.rules) if one.key in {*keys.flat, *keys.thread})
        assert first in keys.thread


SHARED = ChatRules()
OWN = ChatRules(sessions=SessionScope.PER_USER)
QUOTING = ChatRules(has_threads=False)


def test_a_broadcast_from_a_thread_is_in_its_thread_never_flat():
    found = candidates_for(wrote(slack(ChatKind.CHANNEL), root="5.5"), SHARED)
    assert [one.key for one in found] == [thread_key(account="slack", workspace="T1", chat="C1", message="5.5")]


def test_an_answer_to_an_unknown_message_where_answers_quote_is_part_of_the_flat_conversation():
    found = candidates_for(wrote(telegram(ChatKind.DM), root="5"), QUOTING)
    assert [one.key for one in found][-1] == flat_key(account="tg", workspace="42", chat="-100")


def test_what_is_answered_counts_before_what_is_quoted_before_the_thread_before_the_chat():
    found = candidates_for(wrote(telegram(ChatKind.GROUP), root="1", quoted=("2",), thread="3"), QUOTING)
    assert [one.message for one in found] == [("-100", "1"), ("-100", "2"), ("-100", "3"), None]


def test_an_edit_means_the_conversation_of_the_first_version():
    found = candidates_for(replace(wrote(slack(ChatKind.CHANNEL)), is_edit=True), SHARED)
    assert found[0].key == message_key(replace(slack(ChatKind.CHANNEL), message="900"))


@pytest.mark.parametrize("general", [None, "", "1"])
def test_the_general_topic_has_one_name_however_it_is_written(general):
    found = candidates_for(wrote(telegram(ChatKind.FORUM, general)), QUOTING)
    assert [one.key for one in found] == [flat_key(account="tg", workspace="42", chat="-100")]


def test_each_person_has_their_own_flat_spot_but_a_dm_has_one():
    channel, dm = slack(ChatKind.CHANNEL), slack(ChatKind.DM)
    keys = [candidates_for(wrote(channel, user=user), OWN)[-1].key for user in ("U1", "U2")]
    assert len(set(keys)) == 2
    assert len({candidates_for(wrote(dm, user=user), OWN)[-1].key for user in ("U1", "U2")}) == 1
    assert keys_for([text(channel, "1")], OWN).flat == ()
    assert keys_for([text(channel, "1")], OWN, user="U1").flat == (keys[0],)


def test_the_thread_of_another_person_is_the_same_thread():
    one, two = (candidates_for(wrote(slack(ChatKind.CHANNEL), user=user, root="1"), OWN) for user in ("U1", "U2"))
    assert [each.key for each in one] == [each.key for each in two]


def test_the_author_s_company_is_no_part_of_a_key():
    """In a shared channel both sides are known by our own workspace, which receipts carry too."""
    brief = text(slack(ChatKind.CHANNEL), "1")
    assert message_key(brief.address) in [
        one.key for one in candidates_for(wrote(slack(ChatKind.CHANNEL), root="1"), SHARED)
    ]


def test_an_address_without_a_message_has_no_thread_key():
    with pytest.raises(ValueError, match="no thread key"):
        message_key(slack(ChatKind.CHANNEL))
