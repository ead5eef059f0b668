"""What a good jobs.yaml becomes: every field comes back as it was written, and what is left out has its default."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from unit.cron.jobs_loading import ACCOUNTS, ENVIRON, load, load_job, mistakes

from cron.jobs_models import AccountModel, AgentModel, ConfigModel, DefaultsModel, JobModel, RetryModel, TargetModel
from cron.jobs_shape import known_keys
from cron.model import (
    EVERYONE,
    RECALL,
    AccountKind,
    AccountSpec,
    AgentKind,
    AgentSpec,
    CatchUp,
    Job,
    Listen,
    Overlap,
    RepeatedHour,
    Retry,
    SessionScope,
    TargetSpec,
    ZoneSource,
)
from cron.schedules.days import Days, DaySpan
from delivery.model import Surface
from delivery.targets import Target

H, M, S = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)

JOB_FIELDS: dict[str, tuple[str, str, object]] = {
    # the key: what is written, the attribute, what is read
    "schedule": ('["0 8 * * *", every 2h]', "schedules", ("0 8 * * *", "every 2h")),
    "timezone": ("America/New_York", "timezone", "America/New_York"),
    "agent": ("recall", "answer_agent", RECALL),
    "deliver": ("[local, 'local:#ops']", "deliver", ("local", "local:#ops")),
    "surface": ("thread", "surface", Surface.THREAD),
    "continue": ("false", "continues", False),
    "late": ("1h30m", "late", H + 30 * M),
    "catch_up": ("none", "catch_up", CatchUp.NONE),
    "overlap": ("cancel", "overlap", Overlap.CANCEL),
    "repeated_hour": ("both", "repeated_hour", RepeatedHour.BOTH),
    "timeout": ("90s", "timeout", 90 * S),
    "retry": ("{attempts: 3, wait: 5s}", "retry", Retry(attempts=3, wait=5 * S)),
    "repeatable": ("true", "repeatable", True),
    "on_failure": ("'local:#ops'", "on_failure", "local:#ops"),
    "jitter": ("20s", "jitter", 20 * S),
    "stop_after": ("5", "stop_after", 5),
    "command": ("[echo, '7', on]", "writer.command", ("echo", "7", "on")),
    "prompt": ("Write it", "prompt", "Write it"),
    "text": ("17:00", "text", "17:00"),
    "shell": ("true", "shell", True),
    "env": ("{A: 1.50, B: no}", "env", {"A": "1.50", "B": "no"}),
    "cwd": ("sub", "cwd", "<folder>/sub"),
    "context_from": ("[self, other]", "context_from", ("self", "other")),
    "enabled": ("no", "enabled", False),
    "start": ("2027-01-02T03:04", "start", datetime(2027, 1, 2, 2, 4, tzinfo=UTC)),
    "end": ("2027-12-24", "end", datetime(2027, 12, 23, 23, tzinfo=UTC)),
    "times": ("3", "times", 3),
    "except": (
        "[2027-01-01, 2027-12-24..2027-12-26]",
        "excluded",
        Days(tuple(DaySpan(first=date(2027, m, a), last=date(2027, m, b)) for m, a, b in ((1, 1, 1), (12, 24, 26)))),
    ),
    "also": ("[2027-02-13]", "also", Days((DaySpan(first=date(2027, 2, 13), last=date(2027, 2, 13)),))),
    "remind_after": ("3d", "remind_after", timedelta(days=3)),
    "was": ("older", "was", "older"),
}
_NEEDS = {
    "shell": "command: 'echo hi'",
    "env": "command: [env]",
    "cwd": "command: [pwd]",
    "also": "schedule: 0 9 * * 1-5",
}
_BEFORE = "agents: {default: {kind: prompt, model: m, base_url: 'http://127.0.0.1:1/v1'}}\n"


def read(job: Job, attribute: str) -> object:
    value: object = job
    for part in attribute.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("key", JOB_FIELDS)
def test_every_field_of_a_job_comes_back_as_written(tmp_path: Path, key: str) -> None:
    written, attribute, expected = JOB_FIELDS[key]
    if expected == "<folder>/sub":
        expected = tmp_path / "sub"
    lines = "\n".join(filter(None, [f"{key}: {written}", _NEEDS.get(key)]))
    job = load_job(tmp_path, lines, before=_BEFORE) if key != "context_from" else with_other(tmp_path, lines)
    assert read(job, attribute) == expected


def with_other(folder: Path, lines: str) -> Job:
    text = (
        f'jobs:\n  other: {{schedule: "@daily", text: hi}}\n  j:\n    schedule: "@daily"\n    text: hi\n    {lines}\n'
    )
    return load(folder, text).jobs["j"]


def test_no_field_of_a_job_is_without_such_a_test() -> None:
    assert set(JOB_FIELDS) == set(known_keys(JobModel))


@pytest.mark.parametrize("key", known_keys(DefaultsModel))
def test_every_default_reaches_a_job_that_says_nothing(tmp_path: Path, key: str) -> None:
    written, attribute, expected = JOB_FIELDS[key]
    assert read(load_job(tmp_path, "", before=f"defaults: {{{key}: {written}}}\n"), attribute) == expected


@pytest.mark.parametrize("key", known_keys(DefaultsModel))
def test_what_a_job_says_beats_the_defaults(tmp_path: Path, key: str) -> None:
    written, attribute, expected = JOB_FIELDS[key]
    other = {
        "agent": "recall", "deliver": "'local:#x'", "surface": "flat", "continue": "true", "late": "1s",
        "catch_up": "all",
        "overlap": "queue", "repeated_hour": "once", "timeout": "1s", "retry": "9", "repeatable": "false",
        "on_failure": "none", "jitter": "1s", "stop_after": "9", "remind_after": "9h",
    }[key]  # fmt: skip
    job = load_job(tmp_path, f"{key}: {written}", before=f"defaults: {{{key}: {other}}}\n")
    assert read(job, attribute) == expected


def test_what_a_job_leaves_out(tmp_path: Path) -> None:
    job = load_job(tmp_path, "")
    assert job == Job(
        id=job.id,
        name="j",
        schedules=("@daily",),
        timezone="Europe/Berlin",
        writer=AgentSpec(name="j", kind=AgentKind.TEXT),
        answer_agent=RECALL,
        text="hi",
        cwd=tmp_path,
        repeatable=True,
    )
    assert (job.deliver, job.surface, job.continues, job.late) == (("local",), Surface.FLAT, True, None)
    assert (job.catch_up, job.overlap, job.timeout, job.retry) == (CatchUp.LATEST, Overlap.SKIP, 10 * M, Retry())
    assert (job.retry.attempts, job.on_failure, job.enabled) == (1, "local:#alerts", True)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("text: hi", True), ("prompt: hi", True), ("command: [true]", False), ("command: [true]\nrepeatable: true", True)],
)
def test_commands_are_not_repeatable_unless_said(tmp_path: Path, lines: str, expected: bool) -> None:
    assert load_job(tmp_path, lines, before=_BEFORE).repeatable is expected


def test_hermes_word_for_flat_is_read(tmp_path: Path) -> None:
    assert load_job(tmp_path, "surface: in_channel").surface is Surface.FLAT


def test_a_command_as_text_is_split_like_a_shell_would(tmp_path: Path) -> None:
    assert load_job(tmp_path, "command: echo 'a b' c").writer.command == ("echo", "a b", "c")
    assert load_job(tmp_path, "shell: true\ncommand: echo 'a b' | cat").writer.command == ("echo 'a b' | cat",)


def test_shell_signs_without_a_shell_are_warned_about(tmp_path: Path) -> None:
    text = 'jobs: {j: {schedule: "@daily", command: "df -h | sort"}}'
    assert [warning.split(": ", 1)[1] for warning in load(tmp_path, text).warnings] == [
        '"|" is given to the program as it is: for the shell say shell: true, and one text'
    ]


def test_unknown_placeholders_are_warned_about(tmp_path: Path) -> None:
    text = 'jobs: {j: {schedule: "@daily", text: "{{job}} {{due}} {{date}}"}}'
    assert [warning.split(": ", 1)[1] for warning in load(tmp_path, text).warnings] == [
        "{{date}} stays as it is: a text knows {{job}} and {{due}} only"
    ]


# --- where to -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "['telegram:11', 'slack:#general']",
        "'telegram:11, slack:#general'",
        "[' telegram:11 ,slack:#general']",
        "['telegram:11', 'slack:#general', 'telegram:11', 'slack:#General']",
        "\n      - telegram:11\n      - slack:#general",
    ],
)
def test_a_list_a_text_and_a_comma_list_deliver_to_the_same_places(tmp_path: Path, written: str) -> None:
    assert load_job(tmp_path, f"deliver: {written}", before=ACCOUNTS).deliver == ("telegram:11", "slack:#general")


def test_one_place_in_a_list_is_that_place(tmp_path: Path) -> None:
    assert load_job(tmp_path, "deliver: ['telegram:11']", before=ACCOUNTS).deliver == ("telegram:11",)


def test_a_name_and_its_place_are_one_delivery(tmp_path: Path) -> None:
    before = ACCOUNTS + "targets: {team: 'slack:#ops'}\n"
    assert load_job(tmp_path, "deliver: [team, 'slack:#ops', local, 'local:#general']", before=before).deliver == (
        "team",
        "local",
    )


def test_a_thread_is_text_with_six_decimals(tmp_path: Path) -> None:
    job = load_job(tmp_path, "deliver: slack:C0123/1776825190.681600", before=ACCOUNTS)
    assert job.deliver == ("slack:C0123/1776825190.681600",)
    text = ACCOUNTS + 'jobs:\n  j: {schedule: "@daily", text: hi, deliver: "slack:C0123/1776825190.6816"}\n'
    assert mistakes(tmp_path, text) == [
        'jobs.yaml:6:46: "1776825190.6816" is no thread: '
        'a Slack timestamp is text with exactly six decimals ("1700000000.000100")'
    ]


def test_targets_keep_their_rules(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        ACCOUNTS + "targets:\n  team: {to: 'slack:#ops', listen: all, sessions: per_user}\n  me: 'telegram:12'\n",
    )
    assert config.targets["team"] == TargetSpec(
        name="team",
        to="slack:#ops",
        target=Target(account="slack", chat="#ops"),
        listen=Listen.ALL,
        sessions=SessionScope.PER_USER,
    )
    assert config.targets["me"].target == Target(account="telegram", chat="12")
    assert config.target("slack:#ops") is config.targets["team"]
    assert config.target("slack:#new").listen is Listen.MENTIONS
    assert set(known_keys(TargetModel)) == {"to", "listen", "sessions"}


def test_two_names_for_one_place_need_the_same_rules(tmp_path: Path) -> None:
    text = ACCOUNTS + "targets:\n  a: {to: 'slack:#ops', listen: all}\n  b: 'slack:#ops'\n"
    assert mistakes(tmp_path, text) == ['jobs.yaml:7:6: "b" and "a" are one place with different rules: keep one']


def test_on_failure_can_be_switched_off(tmp_path: Path) -> None:
    assert load_job(tmp_path, "on_failure: none").on_failure is None


# --- accounts and agents --------------------------------------------------------------------------


def test_every_field_of_an_account_comes_back(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
accounts:
  work: {kind: slack, bot_token: xoxb-1, app_token: xapp-1, allow: [U012, W034], base_url: "http://127.0.0.1:9/api"}
  telegram: {token: "12:abc", allow: [123, -100456], base_url: "http://127.0.0.1:9/"}
  open: {kind: telegram, token: "13:abc", allow: everyone}
  closed: {kind: telegram, token: "14:abc", allow: []}
""",
    )
    assert config.accounts["work"] == AccountSpec(
        name="work",
        kind=AccountKind.SLACK,
        bot_token="xoxb-1",
        app_token="xapp-1",
        allow=frozenset({"U012", "W034"}),
        base_url="http://127.0.0.1:9/api/",
    )
    assert config.accounts["telegram"] == AccountSpec(
        name="telegram",
        kind=AccountKind.TELEGRAM,
        token="12:abc",
        allow=frozenset({"123", "-100456"}),
        base_url="http://127.0.0.1:9",
    )
    assert config.accounts["open"].allow is EVERYONE
    assert config.accounts["closed"].allow == frozenset()
    assert set(known_keys(AccountModel)) == {"kind", "bot_token", "app_token", "token", "allow", "base_url"}
    assert config.account_kinds == {
        "local": "local", "work": "slack", "telegram": "telegram", "open": "telegram", "closed": "telegram",
    }  # fmt: skip


