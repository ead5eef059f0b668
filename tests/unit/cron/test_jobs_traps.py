"""YAML's traps: what a person types is what is read, or they are told which line to quote."""

from pathlib import Path

import pytest
from unit.cron.jobs_loading import ACCOUNTS, load, load_job, mistakes


@pytest.mark.parametrize("expression", ["*/30 * * * *", "* * * * *", "*/5 9-17 * * mon-fri", "*/5 * * * *,*/7"])
def test_an_unquoted_expression_that_begins_with_a_star_is_named_with_its_line(tmp_path: Path, expression: str) -> None:
    said = mistakes(tmp_path, f"# my jobs\njobs:\n  j:\n    schedule: {expression}\n    text: hi\n")
    assert said == [f'jobs.yaml:4:15: put the schedule in quotes: "{expression}"']


def test_an_unquoted_expression_in_a_list_is_named_too(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n  j:\n    schedule:\n      - */5 * * * *  # often\n    text: hi\n")
    assert said == ['jobs.yaml:4:9: put the schedule in quotes: "*/5 * * * *"']
    said = mistakes(tmp_path, "jobs:\n  j: {schedule: [*/5 * * * *], text: hi}\n")
    assert said == ['jobs.yaml:2:18: put the schedule in quotes: "*/5 * * * *"']


def test_an_unquoted_alias_of_cron_is_named(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n  j:\n    schedule: @daily\n    text: hi\n")
    assert said == ['jobs.yaml:3:15: put the schedule in quotes: "@daily"']


def test_an_unquoted_person_is_named(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n  j:\n    schedule: x\n    on_failure: @me\n    text: hi\n")
    assert 'jobs.yaml:4:17: a text that begins with "@" needs quotes: "@me"' in said


def test_an_unquoted_channel_is_no_empty_value(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'jobs:\n  j:\n    schedule: "@daily"\n    text: hi\n    deliver: #general\n')
    assert said == ['jobs.yaml:5:5: "#general" is read as a remark, because it begins with #: put the text in quotes']


def test_an_unquoted_channel_in_a_list_is_no_empty_value(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'jobs:\n  j:\n    schedule: "@daily"\n    text: hi\n    deliver:\n      - #ops\n')
    assert len(said) == 1
    assert '"#ops" is read as a remark' in said[0] and said[0].startswith("jobs.yaml:6:")


def test_an_unquoted_channel_in_brackets_swallows_the_bracket(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'jobs:\n  j:\n    schedule: "@daily"\n    text: hi\n    deliver: [local, #ops]\n')
    assert said == ['jobs.yaml:5:14: what follows a "#" is a remark, so this [ is never closed: put "#..." in quotes']


def test_a_text_cut_short_by_a_hash_is_said(tmp_path: Path) -> None:
    config = load(tmp_path, 'jobs:\n  j:\n    schedule: "@daily"\n    text: Build #4 failed\n')
    assert config.jobs["j"].text == "Build"
    assert [warning.split(": ", 1)[1] for warning in config.warnings] == [
        'what follows from "#4" on is a remark: put the text in quotes if it belongs to it'
    ]


def test_a_remark_is_no_trap(tmp_path: Path) -> None:
    config = load(tmp_path, 'jobs:\n  j:\n    schedule: "@daily"\n    text: fine   # a remark\n')
    assert config.warnings == ()


@pytest.mark.parametrize(
    "typed", ["15:00", "12:00:00", "09:30", "NO", "on", "0123", "1.50", "2026-12-24", "1e3", "0x1F"]
)
def test_what_yaml_would_call_a_number_stays_what_was_typed(tmp_path: Path, typed: str) -> None:
    assert load_job(tmp_path, f"text: {typed}").text == typed


def test_a_quoted_null_is_a_text(tmp_path: Path) -> None:
    assert load_job(tmp_path, 'text: "null"').text == "null"


@pytest.mark.parametrize("typed", ["", "~", "null"])
def test_a_key_without_a_value_is_refused(tmp_path: Path, typed: str) -> None:
    said = mistakes(tmp_path, f'jobs:\n  j:\n    schedule: "@daily"\n    text: hi\n    late: {typed}\n')
    assert [line.split(": ", 1)[1] for line in said] == ["nothing stands here: write a value, or remove the line"]


def test_an_allow_without_ids_never_opens_the_account(tmp_path: Path) -> None:
    said = mistakes(
        tmp_path, 'accounts:\n  telegram:\n    token: "${TELEGRAM_BOT_TOKEN}"\n    allow: # 123\njobs: {}\n'
    )
    assert [line.split(": ", 1)[1] for line in said] == ["nothing stands here: write a value, or remove the line"]


def test_a_place_written_as_a_mapping_is_put_right(tmp_path: Path) -> None:
    job = 'jobs:\n  j:\n    schedule: "@daily"\n    text: hi\n    deliver:\n      - telegram: -100777\n'
    assert mistakes(tmp_path, ACCOUNTS + job) == [
        "jobs.yaml:10:9: a text is wanted here, not a mapping: "
        'put it in quotes, "telegram: -100777" (in a place without the space: "telegram:-100777")'
    ]


def test_a_colon_inside_a_value_is_put_right(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'jobs:\n  j:\n    schedule: "@daily"\n    text: Note: this\n')
    assert len(said) == 1
    assert said[0].startswith("jobs.yaml:4:15: a colon and a space begin a new key: put the whole value in quotes")


def test_a_tab_is_named(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n\tj:\n\t\ttext: hi\n")
    assert said == ["jobs.yaml:2:1: a tab stands here: YAML is indented with spaces"]


def test_wrong_indentation_is_named(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n  j:\n    text: hi\n   late: 2h\n")
    assert said == ["jobs.yaml:4:4: this line does not fit the lines above: look at its indentation"]
    said = mistakes(tmp_path, "timezone: UTC\n jobs: {}\n")
    assert said == [
        "jobs.yaml:2:6: this line does not fit the line above: look at its indentation, and for a missing colon above"
    ]


def test_a_missing_colon_is_named_on_its_line(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n  j:\n    text: hi\n    schedule\n")
    assert said == ["jobs.yaml:4:5: a colon is missing here: a line is NAME: VALUE"]
    said = mistakes(tmp_path, "jobs:\n  j:\n    schedule\n    text: hi\n")
    assert said[0].startswith("jobs.yaml:4:9: ") and said[0].endswith("for a missing colon above")


def test_an_open_quote_is_named_where_it_opens(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'jobs:\n  j:\n    schedule: "0 8 * * *\n    text: hi\n')
    assert said == ["jobs.yaml:3:15: the quote that opens here is never closed"]


def test_a_backslash_in_double_quotes_is_explained(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'jobs:\n  j: {schedule: "@daily", text: "C:\\temp\\x\\q"}\n')
    assert len(said) == 1 and "write \\\\, or use single quotes" in said[0]


def test_several_documents_are_refused(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs: {}\n---\njobs: {}\n")
    assert said == ["jobs.yaml:2:1: a second document begins here (---): a jobs.yaml holds one"]


def test_one_document_may_begin_with_dashes(tmp_path: Path) -> None:
    assert list(load(tmp_path, '---\njobs: {j: {schedule: "@daily", text: hi}}\n').jobs) == ["j"]


def test_all_traps_and_all_other_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = """jobs:
  one:
    schedule: */5 * * * *
    text: hi
  two:
    schedule: @hourly
    deliver: nowhere
    text: hi
  three:
    shedule: "@daily"
    text: hi
    timeout: 5
    command: true
  four: {schedule: "61 * * * *", text: hi}
"""
    assert mistakes(tmp_path, text) == [
        'jobs.yaml:3:15: put the schedule in quotes: "*/5 * * * *"',
        'jobs.yaml:6:15: put the schedule in quotes: "@hourly"',
        'jobs.yaml:7:14: "nowhere" is neither a name from targets nor a place: write an account, a colon and a place',
        "jobs.yaml:9:3: a job has `command` and `text`: keep one of `command`, `prompt` or `text`",
        'jobs.yaml:9:3: a job needs a schedule: add one, such as schedule: "0 8 * * mon-fri" or "every 2h"',
        'jobs.yaml:10:5: "shedule" is not known here: did you mean `schedule`?',
        'jobs.yaml:12:14: "5" has no unit: write 5s, 5m or 5h',
        "jobs.yaml:14:21: minute: 61 is more than 59; write a number from 0 to 59",
    ]


# --- anchors --------------------------------------------------------------------------------------


def test_anchors_aliases_and_merge_keys_work(tmp_path: Path) -> None:
    text = """
x-common: &common {schedule: "@daily", late: 30m, surface: thread}
jobs:
  a: {<<: *common, text: &words hello}
  b: {<<: [*common], text: *words, late: 45m}
"""
    jobs = load(tmp_path, text).jobs
    assert (jobs["a"].text, jobs["a"].late, jobs["a"].surface) == ("hello", jobs["a"].late, "thread")
    assert (jobs["b"].text, str(jobs["b"].late)) == ("hello", "0:45:00")


def test_aliases_that_explode_are_refused_in_a_sentence(tmp_path: Path) -> None:
    lines = ["x0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert mistakes(tmp_path, "\n".join(lines)) == [
        "jobs.yaml: aliases (*name) expand to more than 500,000 values: write less with anchors"
    ]


def test_an_anchor_that_contains_itself_is_refused(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "jobs: &a {b: *a}\n") == [
        "jobs.yaml:1:7: the anchor here contains itself: remove the loop"
    ]


def test_an_alias_of_nothing_is_named(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "jobs:\n  j: {<<: *comon, text: hi}\n")
    assert 'jobs.yaml:2:11: no anchor "&comon" stands above; if this is a text, put it in quotes: "*comon"' in said


@pytest.mark.parametrize(
    "text", ["[" * 500 + "]" * 500, "{a: " * 5000, "- " * 20000 + "x", "a: " + "[" * 45 + "]" * 45]
)
def test_deep_nesting_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    said = mistakes(tmp_path, text)
    assert "the file is nested too deeply" in said[0]


def test_duplicate_keys_are_found_at_every_depth(tmp_path: Path) -> None:
    text = """jobs:
  j: {schedule: "@daily", text: hi, late: 1h, late: 2h}
  k: {schedule: "@daily", text: hi}
  j: {schedule: "@daily", text: again}
"""
    assert mistakes(tmp_path, text) == [
        'jobs.yaml:2:47: "late" stands here twice (first in line 2): rename or remove one',
        'jobs.yaml:4:3: "j" stands here twice (first in line 2): rename or remove one',
    ]


@pytest.mark.parametrize("tag", ["!vault x", "!!python/object/apply:os.system [true]", "!!binary aGk="])
def test_tags_are_refused(tmp_path: Path, tag: str) -> None:
    said = mistakes(tmp_path, f'jobs:\n  j:\n    schedule: "@daily"\n    text: {tag}\n')
    assert any(line.startswith("jobs.yaml:4:11: the tag !") and "means nothing here" in line for line in said)
