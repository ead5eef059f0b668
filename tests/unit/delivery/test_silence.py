"""When nothing is posted."""

import pytest

from delivery.silence import is_exactly_silent, is_silent


@pytest.mark.parametrize("brief", ["", "  \n", "\u200b", "[SILENT]", "\n [SILENT] \n"])
def test_an_empty_brief_and_the_token_alone_are_silence(brief: str) -> None:
    assert is_silent(brief)


@pytest.mark.parametrize(
    "damaged",
    [
        "[SILENT",
        "SILENT]",
        " [silent] ",
        "`[SILENT]`",
        "**[SILENT]**",
        '"[SILENT]"',
        "[SILENT].",
        "[ SILENT ]",
        "\\[SILENT\\]",
        "```\n[SILENT]\n```",
        "[[SILENT]]",
        "SILENT",
        "[Silent",
        "\u200b[SILENT]\u200b",
        "\x1b[0m[SILENT]",
    ],
)
def test_a_damaged_token_never_reaches_the_reader(damaged: str) -> None:
    assert is_silent(damaged)
    assert not is_exactly_silent(damaged)


@pytest.mark.parametrize(
    "report",
    [
        "Deployed 3 fixes. Docs now explain [SILENT].",
        "The flag --silent-empty is gone",
        "[SILENT] was written to the log",
        "[SILENT] but 2 failed",
        "no [SILENT]",
        "silent",
        "Silence.",
        "[SILENTLY]",
        "(silent)",
        "0",
        ".",
        "[]",
        "`[SILENT]` is the token",
        "2 invites, not urgent\n[SILENT]",
    ],
)
def test_a_report_that_mentions_the_token_is_delivered(report: str) -> None:
    assert not is_silent(report)