def test_every_field_of_an_agent_comes_back(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
agents:
  writer:
    kind: prompt
    model: m-1
    base_url: "https://x.example/v1"
    api_key: "${OPENAI_API_KEY}"
    instructions: Be brief.
    timeout: 2m
  desk: {kind: command, command: "cat -", shell: true, env: {A: "1"}, cwd: sub}
""",
    )
    assert config.agents["writer"] == AgentSpec(
        name="writer",
        kind=AgentKind.PROMPT,
        model="m-1",
        base_url="https://x.example/v1",
        api_key=ENVIRON["OPENAI_API_KEY"],
        instructions="Be brief.",
        timeout=2 * M,
    )
    assert config.agents["desk"] == AgentSpec(
        name="desk", kind=AgentKind.COMMAND, command=("cat -",), shell=True, env={"A": "1"}, cwd=tmp_path / "sub"
    )
    assert set(known_keys(AgentModel)) == {
        "kind", "command", "shell", "env", "cwd", "model", "base_url", "api_key", "instructions", "timeout",
    }  # fmt: skip


def test_who_writes_and_who_answers(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
agents:
  default: {kind: prompt, model: m, api_key: k-123}
  desk: {kind: command, command: [answer], env: {A: "1"}}
jobs:
  a: {schedule: "@daily", command: [brief]}
  b: {schedule: "@daily", command: [brief], agent: desk}
  c: {schedule: "@daily", prompt: Write.}
  d: {schedule: "@daily", prompt: Write., agent: desk, env: {B: "2"}}
  e: {schedule: "@daily", text: hi, agent: recall}
""",
    )
    who = {name: (job.writer.name, job.writer.kind, job.answer_agent.name) for name, job in config.jobs.items()}
    assert who == {
        "a": ("a", AgentKind.COMMAND, "default"),
        "b": ("b", AgentKind.COMMAND, "desk"),
        "c": ("default", AgentKind.PROMPT, "default"),
        "d": ("desk", AgentKind.COMMAND, "desk"),
        "e": ("e", AgentKind.TEXT, "recall"),
    }
    assert config.jobs["d"].writer.env == {"A": "1", "B": "2"}
    assert config.jobs["d"].answer_agent.env == {"A": "1"}


