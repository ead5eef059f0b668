"""What is said about mistakes in jobs.yaml: the place, and what to write instead."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from unit.cron.jobs_loading import ENVIRON, load, mistakes

from cron.jobs import ConfigError, load_config

JOB = 'jobs:\n  j:\n    schedule: "@daily"\n    text: hi\n'


def said_of(folder: Path, line: str, *, before: str = "") -> list[str]:
    """Return what is said about one more line of a job, without the file's name."""
    return [mistake.removeprefix("jobs.yaml:") for mistake in mistakes(folder, f"{before}{JOB}    {line}\n")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("timeot: 1m", '5:5: "timeot" is not known here: did you mean `timeout`?'),
        ("time-out: 1m", '5:5: "time-out" is not known here: did you mean `timeout`?'),
        ("Timeout: 1m", '5:5: "Timeout" is not known here: did you mean `timeout`?'),
        ("catch-up: all", '5:5: "catch-up" is not known here: did you mean `catch_up`?'),
        ("continues: true", '5:5: "continues" is not known here: did you mean `continue`?'),
        ("attach_to_session: true", '5:5: "attach_to_session" is not known here: write `continue`'),
        ("cron_continuable_surface: flat", '5:5: "cron_continuable_surface" is not known here: write `surface`'),
        ("max_instances: 1", '5:5: "max_instances" is not known here: write `overlap`'),
        ("misfire_grace_time: 1", '5:5: "misfire_grace_time" is not known here: write `late`'),
        ("tz: UTC", '5:5: "tz" is not known here: write `timezone`'),
        ("from: 2027-01-01", '5:5: "from" is not known here: write `start`'),
        ("surface: channel", '5:14: "channel" is not known here: write flat or thread'),
        ("overlap: wait", '5:14: "wait" is not known here: write skip, queue, cancel or allow'),
        ("continue: maybe", '5:15: "maybe" is neither true nor false'),
        ("late: 10", '5:11: "10" has no unit: write 10s, 10m or 10h'),
        ("late: soon", '5:11: "soon" is no length of time: write 90s, 10m, 2h, 1h30m or 1d'),
        ("late: 0s", '5:11: "0s" is too short: one second (1s) is the least'),
        ("timeout: 99999d", "5:14: 99999d is too long; write ten years (3660d) at most"),
        ("retry: {attempts: 0}", '5:23: "0" is no whole number of 1 or more'),
        ("retry: {attempts: 3, delay: 5s}", '5:26: "delay" is not known here: the keys are attempts, wait'),
        ("stop_after: few", '5:17: "few" is no whole number of 1 or more'),
        ("deliver: [local, here]", '5:22: "here" is neither a name from targets nor a place: '
         "write an account, a colon and a place"),
        ("deliver: 123456789", '5:14: "123456789" names no account: write "telegram:123456789"'),
        ("deliver: []", "5:14: this delivers to nobody: name a place, such as local"),
        ("deliver: {local: x}", '5:14: a text is wanted here, not a mapping: put it in quotes, '
         '"local: x" (in a place without the space: "local:x")'),
        ("on_failure: nobody", '5:17: "nobody" is neither a name from targets nor a place: '
         "write an account, a colon and a place"),
        ("context_from: [k]", '5:20: there is no job "k" here: name a job of this file, or self'),
        ("agent: kim", '5:12: there is no agent "kim": agents are recall'),
        ("env: {A: b}", "5:5: `env` is for a `command`, and this job has `text`: remove it"),
        ("cwd: /tmp", "5:5: `cwd` is for a `command`, and this job has `text`: remove it"),
        ("timezone: Europe/Berln", '5:15: "Europe/Berln" is no IANA time zone; did you mean Europe/Berlin?'),
        ("start: tomorrow", "5:12: tomorrow is no date and time; write 2026-06-22T20:07, 2026-06-22T20:07-04:00 "
         "or 2026-06-22"),
        ("except: [christmas]", '5:13: "christmas" is no day: write it as 2026-12-25, '
             "2026-12-24..2027-01-02, holidays:DE or team.ics"),
        ("except: 2027-01-02..2027-01-01", '5:13: "2027-01-02..2027-01-01" is no span of days: '
         "the first comes first, and 400 days are the most"),
        ("times: -1", '5:12: "-1" is no whole number of 1 or more'),
        ("prompt: Write.", "2:3: a job has `prompt` and `text`: keep one of `command`, `prompt` or `text`"),
        ("was: j", '5:10: was: "j" is a job of this file: rename it, or remove `was`'),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit(tmp_path: Path, line: str, said: str) -> None:
    assert said in said_of(tmp_path, line)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("{schedule: '@daily'}", "2:3: a job needs one of `command`, `prompt` or `text`"),
        ("{text: hi}", '2:3: a job needs a schedule: add one, such as schedule: "0 8 * * mon-fri" or "every 2h"'),
        ("[a]", "2:6: a mapping is wanted here: indented lines of NAME: VALUE"),
        ("{schedule: '0 8 * *', text: hi}", "2:18: there are 4 fields; write 5"),
        ("{schedule: ['@daily', '0 25 * * *'], text: hi}", "2:31: hour: 25 is more than 23"),
        ("{schedule: '0 0 31 2 *', text: hi}", "never fires"),
        ("{schedule: every 0s, text: hi}", "shortest interval"),
        ("{schedule: '@daily', command: []}", "2:36: an empty command: write [program, argument, ...]"),
        ("{schedule: '@daily', command: [a], shell: true}", "with shell: true the command is one text, not a list"),
        ("{schedule: '@daily', command: 'echo ''x'}", "the quotes in this command do not fit"),
        ("{schedule: '@daily', command: [env], env: {'A B': c}}", '"A B" is no name of a variable'),
        ("{schedule: '@daily', command: [env], env: {A: }}", 'A has no value: write "" for an empty one'),
        ("{schedule: '@daily', command: [a, {b: c}]}", "2:40: a text is wanted here, not a mapping"),
        ("{schedule: '@daily', prompt: x}", "2:27: nobody writes this prompt: add agents:"),
        (
            "{schedule: '@daily', prompt: x, agent: recall}",
            'agent "recall" only recalls, it cannot write: name another',
        ),
        ("{schedule: '@daily', text: ''}", "2:33: an empty text: write something, or remove the line"),
    ],
)
def test_a_job_that_does_not_fit(tmp_path: Path, job: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes(tmp_path, f"jobs:\n  j: {job}\n"))


