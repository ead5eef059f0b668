"""Whatever people write around a mention, taking it out loses nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.platforms.telegram_words import words_of
from delivery.split import utf16_units

NAME = "@brief_bot"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def words(text: str, *entities: dict[str, Any]) -> tuple[str, bool]:
    found = words_of({"text": text, "entities": list(entities)}, bot_id=7, username="Brief_Bot")
    assert found is not None
    return found.text, found.mentioned


@given(before=TEXTS, after=TEXTS)
def test_only_the_name_and_the_space_around_it_go(before: str, after: str) -> None:
    entity = {"type": "mention", "offset": utf16_units(before), "length": len(NAME)}
    text, mentioned = words(f"{before}{NAME}{after}", entity)
    assert mentioned

    def bare(said: str) -> str:
        return "".join(said.split())

    rest = bare(after)
    allowed = {bare(before) + rest}
    if not before.strip():
        allowed.add(rest.removeprefix(",").removeprefix(":") if rest[:1] in (",", ":") else rest)
        allowed.add(rest[1:] if rest[:1] in (",", ":") else rest)
    assert bare(text) in allowed


@given(text=TEXTS.filter(bool))
def test_a_text_without_mentions_stays_exactly_as_it_is(text: str) -> None:
    assert words(text) == (text, False)


@pytest.mark.parametrize(
    "entity",
    [
        {"type": "mention", "offset": 40, "length": 10},
        {"type": "mention", "offset": 0, "length": 0},
        {"type": "bold", "offset": 0, "length": 10},
        {"type": "bot_command", "offset": 0, "length": 10},
        {"type": "text_mention", "offset": 0, "length": 10, "user": {"id": 8}},
    ],
)
def test_what_does_not_name_us_stays(entity: dict[str, Any]) -> None:
    assert words(f"{NAME} why?", entity) == (f"{NAME} why?", False)


def test_a_bot_without_a_name_is_never_mentioned_by_one() -> None:
    entity = {"type": "mention", "offset": 0, "length": len(NAME)}
    found = words_of({"text": NAME, "entities": [entity]}, bot_id=7, username=None)
    assert found is not None and (found.text, found.mentioned) == (NAME, False)


def test_nothing_but_the_mention_leaves_no_text() -> None:
    assert words(NAME, {"type": "mention", "offset": 0, "length": len(NAME)}) == ("", True)


def test_a_message_of_a_kind_that_is_not_known_says_nothing() -> None:
    assert words_of({"message_id": 1, "hologram": {}}, bot_id=7, username=None) is None
