"""What holds for every brief, on every platform."""

import re
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.delivery.briefs import anything, long_briefs, noise, read_slack, utf16_slice

from delivery.render import RenderedPart, render_local, render_slack, render_telegram, slack, telegram, to_html
from delivery.render.clean import clean, is_blank
from delivery.render.layout import lay_out
from delivery.render.paging import render_parts
from delivery.render.slack_text import weigh
from delivery.render.tree import parse
from delivery.split import utf16_units

# Long briefs are slow to draw.
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RENDERERS = (render_slack, render_telegram, render_local)
_PRESENTATION = re.compile(r"[\s\u2610\u2611\u203a]")


def bare(text: str) -> str:
    """Return a text without spaces and what only rendering adds."""
    return _PRESENTATION.sub("", text)


def split_small(markdown: str) -> dict[str, Sequence[RenderedPart]]:
    """Render into parts of about a thousand characters, so that short briefs are split too."""
    document = parse(markdown)
    return {
        "telegram": render_parts(
            document, lay_out(document, telegram._DIALECT), lambda room: telegram.TelegramWriter("x" * 3_000 + room)
        ),
        "slack": render_parts(
            document, lay_out(document, slack._DIALECT), lambda room: slack.SlackWriter("x" * 10_000 + room)
        ),
    }


@few
@given(anything)
def test_the_texts_of_the_parts_are_the_brief(markdown: str) -> None:
    for render in RENDERERS:
        parts = render(markdown)
        assert "".join(part.text for part in parts) == (clean(markdown) if parts else "")
        assert bool(parts) or not re.search(r"\w", clean(markdown)) or not is_blank(markdown)


@few
@given(long_briefs)
def test_the_texts_of_many_parts_are_the_brief(markdown: str) -> None:
    for parts in split_small(markdown).values():
        assert "".join(part.text for part in parts) == clean(markdown)
        assert all(part.text for part in parts)


@few
@given(st.one_of(anything, long_briefs))
def test_every_telegram_part_is_one_that_telegram_takes(markdown: str) -> None:
    for part in (*render_telegram(markdown), *split_small(markdown)["telegram"]):
        text, entities = part.payload["text"], part.payload["entities"]
        assert isinstance(text, str) and isinstance(entities, list)
        assert 0 < utf16_units(text) <= 4_096 and len(entities) <= 100
        assert not is_blank(text)
        text.encode()
        for entity in entities:
            assert entity["offset"] >= 0 and entity["length"] > 0
            assert entity["offset"] + entity["length"] <= utf16_units(text)
            utf16_slice(text, entity["offset"], entity["length"])
        _assert_well_nested(entities)


def _assert_well_nested(entities: list[dict[str, object]]) -> None:
    ranges = [(int(str(e["offset"])), int(str(e["offset"])) + int(str(e["length"])), str(e["type"])) for e in entities]
    assert [start for start, *_ in ranges] == sorted(start for start, *_ in ranges)
    for index, (start, end, kind) in enumerate(ranges):
        for other_start, other_end, other in ranges[index + 1 :]:
            assert other_start >= end or other_end <= end, (kind, other)
            if other_start < end:
                assert kind not in ("pre", "code") and other != "pre", (kind, other)
                assert {kind, other} != {"text_link"} and {kind, other} != {"blockquote"}
                assert start <= other_start


@few
@given(st.one_of(anything, long_briefs))
def test_every_slack_part_is_one_that_slack_takes(markdown: str) -> None:
    for part in (*render_slack(markdown), *split_small(markdown)["slack"]):
        blocks, text = part.payload["blocks"], part.payload["text"]
        assert isinstance(blocks, list) and isinstance(text, str)
        assert 0 < weigh(blocks[0]["text"]) <= 11_000
        assert 0 < len(text.encode()) <= 3_800
        assert not is_blank(text)


@few
@given(anything)
def test_a_reader_sees_in_slack_what_was_written(markdown: str) -> None:
    written = ""
    for piece in lay_out(parse(markdown), slack._DIALECT).pieces:
        # Slack has no quotes in quotes: what is in one is text, a list's marker too.
        marker = piece.line.marker if piece.is_first and piece.line.quote > 1 else ""
        written += (marker + piece.text).replace("\u2060", "")
    parts = render_slack(markdown)
    if len(parts) == 1:
        assert bare(read_slack(parts[0].payload)) == bare(written)


@few
@given(long_briefs)
def test_no_word_is_lost_on_any_platform(markdown: str) -> None:
    words = re.findall(r"[a-z]+[0-9]+", markdown.replace("https://e.org/a_(b)", ""))
    small = split_small(markdown)
    seen = {
        "slack": " ".join(read_slack(part.payload) for part in small["slack"]),
        "telegram": " ".join(str(part.payload["text"]) for part in small["telegram"]),
        "page": to_html(markdown),
    }
    for text in seen.values():
        assert [word for word in words if word not in text] == []


@few
@given(anything)
def test_rendering_again_gives_the_same(markdown: str) -> None:
    for render in RENDERERS:
        assert render(markdown) == render(markdown)
    assert clean(clean(markdown)) == clean(markdown)


@few
@given(st.one_of(noise, anything))
def test_nothing_pings_in_slack(markdown: str) -> None:
    for spelling in ("<!channel>", "<@U123>", "@here", "@everyone", "<!subteam^S1>"):
        for part in render_slack(f"{markdown} {spelling} {markdown}"):
            blocks = part.payload["blocks"]
            assert isinstance(blocks, list)
            for text in (str(part.payload["text"]), blocks[0]["text"]):
                assert not re.search(r"<[!@]|&lt;[!@]|@(here|channel|everyone)\b", text, re.IGNORECASE)


@few
@given(anything)
def test_the_page_never_gets_a_tag_of_the_briefs_own(markdown: str) -> None:
    tags = set(re.findall(r"</?([a-zA-Z][a-zA-Z0-9]*)", to_html(markdown)))
    known = "p br em strong s code pre a ul ol li blockquote h1 h2 h3 h4 h5 h6 hr table thead tbody tr th td"
    assert tags <= set(known.split())


@few
@given(st.text(alphabet="a😀\u200d\U0001f3fd\u0301 🇩", min_size=1, max_size=600).map(lambda text: text * 5))
def test_no_character_as_a_reader_counts_it_is_cut(markdown: str) -> None:
    for before, after in pairwise(split_small(markdown)["telegram"]):
        if " " not in before.text[-300:]:
            continue  # a character longer than a piece is cut somewhere
        assert after.text[0] not in "\u200d\U0001f3fd\u0301" or before.text[-1] == " "