@pytest.mark.parametrize(
    ("accounts", "said"),
    [
        ("work: {token: x}", '2:3: say which platform "work" is: add kind: slack or kind: telegram'),
        ("local: {}", "2:3: `local` is always there: remove it from accounts"),
        ("slack: {app_token: xapp-1}", '2:3: slack needs `bot_token`: add bot_token: "${NAME_OF_THE_VARIABLE}"'),
        ("slack: {bot_token: xapp-1}", "2:22: this token begins with xapp-: it belongs under `app_token`"),
        ("slack: {bot_token: xoxb-1, token: x}", "2:30: slack has no `token`: write bot_token and app_token"),
        ("telegram: {token: ''}", "2:21: an empty text: write something, or remove the line"),
        ("telegram: {token: 1:a b}", "2:21: `token` holds white space: copy the token again"),
        ("telegram: {token: '1:a', allow: [kim]}", '2:36: "kim" is no id: names can change, '
         "so write a number such as 123456789, or everyone"),
        ("telegram: {token: '1:a', allow: [everyone, 5]}", '2:36: "everyone" is no id'),
        ("slack: {bot_token: xoxb-1, allow: '@kim'}", '2:37: "@kim" is no id'),
        ("telegram: {token: '1:a', base_url: localhost}", '2:38: "localhost" is no address'),
        ("telegram: {kind: discord, token: '1:a'}", '2:20: "discord" is not known here: write slack or telegram'),
        ("'my slack': {kind: slack, bot_token: xoxb-1}", "2:3: 'my slack' is no name for an account"),
        ("telegram: {token: '1:a', allowed_users: [1]}", '2:28: "allowed_users" is not known here: write `allow`'),
    ],
)  # fmt: skip
def test_an_account_that_does_not_fit(tmp_path: Path, accounts: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes(tmp_path, f"accounts:\n  {accounts}\njobs: {{}}\n"))


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("{}", "2:3: an agent needs a kind: add kind: command, prompt or recall"),
        ("{kind: text}", '2:13: "text" is not known here: write command, prompt or recall'),
        ("{kind: command}", "2:3: an agent of kind command needs a `command`"),
        ("{kind: prompt, api_key: k}", "2:3: an agent of kind prompt needs a `model`"),
        ("{kind: prompt, model: m}", "an agent of kind prompt needs an `api_key`"),
        ("{kind: recall, model: m}", "2:21: an agent of kind recall has no use for `model`: remove it"),
        ("{kind: prompt, model: m, api_key: k, system: x}", "write `instructions`"),
    ],
)
def test_an_agent_that_does_not_fit(tmp_path: Path, agent: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes(tmp_path, f"agents:\n  a: {agent}\njobs: {{}}\n"))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("a: slack:#ops", '2:6: "slack:#ops" names the account "slack", which is not in accounts: accounts are local'),
        ("a: {listen: all}", '2:3: a target needs a place: add one, such as to: "slack:#ops"'),
        ("a: {to: local, listen: some}", '2:26: "some" is not known here: write mentions or all'),
        ("local: 'local:#x'", '2:3: "local" is no name for a target'),
        ("'a:b': local", '2:3: "a:b" is no name for a target'),
        ("a: local:ops", '2:6: "local:ops" is no local channel: write local:#ops'),
    ],
)
def test_a_target_that_does_not_fit(tmp_path: Path, target: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes(tmp_path, f"targets:\n  {target}\njobs: {{}}\n"))


