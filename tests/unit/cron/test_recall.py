"""What the recall agent quotes: the right lines, from the right brief, and never a word of its own."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cron.agents.ports import BriefRequest, ComposeFailed
from cron.agents.recall import SHOWN, RecallAgent
from delivery.model import Address, ChatKind, InboundId
from seeding.model import Origin, Question, Role, SessionId, Turn
from seeding.ports import AnswerFailed

AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
PLACE = Address(account="local", workspace="local", chat="general", chat_kind=ChatKind.CHANNEL)
BUILDS = """Three builds failed:

1. api: out of memory
   - twice, on host-7
2. web: a test timed out
3. docs: a dead link
"""


def brief(text: str, *, job: str = "builds", hours: int = 0, delivery: str | None = None) -> Turn:
    at = AT + timedelta(hours=hours)
    return Turn(
        role=Role.USER,
        text=f"[Cron delivery: {job}]\n{text}",
        at=at,
        origin=Origin.CRON,
        job=job,
        delivery_id=delivery or f"{job}-{hours}",
    )


def said(text: str) -> Turn:
    return Turn(role=Role.USER, text=text, at=AT, origin=Origin.INBOUND, author="kim")


def answered(text: str) -> Turn:
    return Turn(role=Role.ASSISTANT, text=text, at=AT, origin=Origin.ANSWER)


async def ask(text: str, *turns: Turn, answers: str | None = None, zone: str = "UTC") -> str:
    question = Question(
        inbound_id=InboundId(1),
        session_id=SessionId("s"),
        job=None,
        text=text,
        author="kim",
        address=PLACE,
        transcript=(*turns, said(text)),
        briefs=frozenset() if answers is None else frozenset({answers}),
    )
    return await RecallAgent().answer(question, ZoneInfo(zone))


async def quoted(text: str, *turns: Turn, answers: str | None = None) -> list[str]:
    """Return the quoted lines, without the sign of a quote."""
    answer = await ask(text, *(turns or (brief(BUILDS),)), answers=answers)
    return [line.removeprefix("> ") for line in answer.splitlines() if line.startswith("> ")]


API = ["1. api: out of memory", "   - twice, on host-7"]
WEB = ["2. web: a test timed out"]
DOCS = ["3. docs: a dead link"]


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("why did the second one fail?", WEB),
        ("Second?", WEB),
        ("the 2nd, please", WEB),
        ("2?", WEB),
        ("and #3", DOCS),
        ("what is number two about", WEB),
        ("item 3 again", DOCS),
        ("why did 2 fail?", WEB),
        ("what about three?", DOCS),
        ("the first", API),
        ("and the last?", DOCS),
        ("the last one", DOCS),
        ("the first two", [*API, *WEB]),
        ("the last two", [*WEB, *DOCS]),
        ("the second and the third", [*WEB, *DOCS]),
    ],
)
async def test_items_can_be_counted_to(question, lines):
    assert await quoted(question) == lines


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("warum ist der zweite fehlgeschlagen?", WEB),
        ("und der letzte?", DOCS),
        ("pourquoi la deuxième ?", WEB),
        ("¿y el último?", DOCS),
        ("e o segundo?", WEB),
        ("perché il terzo?", DOCS),
        ("waarom de tweede?", WEB),
        ("a co z drugim? drugi?", WEB),
        ("что со вторым?", WEB),
        ("第二个为什么失败了", WEB),
        ("2番目は?", WEB),
        ("最后一个呢", DOCS),
    ],
)
async def test_items_can_be_counted_to_in_other_languages(question, lines):
    assert await quoted(question) == lines


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("what about docs?", DOCS),
        ("WEB", WEB),
        ("what timed out?", WEB),
        ("the time-out?", WEB),
        ("which links are dead?", DOCS),
        ("what ran out of memory", API),
        ("memry?", API),
        ("host-7", API),
        ("Döcs?", DOCS),
    ],
)
async def test_words_find_their_line_whatever_their_form(question, lines):
    assert await quoted(question) == lines


async def test_a_question_for_a_heading_brings_what_stands_below_it():
    assert await quoted("which builds failed?") == ["Three builds failed:", *API, *WEB, *DOCS]


@pytest.mark.parametrize(
    "question", ["what happened in the last 24 hours?", "anything since last night?", "how many per second?"]
)
async def test_words_that_only_look_like_a_place_do_not_count(question):
    assert "this is how it begins" in await ask(question, brief(BUILDS))


async def test_the_second_failed_build_is_the_second_of_those_that_failed():
    text = "- api failed\n- web is fine\n- docs failed\n"
    assert await quoted("the second failed build?", brief(text)) == ["- docs failed"]
    assert await quoted("the second one failed, why?", brief(text)) == ["- web is fine"]


async def test_what_hangs_below_an_item_is_no_item():
    text = "- api\n  - memory\n  - disk\n- web\n\n  a paragraph of web\n- docs\n"
    assert await quoted("the second?", brief(text)) == ["- web", "  a paragraph of web"]


async def test_a_list_that_goes_on_below_a_second_heading_is_counted_by_its_numbers():
    text = "## Failed\n1. api\n2. web\n## Slow\n3. docs\n4. cli\n"
    assert await quoted("the fourth?", brief(text)) == ["4. cli"]


async def test_rows_of_a_table_are_counted_and_keep_their_head():
    text = "Builds:\n\n| build | why |\n|---|---|\n| api | memory |\n| web | timeout |\n"
    assert await quoted("the second?", brief(text)) == ["| build | why |", "|---|---|", "| web | timeout |"]


async def test_lines_of_a_script_are_counted_where_there_is_no_list():
    text = "3 hosts are down:\nweb-1 disk full\nweb-2 no ping\nweb-3 rebooting"
    assert await quoted("the second?", brief(text)) == ["web-2 no ping"]


async def test_a_list_inside_code_is_no_list_and_code_stays_code():
    text = "- one\n- two\n```\n- not an item\n$ make *all*\n```\n"
    assert await quoted("the third?", brief(text)) != ["- not an item"]
    assert await quoted("what did make do?", brief(text)) == ["`$ make *all*`"]


async def test_emoji_are_words():
    assert await quoted("what about 🔥?", brief("✅ api ok\n🔥 web burns")) == ["🔥 web burns"]


async def test_a_language_without_spaces_finds_its_words():
    assert await quoted("网页怎么了", brief("三个构建失败：\n1. 接口：内存不足\n2. 网页：测试超时\n")) == [
        "2. 网页：测试超时"
    ]


# --- which brief ----------------------------------------------------------------------------------------

FRUIT = "1. apples are cheap\n2. pears are sold out\n"


async def test_the_newest_brief_is_meant_unless_something_says_otherwise():
    assert await quoted("the second?", brief(BUILDS), brief(FRUIT, job="fruit", hours=1)) == ["2. pears are sold out"]


async def test_the_brief_that_is_answered_comes_before_a_newer_one():
    turns = brief(BUILDS), brief(FRUIT, job="fruit", hours=1)
    assert await quoted("the second?", *turns, answers="builds-0") == WEB


async def test_a_brief_that_is_named_is_meant():
    turns = brief(BUILDS), brief(FRUIT, job="fruit", hours=1)
    assert await quoted("the second of the builds?", *turns) == WEB


async def test_an_older_brief_is_quoted_where_only_it_speaks_of_the_question():
    turns = brief(BUILDS), brief(FRUIT, job="fruit", hours=1)
    assert await quoted("why did web time out?", *turns) == WEB


async def test_of_many_alike_the_newest_is_quoted_and_dated():
    answer = await ask("web?", *(brief(BUILDS, hours=24 * day) for day in range(30)))
    assert answer.startswith("From “builds”, 2026-12-30 08:00 UTC:")


async def test_the_conversation_stays_with_the_brief_that_was_last_spoken_of():
    turns = [brief(BUILDS), brief(FRUIT, job="fruit", hours=1)]
    first = await ask("why did web time out?", *turns)
    talk = [*turns, said("why did web time out?"), answered(first)]
    assert await quoted("and the third?", *talk) == DOCS
    assert await quoted("and the second?", *talk, brief(FRUIT, job="fruit", hours=2)) == ["2. pears are sold out"]


async def test_instants_are_told_in_the_zone_of_the_job():
    answer = await ask("web?", brief(BUILDS), zone="Europe/Berlin")
    assert answer == "From “builds”, 2026-12-01 09:00 CET:\n\n> 2. web: a test timed out"


# --- nothing is invented --------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["is the coffee ready?", "the fifth?", "👍", "#99"])
async def test_what_matches_nothing_is_said_so(question):
    answer = await ask(question, brief(BUILDS))
    assert answer.startswith("From “builds”, 2026-12-01 08:00 UTC. Nothing in it matches the question")


@pytest.mark.parametrize("question", ["", "???", "what happened?"])
async def test_a_question_without_words_gets_the_beginning(question):
    assert await quoted(question) == ["Three builds failed:", *API, *WEB, *DOCS]


async def test_every_quoted_line_is_a_line_of_a_brief():
    lines = set(BUILDS.splitlines())
    for question in ("second?", "docs", "builds", "nonsense", "the last two", "memory or links?"):
        assert set(await quoted(question)) <= lines


async def test_a_long_answer_is_cut_and_says_how_much_is_left():
    text = "\n".join(f"- host {n} is down" for n in range(30))
    answer = await ask("which hosts?", brief(text))
    assert (answer.count("\n> "), answer.endswith(f"({30 - SHOWN} more lines in it)")) == (SHOWN, True)


async def test_a_very_long_line_is_cut():
    assert len((await quoted("word", brief("word " * 5_000)))[0]) < 600


async def test_without_a_brief_it_says_so():
    assert "no brief in this conversation" in await ask("the second?", said("hello"), answered("hi"))


async def test_a_brief_without_text_cannot_be_quoted():
    with pytest.raises(AnswerFailed):
        await ask("the second?", brief("\n\n"))


async def test_what_people_and_answers_said_is_never_quoted_as_a_brief():
    turns = brief(BUILDS), said("the zebra is loose"), answered("what zebra")
    assert "zebra" not in await ask("zebra?", *turns)


async def test_it_writes_no_briefs():
    with pytest.raises(ComposeFailed) as caught:
        await RecallAgent().compose(BriefRequest(job=None, due=AT, run_id="r"), None)  # type: ignore[arg-type]
    assert not caught.value.is_transient
