"""Target texts: each form is read, written back, or refused with the way out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.targets import Target, TargetError, format_target, parse_target

ACCOUNTS = {"slack": "slack", "telegram": "telegram", "work": "slack", "local": "local"}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("slack:#ops", Target(account="slack", chat="#ops")),
        ("work:#ops", Target(account="work", chat="#ops")),
        ("slack:#Über-uns_1", Target(account="slack", chat="#über-uns_1")),
        ("slack:C0123", Target(account="slack", chat="C0123")),
        ("slack:C0123/1700000000.000100", Target(account="slack", chat="C0123", thread="1700000000.000100")),
        ("slack:#ops/1700000000.000100", Target(account="slack", chat="#ops", thread="1700000000.000100")),
        ("slack:@kim", Target(account="slack", chat="@kim")),
        ("slack:@Kim de Vries", Target(account="slack", chat="@Kim de Vries")),
        ("slack:U0123", Target(account="slack", chat="U0123")),
        ("slack:D0123", Target(account="slack", chat="D0123")),
        ("telegram:123456789", Target(account="telegram", chat="123456789")),
        ("telegram:-100777", Target(account="telegram", chat="-100777")),
        ("telegram:-100777/23", Target(account="telegram", chat="-100777", topic="23")),
        ("telegram:-100777/1", Target(account="telegram", chat="-100777")),
        ("telegram:@channelname", Target(account="telegram", chat="@channelname")),
        ("local", Target(account="local", chat="general")),
        ("local:#general", Target(account="local", chat="general")),
        ("local:#ops", Target(account="local", chat="ops")),
        ("local:#ops/17", Target(account="local", chat="ops", thread="17")),
        ("  slack: #ops ", Target(account="slack", chat="#ops")),
    ],
)
def test_every_form_is_read(text: str, target: Target) -> None:
    read = parse_target(text, ACCOUNTS)
    assert read == target
    assert read.raw == text
    assert parse_target(str(read), ACCOUNTS) == read


@pytest.mark.parametrize(
    "text",
    [
        "local",
        "local:#ops",
        "slack:#ops",
        "slack:C0123/1700000000.000100",
        "telegram:-100777/23",
        "telegram:@channelname",
    ],
)
def test_canonical_texts_are_written_as_they_were_read(text: str) -> None:
    assert format_target(parse_target(text, ACCOUNTS)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty target"),
        ("slack", '"slack" names an account but no place: write slack:#ops, slack:@kim or slack:C0123456789'),
        ("telegram:", '"telegram:" names an account but no place'),
        ("local:", '"local:" ends after the colon: write local or local:#ops'),
        ("slak:#ops", '"slak:#ops" names the account "slak", which is not in accounts: did you mean slack:...?'),
        ("123456789", '"123456789" names no account: write "telegram:123456789"'),
        ("-100777", '"-100777" names no account: write "telegram:-100777"'),
        ("#ops", '"#ops" names no account: write "slack:#ops"'),
        ("C0123456", '"C0123456" names no account: write "slack:C0123456"'),
        ("slack:ops", "write slack:#ops for a channel, slack:@ops for a person"),
        ("slack:c0123", 'Slack ids are written in capitals: write "slack:C0123"'),
        ("slack:#two words", "is no place in Slack"),
        ("slack:C0123/1776825190.6816", "exactly six decimals"),
        ("slack:C0123/1776825190", "exactly six decimals"),
        ("slack:C0123/1776825190.6816000", "exactly six decimals"),
        ("slack:C0123/", "after the slash goes its timestamp"),
        ("slack:C0123/1700000000.000100/2", "is no thread"),
        ("telegram:channelname", 'a Telegram name begins with @: write "telegram:@channelname"'),
        ("telegram:#ops", "is no place in Telegram"),
        ("telegram:-100777/x", "after the slash goes its number"),
        ("telegram:-100777/0", "after the slash goes its number"),
        ("telegram:1e9", "is no place in Telegram"),
        ("telegram:0", "is no place in Telegram"),
        ("local:ops", "is no local channel: write local:#ops"),
        ("local:#ops/a b", "after the slash goes the id of a message"),
        ("slack:#ops\nX", "no control characters or line breaks"),
        ("slack:#" + "x" * 300, "at most 200 characters"),
        ("slack:#ops, telegram:5", "is no place in Slack"),
    ],
)
def test_what_names_no_place_is_refused_with_the_way_out(text: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(text, ACCOUNTS)
    assert said in str(caught.value)


@pytest.mark.parametrize("number", [123456789, 1776825190.6816, True])
def test_a_number_is_refused_at_the_boundary(number: object) -> None:
    with pytest.raises(TargetError, match="not a number"):
        parse_target(number, ACCOUNTS)  # type: ignore[arg-type]


def test_two_spellings_are_one_place() -> None:
    one, other = parse_target("telegram:@News", ACCOUNTS), parse_target("telegram:@news", ACCOUNTS)
    assert one.place == other.place
    assert parse_target("local", {}).place == parse_target("local:#General", {}).place


_NAMES = st.text(alphabet=st.characters(categories=["Ll", "Nd"], include_characters="-_"), min_size=1, max_size=40)
_TS = st.from_regex(r"[1-9][0-9]{9}\.[0-9]{6}", fullmatch=True)
_SLACK = st.builds(
    lambda chat, thread: Target(account="slack", chat=chat, thread=thread),
    st.one_of(_NAMES.map(lambda name: "#" + name.lower()), st.from_regex(r"[CDU][A-Z0-9]{4,10}", fullmatch=True)),
    st.none() | _TS,
)
_TELEGRAM = st.builds(
    lambda chat, topic: Target(account="telegram", chat=str(chat), topic=None if topic is None else str(topic)),
    st.integers(-(10**14), 10**12).filter(bool),
    st.none() | st.integers(2, 10**9),
)
_LOCAL = st.builds(
    lambda chat, thread: Target(account="local", chat=chat.lower(), thread=None if thread is None else str(thread)),
    _NAMES,
    st.none() | st.integers(1, 10**9),
)


@given(st.one_of(_SLACK, _TELEGRAM, _LOCAL))
def test_writing_and_reading_round_trip(target: Target) -> None:
    assert parse_target(format_target(target), ACCOUNTS) == target


@given(st.text(max_size=60))
def test_no_text_is_more_than_refused(text: str) -> None:
    try:
        target = parse_target(text, ACCOUNTS)
    except TargetError:
        return
    assert parse_target(str(target), ACCOUNTS) == target