def test_one_wrong_account_is_one_mistake(tmp_path: Path) -> None:
    text = (
        "accounts: {slack: {app_token: xapp-1}}\ntargets: {ops: 'slack:#ops'}\n"
        + JOB
        + "    deliver: [ops, 'slack:#x']\n"
    )
    assert len(mistakes(tmp_path, text)) == 1


@pytest.mark.parametrize("section", ["accounts", "targets", "agents", "defaults", "jobs"])
def test_a_section_that_is_a_list_is_refused(tmp_path: Path, section: str) -> None:
    said = mistakes(tmp_path, f"{section}: [a]\n")
    assert said == [
        f"jobs.yaml:1:{len(section) + 3}: a mapping is wanted here: indented lines of NAME: {{...}} in {section}"
    ]


@pytest.mark.parametrize("section", ["accounts", "targets", "agents", "defaults"])
def test_an_empty_section_is_none(tmp_path: Path, section: str) -> None:
    assert list(load(tmp_path, f"{section}:\n{JOB}").jobs) == ["j"]


def test_unknown_sections_are_never_ignored(tmp_path: Path) -> None:
    assert mistakes(tmp_path, JOB + "cron: {jobs: [prune]}\n") == [
        'jobs.yaml:5:1: "cron" is not known here: the keys are timezone, max_running, '
        "catch_up_running, accounts, targets, agents, defaults, jobs"
    ]


def test_a_file_without_jobs_is_said(tmp_path: Path) -> None:
    assert load(tmp_path, "jobs:\n").warnings == (f"{tmp_path}/jobs.yaml: there are no jobs here",)


def test_two_jobs_cannot_have_been_one(tmp_path: Path) -> None:
    text = 'jobs:\n  a: {schedule: "@daily", text: x, was: c}\n  b: {schedule: "@daily", text: x, was: c}\n'
    assert mistakes(tmp_path, text) == ['jobs.yaml:3:41: was: "c" is what "a" was, too: keep one']


@pytest.mark.parametrize(
    ("name", "said"), [("a\\nb", "'a\\nb'"), ("a\\e[31m", "'a\\x1b[31m'"), ("a\\u2028", "'a\\u2028'")]
)
def test_control_characters_in_names_are_refused(tmp_path: Path, name: str, said: str) -> None:
    found = mistakes(tmp_path, f'jobs: {{"{name}": {{schedule: "@daily", text: hi}}}}\n')
    assert found == [f"jobs.yaml:1:8: the name of a job holds control characters: {said}"]


def test_names_are_neither_empty_nor_endless(tmp_path: Path) -> None:
    text = f'jobs: {{" ": {{schedule: "@daily", text: hi}}, "{"x" * 201}": {{schedule: "@daily", text: hi}}}}\n'
    assert [mistake.split(": ", 1)[1] for mistake in mistakes(tmp_path, text)] == [
        "the name of a job is empty",
        "the name of a job has 201 characters; 200 are the most",
    ]


def test_what_is_quoted_from_the_file_fits_a_terminal(tmp_path: Path) -> None:
    said = mistakes(tmp_path, f'jobs: {{j: {{schedule: "@daily", text: hi, late: "a\\nb\\e[31m{"x" * 5000}"}}}}\n')
    assert said[0].startswith('jobs.yaml:1:48: "a b\ufffd[31mxxx') and len(said[0]) < 700


