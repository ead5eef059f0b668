"""What a reader sees of a brief in Telegram."""

import json

import pytest
from unit.delivery.briefs import utf16_slice

from delivery.render import RenderedPart, render_telegram
from delivery.split import utf16_units


def text_of(part: RenderedPart) -> str:
    return str(part.payload["text"])


def entities(part: RenderedPart) -> list[tuple[str, str]]:
    """Return (type, the text under it) of a part's entities."""
    found = part.payload["entities"]
    assert isinstance(found, list)
    return [(e["type"], utf16_slice(text_of(part), e["offset"], e["length"])) for e in found]


def only(markdown: str) -> RenderedPart:
    (part,) = render_telegram(markdown)
    return part


@pytest.mark.parametrize("nothing", ["", " \n ", "\u200b", "\u202e\u2060"])
def test_an_empty_brief_makes_no_message(nothing: str) -> None:
    assert render_telegram(nothing) == ()


def test_every_kind_of_mark_becomes_an_entity() -> None:
    line = "**b** *i* ~~s~~ `c` [l](https://e.org/a_(b)) \U0001f600 **after**"
    part = only(f"# Head\n\n{line}\n\n> said\n\n```py\nx = 1\n```")
    assert text_of(part) == "Head\n\nb i s c l \U0001f600 after\n\nsaid\n\nx = 1"
    assert entities(part) == [
        ("bold", "Head"),
        ("bold", "b"),
        ("italic", "i"),
        ("strikethrough", "s"),
        ("code", "c"),
        ("text_link", "l"),
        ("bold", "after"),
        ("blockquote", "said"),
        ("pre", "x = 1"),
    ]
    found = part.payload["entities"]
    assert isinstance(found, list)
    assert found[5]["url"] == "https://e.org/a_(b)" and found[8]["language"] == "py"
    json.dumps(part.payload)


def test_what_looks_like_markup_is_kept() -> None:
    part = only("List<int> <beyond> & 5 * 3 * 2 snake_case_name (1/3) _x_y a&amp;b <!channel> 1. #x")
    assert text_of(part) == "List<int> <beyond> & 5 * 3 * 2 snake_case_name (1/3) _x_y a&b <!channel> 1. #x"
    assert entities(part) == []


def test_nested_lists_are_indented() -> None:
    assert text_of(only("- a\n  b\n  - c\n    1. d\n- [x] e")) == "\u2022 a\n  b\n  \u2022 c\n    1. d\n\u2022 \u2611 e"


def test_a_fence_may_hold_backticks() -> None:
    assert entities(only("````\na\n```\nb\n````")) == [("pre", "a\n```\nb")]


def test_a_table_is_aligned_in_pre() -> None:
    part = only("| name | n |\n|:--|--:|\n| **one** | 1 |\n| \u6f22\u5b57 | 200 |")
    assert entities(part) == [("pre", "name |   n\n-----+----\none  |   1\n\u6f22\u5b57 | 200")]


def test_marks_nest_as_telegram_allows() -> None:
    assert entities(only("**a `b` c**")) == [("bold", "a"), ("code", "b"), ("bold", " c")]
    assert entities(only("**[`x`](https://e.org)**")) == [("bold", "x"), ("text_link", "x")]
    assert entities(only("> a\n> > b\n>\n> ```\n> c\n> ```")) == [("blockquote", "a\n\n> b"), ("pre", "c")]


def test_a_link_that_telegram_cannot_carry_is_written_out() -> None:
    assert text_of(only("[guide](docs/a.md), [Kim](mailto:kim@e.org)")) == "guide (docs/a.md), Kim (kim@e.org)"


def test_a_curated_list_of_7500_characters_arrives_whole_and_numbered() -> None:
    brief = "\n".join(f"{n}. {'news ' * 99}" for n in range(1, 16))
    parts = render_telegram(brief)
    assert [text_of(part).rsplit("\n", 1)[1] for part in parts] == ["(1/2)", "(2/2)"]
    seen = "\n".join(text_of(part) for part in parts)
    assert all(f"\n{n}. news" in f"\n{seen}" for n in range(1, 16))
    assert "".join(part.text for part in parts) == brief
    assert not any("(1/2)" in part.text for part in parts)


def test_a_brief_that_just_fits_is_one_message_without_a_number() -> None:
    assert text_of(only("x" * 4_096)) == "x" * 4_096
    assert len(render_telegram("x" * 4_097)) == 2


