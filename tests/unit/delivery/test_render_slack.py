"""What a reader sees of a brief in Slack."""

import pytest

from delivery.render import RenderedPart, render_slack
from delivery.render.slack_text import weigh

JOINER = "\u2060"
RULE = "\u2500" * 10


def block(part: RenderedPart) -> str:
    blocks = part.payload["blocks"]
    assert isinstance(blocks, list)
    (only,) = blocks
    assert only["type"] == "markdown"
    return str(only["text"])


def only(markdown: str) -> str:
    (part,) = render_slack(markdown)
    return block(part)


def fallback(markdown: str) -> str:
    return str(render_slack(markdown)[0].payload["text"])


@pytest.mark.parametrize("nothing", ["", "  \n\t\n", "\u200b\u200e", "\ufeff"])
def test_an_empty_brief_makes_no_message(nothing: str) -> None:
    assert render_slack(nothing) == ()


@pytest.mark.parametrize(
    "markdown",
    [
        "## Builds\n\n3 **failed**, *one* is ~~flaky~~, see `make check`.",
        "- one\n- two\n  - three\n\n3. four\n4. five",
        "[the run](https://ci.example.com/b/(1)) took 5 * 3 * 2 s in snake_case_name",
        "> quoted\n>\n> twice",
        "a line\nand the next",
        "see https://e.org/a_b?x=1&y=2 now",
    ],
)
def test_what_slack_knows_is_left_as_it_was_written(markdown: str) -> None:
    assert only(markdown) == markdown


@pytest.mark.parametrize(
    "spelling",
    ["<!channel>", "<!here>", "<!everyone>", "<!subteam^S012>", "<@U0123>", "@here", "@channel", "@everyone", "@Here"],
)
@pytest.mark.parametrize(
    "form",
    ["{}", "**{}**", "`{}`", "```\n{}\n```", "| a |\n|---|\n| {} |", "[{}](https://e.org)", "> {}", "# {}", "- {}"],
)
def test_nothing_in_a_brief_pings_and_the_reader_sees_the_same(spelling: str, form: str) -> None:
    (part,) = render_slack(form.format(spelling))
    for text in (block(part), str(part.payload["text"])):
        seen = text.replace("&lt;", "<").replace("&gt;", ">")
        assert spelling not in seen
        assert spelling in seen.replace(JOINER, "")
    assert part.text == form.format(spelling)


@pytest.mark.parametrize(
    "hidden",
    [r"<\!channel>", r"\<!channel>", "&lt;!channel&gt;", "&#60;!channel>", "<**!channel**>"],
)
def test_a_ping_that_is_hidden_behind_markup_is_none_either(hidden: str) -> None:
    assert f"<{JOINER}" in only(hidden).replace("&lt;", "<")


def test_an_address_of_mail_is_not_taken_for_a_ping() -> None:
    assert JOINER not in only("write to here@example.com or kim@hereford.example")


def test_text_in_angle_brackets_is_shown() -> None:
    assert only("List<int> & <beyond> a < b") == "List&lt;int&gt; & &lt;beyond&gt; a < b"
    assert only("`List<int> & x`") == "`List<int> & x`"
    assert fallback("List<int> & <beyond>") == "List&lt;int&gt; &amp; &lt;beyond&gt;"


def test_a_table_is_aligned_in_a_fence() -> None:
    assert only("| name | n |\n|---|--:|\n| one | 1 |\n| 漢字 | 200 |") == (
        "```\nname |   n\n-----+----\none  |   1\n漢字 | 200\n```"
    )


def test_a_cell_may_hold_a_pipe_and_cells_beyond_the_header_are_kept() -> None:
    assert only("| a |\n|---|\n| 1\\|2 | extra |") == "```\na\n----+------\n1|2 | extra\n```"


def test_the_links_of_a_table_stand_below_it() -> None:
    assert only("| a |\n|---|\n| [run](https://e.org/1) |").endswith("```\n\n[run](https://e.org/1)")