def test_a_mistake_in_an_anchor_is_told_once(tmp_path: Path) -> None:
    jobs = "".join(f"  j{n}: {{<<: *base, text: hi}}\n" for n in range(50))
    assert mistakes(tmp_path, f'x-base: &base {{schedule: "@daily", late: never}}\njobs:\n{jobs}') == [
        'jobs.yaml:1:42: "never" is no length of time: write 90s, 10m, 2h, 1h30m or 1d'
    ]


def test_schedules_are_commented_on_when_the_present_is_known(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text('timezone: UTC\njobs: {j: {schedule: "2020-01-01T08:00", text: hi}}\n')
    now = datetime(2026, 12, 1, tzinfo=UTC)
    warnings = load_config(path, environ={}, host_zone=None, now=now).warnings
    assert len(warnings) == 1 and "no occurrence left" in warnings[0]
    assert warnings[0].startswith(f"{path}:2:12: ")
    assert load_config(path, environ={}, host_zone=None).warnings == ()


# --- the file itself ------------------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "jobs.yaml", environ={}, host_zone=None)
    assert caught.value.mistakes == (f"{tmp_path}/jobs.yaml: there is no such file: `hermes-cron init` writes one",)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, environ={}, host_zone=None)
    assert caught.value.mistakes == (f"{tmp_path}: this is a folder: name the file, such as jobs.yaml",)


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Be a user whom file modes bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_no_empty_configuration(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOB)
    path.chmod(0)
    request.getfixturevalue("as_nobody")
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={}, host_zone=None)
    assert caught.value.mistakes == (f"{path}: config unreadable: permission denied (look at its owner and mode)",)


def test_links_that_loop(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.symlink_to(path)
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={}, host_zone=None)
    assert caught.value.mistakes == (f"{path}: config unreadable: too many levels of symbolic links",)


@pytest.mark.parametrize("text", ["", "\n\n", "# only remarks\n", "\ufeff"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    assert mistakes(tmp_path, text) == ["jobs.yaml: the file is empty: `hermes-cron init` writes one to begin with"]


@pytest.mark.parametrize("text", ["hello", "[a, b]", "- a\n- b\n"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    assert mistakes(tmp_path, text) == ["jobs.yaml:1:1: the file is a mapping: begin with a line such as jobs:"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_bom_and_windows_line_ends_are_fine(tmp_path: Path, bom: str, newline: str) -> None:
    text = bom + JOB.replace("hi", "Grüße").replace("\n", newline)
    assert load(tmp_path, text.encode()).jobs["j"].text == "Grüße"


def test_places_are_right_with_a_bom_and_windows_line_ends(tmp_path: Path) -> None:
    text = "\ufeff" + (JOB + "    late: x\n").replace("\n", "\r\n")
    assert mistakes(tmp_path, text.encode())[0].startswith("jobs.yaml:5:11: ")
    text = "\ufeffjobs:\r\n  j:\r\n    schedule: */5 * * * *\r\n    text: hi\r\n"
    assert mistakes(tmp_path, text.encode()) == ['jobs.yaml:3:15: put the schedule in quotes: "*/5 * * * *"']


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    said = mistakes(tmp_path, JOB.encode(encoding))
    assert len(said) == 1 and said[0].endswith("save it as UTF-8")


def test_a_latin_1_file_is_named_with_its_place(tmp_path: Path) -> None:
    said = mistakes(tmp_path, JOB.replace("hi", "für").encode("latin-1"))
    assert said == ["jobs.yaml:4:12: the byte 0xFC here is not UTF-8: save the file as UTF-8"]


def test_control_characters_in_the_file_are_named(tmp_path: Path) -> None:
    said = mistakes(tmp_path, JOB.replace("hi", "h\x07i\x1b"))
    assert said == [
        "jobs.yaml:4:12: the control character U+0007 stands here: remove it",
        "jobs.yaml:4:14: the control character U+001B stands here: remove it",
    ]


def test_no_environment_of_the_process_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_TEST_WORD", "leaked")
    assert mistakes(tmp_path, JOB.replace("hi", "${HERMES_TEST_WORD}"), environ=ENVIRON) == [
        "jobs.yaml:4:11: HERMES_TEST_WORD is not set: set it in the environment, or in .env beside this file"
    ]