def test_a_job_keeps_its_history_under_its_old_name(tmp_path: Path) -> None:
    job = load(tmp_path, 'jobs: {new: {schedule: "@daily", text: hi, was: old}}').jobs["new"]
    assert (job.id, job.name) == ("old", "new")


def test_retry_can_be_a_number(tmp_path: Path) -> None:
    assert load_job(tmp_path, "retry: 4").retry == Retry(attempts=4, wait=30 * S)
    assert set(known_keys(RetryModel)) == {"attempts", "wait"}


def test_jobs_keep_their_order_and_their_names(tmp_path: Path) -> None:
    names = ["zeta", "Über uns, täglich", "17:00", "null", "a/b #1", "x" * 200]
    text = "jobs:\n" + "".join(f'  "{name}": {{schedule: "@daily", text: hi}}\n' for name in names)
    assert list(load(tmp_path, text).jobs) == names


def test_a_job_may_be_called_by_a_bare_number(tmp_path: Path) -> None:
    assert list(
        load(tmp_path, 'jobs: {17:00: {schedule: "@daily", text: hi}, NO: {schedule: "@daily", text: hi}}').jobs
    ) == [
        "17:00",
        "NO",
    ]


# --- the zone -------------------------------------------------------------------------------------


HOST_SAYS_UTC = "no `timezone` here: times are read in the host's zone, which is Etc/UTC"
HOST_SAYS_NOTHING = "no `timezone` here, and the host names none: times are read as UTC"