def test_tasks_and_rules_are_shown_with_signs() -> None:
    assert (
        only("- [ ] open\n- [x] done\n\n---\n\nend") == "- \u2610 open\n- \u2611 done\n\n" + "\u2500" * 10 + "\n\nend"
    )


def test_a_fence_inside_a_list_stands_outside_of_it() -> None:
    assert only("- a\n\n  ```sh\n  ls\n  ```\n- b") == "- a\n\n```\nls\n```\n\n- b"


def test_a_fence_that_holds_backticks_gets_a_longer_one() -> None:
    assert only("````\na\n```\nb\n````") == "````\na\n```\nb\n````"


def test_very_deep_lists_stay_readable() -> None:
    text = only("\n".join("  " * depth + f"- level{depth}" for depth in range(12)))
    assert all(f"- level{depth}" in text for depth in range(12))
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) <= 8


def test_a_picture_is_a_link() -> None:
    assert only("![the chart](https://e.org/c.png)") == "[the chart](https://e.org/c.png)"


def test_an_exclamation_before_a_link_does_not_make_it_a_picture() -> None:
    assert only("Done\\![here](https://e.org)") == "Done\\![here](https://e.org)"


def test_an_address_that_slack_cannot_link_is_written_out() -> None:
    assert only("[the guide](docs/guide.md)") == "the guide (docs/guide.md)"
    (part,) = render_slack(f"[long](https://e.org/{'x' * 3_000})")
    assert "x" * 3_000 in block(part).replace("\n", "")
    assert part.degraded == "a link too long for the platform is written out"


def test_text_that_looks_like_markup_stays_text() -> None:
    assert only("1986\\. A year") == "1986\\. A year"
    assert only("\\*no bold\\*") == "\\*no bold\\*"
    assert only("a\n\\# no heading") == "a\n\\# no heading"


def test_the_fallback_is_plain_and_short() -> None:
    assert fallback("## **Three** builds\n\n- [one](https://e.org)") == "Three builds\n- one"
    text = fallback("\u6f22 " * 5_000)
    assert len(text.encode()) <= 3_800 and text.endswith("\u2026")


def test_a_health_report_longer_than_any_limit_of_slack_arrives_whole() -> None:
    for size in (3_001, 4_100, 13_300, 40_001):
        report = ("check passed & well <ok> " * size)[:size]
        parts = render_slack(report)
        assert "".join(part.text for part in parts) == report
        assert all(weigh(block(part)) <= 11_000 for part in parts)


def test_parts_are_numbered_where_there_are_several() -> None:
    items = "".join(f"{n}. {'word ' * 99}\n" for n in range(1, 31))
    parts = render_slack(items)
    assert [block(part).rsplit("\n", 1)[1] for part in parts] == ["(1/2)", "(2/2)"]
    assert all("(1/2)" not in part.text for part in parts)
    seen = "\n".join(block(part) for part in parts)
    assert all(f"\n{n}. word" in f"\n{seen}" for n in range(1, 31))


def test_a_fence_longer_than_a_part_is_closed_and_opened_again() -> None:
    code = "".join(f"line {n}\n" for n in range(3_000))
    parts = render_slack(f"```python\n{code}```\n")
    assert len(parts) > 1
    for part in parts:
        body, _, marker = block(part).rpartition("\n\n")
        assert body.startswith("```\nline ") and body.endswith("\n```") and marker.startswith("(")
    assert "".join(part.text for part in parts) == f"```python\n{code}```\n"


def test_each_part_of_a_long_table_has_its_header() -> None:
    rows = "".join(f"| row{n} | {'v' * 40} |\n" for n in range(600))
    parts = render_slack(f"| name | value |\n|---|---|\n{rows}")
    assert len(parts) > 1
    assert all(block(part).startswith("```\nname") for part in parts)
    assert [part.text.startswith("| name |") for part in parts] == [True] + [False] * (len(parts) - 1)


def test_a_part_that_begins_inside_a_deep_list_is_no_code() -> None:
    deep = "".join(f"- top {n}\n  - mid {n}\n    - low {n} {'x ' * 60}\n" for n in range(120))
    for part in render_slack(deep)[1:]:
        assert block(part)[0] == "-"