@pytest.mark.parametrize("count", [3_000, 5_000])
def test_emoji_count_double_and_are_never_cut(count: int) -> None:
    parts = render_telegram("\U0001f600" * count)
    assert all(utf16_units(text_of(part)) <= 4_096 for part in parts)
    seen = "".join(text_of(part).rpartition("\n\n")[0] for part in parts)
    assert seen == "\U0001f600" * count == "".join(part.text for part in parts)


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize("character", [FAMILY, "\U0001f1e9\U0001f1ea", "e\u0301", "\U0001f44d\U0001f3fd"])
def test_a_character_of_several_is_not_cut(character: str) -> None:
    for shift in ("", "a", "ab"):
        brief = shift + character * 2_500
        for part in render_telegram(brief)[:-1]:
            assert part.text.endswith(character) and not part.text.removeprefix(shift).replace(character, "")


@pytest.mark.parametrize("shift", range(4_060, 4_100, 3))
def test_a_split_never_falls_inside_a_link_or_code(shift: int) -> None:
    marked = "[a link of words](https://e.org/x) and `some inline code` "
    parts = render_telegram("w " * (shift // 2) + marked + "end " * 50)
    assert len(parts) == 2
    found = [entity for part in parts for entity in entities(part)]
    assert found == [("text_link", "a link of words"), ("code", "some inline code")]
    assert all(part.text.count("[") == part.text.count("](") and part.text.count("`") % 2 == 0 for part in parts)


def test_bold_longer_than_a_part_goes_on_in_the_next() -> None:
    parts = render_telegram(f"**{'bold ' * 1_500}end**")
    assert len(parts) == 2
    assert all(kind == "bold" for part in parts for kind, _ in entities(part))


def test_blocks_then_lines_then_spaces_are_where_a_brief_is_cut() -> None:
    paragraphs = "\n\n".join("word " * 500 for _ in range(4))
    assert [part.text.endswith("\n\n") for part in render_telegram(paragraphs)[:-1]] == [True] * 3
    lines = "\n".join("word " * 20 for _ in range(100))
    assert all(part.text.endswith("\n") for part in render_telegram(lines)[:-1])
    assert all(part.text.endswith(" ") for part in render_telegram("word " * 3_000)[:-1])


def test_a_heading_stays_with_what_follows() -> None:
    brief = f"{'word ' * 600}\n\n## Next\n\n{'more ' * 400}"
    assert render_telegram(brief)[1].text.startswith("## Next")


def test_a_long_fence_is_opened_again_with_its_language() -> None:
    code = "x" * 4_100
    parts = render_telegram(f"```text\n{code}\n```")
    assert len(parts) == 2
    for part in parts:
        found = part.payload["entities"]
        assert isinstance(found, list)
        assert [(e["type"], e["language"]) for e in found] == [("pre", "text")]
    assert "".join(text for part in parts for _, text in entities(part)) == code


def test_indentation_survives_where_a_fence_is_cut() -> None:
    parts = render_telegram("```\n" + "    indented line\n" * 500 + "```")
    assert all(entities(part)[0][1].startswith("    indented") for part in parts)


def test_each_part_of_a_long_table_has_its_header() -> None:
    rows = "".join(f"| row{n} | {'v' * 60} |\n" for n in range(31))
    parts = render_telegram(f"| name | value |\n|---|---|\n{rows * 4}")
    assert len(parts) > 1
    assert all(entities(part)[0][1].startswith("name") for part in parts)
    assert "".join(part.text for part in parts).count("name") == 1


def test_a_brief_full_of_marks_keeps_them_all() -> None:
    parts = render_telegram("**b** " * 300)
    assert [len(entities(part)) for part in parts] == [100, 100, 100]


def test_terminal_colours_and_broken_characters_never_reach_a_chat() -> None:
    part = only("\x1b[31mred\x1b[0m a\x00b \ud83d\ude00 \ud83d! \u200fmarked")
    assert text_of(part) == "red a\ufffdb \U0001f600 \ufffd! \u200fmarked"
    assert part.text == text_of(part)


def test_a_definition_that_no_link_uses_is_shown() -> None:
    assert text_of(only("see [1]\n\n[1]: https://e.org\n[2]: https://f.org")) == "see 1\n\n[2]: https://f.org"


def test_what_is_nested_beyond_reason_is_shown_as_it_was_typed() -> None:
    part = only(">" * 200 + " still here\n\nand here")
    assert "still here" in text_of(part) and "and here" in text_of(part)
    assert part.degraded == "nested too deep: shown as it was written"
    bullets = only("- " * 200 + "still here")
    assert "still here" in text_of(bullets)


def test_blank_lines_without_end_make_no_empty_message() -> None:
    parts = render_telegram("```\n" + "\n" * 10_000 + "x\n```")
    assert [text_of(part) for part in parts] == ["x"]
    assert "".join(part.text for part in parts) == "```\n" + "\n" * 10_000 + "x\n```"