@pytest.mark.parametrize(
    ("written", "host", "zone", "source", "warned"),
    [
        ("timezone: Asia/Tokyo\n", "UTC", "Asia/Tokyo", ZoneSource.FILE, ""),
        ("", "Europe/Berlin", "Europe/Berlin", ZoneSource.HOST, ""),
        ("", "Etc/UTC", "Etc/UTC", ZoneSource.HOST, HOST_SAYS_UTC),
        ("", None, "UTC", ZoneSource.FALLBACK, HOST_SAYS_NOTHING),
        ("", "Mars/Base", "UTC", ZoneSource.FALLBACK, HOST_SAYS_NOTHING),
    ],
)  # fmt: skip
def test_where_the_zone_comes_from(
    tmp_path: Path, written: str, host: str | None, zone: str, source: ZoneSource, warned: str
) -> None:
    config = load(tmp_path, f'{written}jobs: {{j: {{schedule: "@daily", text: hi}}}}', host_zone=host)
    assert (config.timezone, config.timezone_source, config.jobs["j"].timezone) == (zone, source, zone)
    assert [warning.removeprefix(f"{tmp_path}/jobs.yaml: ") for warning in config.warnings] == (
        [warned] if warned else []
    )


def test_every_section_of_the_file_is_known() -> None:
    assert known_keys(ConfigModel) == [
        "timezone", "max_running", "catch_up_running", "accounts", "targets", "agents", "defaults", "jobs"
    ]  # fmt: skip


def test_the_fingerprint_follows_the_file_and_the_variables_that_it_reads(tmp_path: Path) -> None:
    text = 'jobs: {j: {schedule: "@daily", text: "${WORD}"}}'
    one = load(tmp_path, text, environ={"WORD": "a", "OTHER": "1"}).fingerprint
    assert load(tmp_path, text, environ={"WORD": "a", "OTHER": "2"}).fingerprint == one
    assert load(tmp_path, text, environ={"WORD": "b"}).fingerprint != one
    assert load(tmp_path, text + "\n", environ={"WORD": "a"}).fingerprint != one
