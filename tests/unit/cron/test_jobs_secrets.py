"""Variables in jobs.yaml: where they are read, what is missing, and that secrets are never shown."""

from pathlib import Path

import pytest
from unit.cron.jobs_loading import load, load_job, mistakes

from cron.jobs_text import parse_env

JOB = 'jobs: {{j: {{schedule: "@daily", text: "{text}"}}}}\n'


def text_of(folder: Path, text: str, environ: dict[str, str]) -> str | None:
    return load(folder, JOB.format(text=text), environ=environ).jobs["j"].text


def test_a_variable_is_read_from_the_environment(tmp_path: Path) -> None:
    assert text_of(tmp_path, "a ${WORD} b ${WORD}", {"WORD": "x: [y] # z"}) == "a x: [y] # z b x: [y] # z"


def test_a_variable_is_read_from_the_env_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("WORD=from-file\n")
    assert text_of(tmp_path, "${WORD}", {}) == "from-file"


def test_the_environment_beats_the_env_file_even_when_empty(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("WORD=from-file\n")
    assert text_of(tmp_path, "${WORD}", {"WORD": "from-environment"}) == "from-environment"
    assert text_of(tmp_path, "<${WORD}>", {"WORD": ""}) == "<>"


def test_a_doubled_dollar_is_a_literal(tmp_path: Path) -> None:
    assert text_of(tmp_path, "$${WORD} $5 $$ ${WORD}", {"WORD": "x"}) == "${WORD} $5 $$ x"


def test_what_comes_in_is_not_expanded_again(tmp_path: Path) -> None:
    assert text_of(tmp_path, "${A}", {"A": "${B}", "B": "no"}) == "${B}"


@pytest.mark.parametrize("odd", ["${WORD:-x}", "${}", "${1}", "${WORD", "${A B}"])
def test_other_forms_are_refused_not_ignored(tmp_path: Path, odd: str) -> None:
    said = mistakes(tmp_path, JOB.format(text=odd), environ={"WORD": "x"})
    assert len(said) == 1 and "is not understood: write ${NAME}, or $${...} for the text itself" in said[0]


def test_every_missing_variable_is_named_with_its_place(tmp_path: Path) -> None:
    text = 'accounts:\n  slack: {bot_token: "${BOT}", app_token: "${APP}"}\njobs: {}\n'
    assert mistakes(tmp_path, text, environ={}) == [
        "jobs.yaml:2:22: BOT is not set: set it in the environment, or in .env beside this file",
        "jobs.yaml:2:43: APP is not set: set it in the environment, or in .env beside this file",
    ]


def test_an_empty_token_is_refused(tmp_path: Path) -> None:
    said = mistakes(tmp_path, 'accounts: {telegram: {token: "${T}"}}\njobs: {}\n', environ={"T": ""})
    assert said == ["jobs.yaml:1:30: an empty text: write something, or remove the line"]


def test_variables_in_names_stay_text(tmp_path: Path) -> None:
    jobs = load(tmp_path, 'jobs: {"${WORD}": {schedule: "@daily", text: hi}}', environ={"WORD": "x"}).jobs
    assert list(jobs) == ["${WORD}"]


# --- .env -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("A = spaced out ", "spaced out"),
        ("export A=x", "x"),
        ("A=x # remark", "x"),
        ("A=x#y", "x#y"),
        ("A='single # $B \\n'", "single # $B \\n"),
        ('A="double # \\"q\\" \\n"', 'double # "q" \n'),
        ('A="two\nlines"', "two\nlines"),
        ("A=", ""),
        ("A=''", ""),
        ("A=b=c", "b=c"),
        ("A=grüße", "grüße"),
        ("A=1\nA=2", "2"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_an_env_file(line: str, value: str, newline: str) -> None:
    text = f"# first\n\n{line}\nLAST=1\n".replace("\n", newline)
    assert parse_env(text) == ({"A": value, "LAST": "1"}, ())


def test_odd_lines_of_an_env_file_are_warned_about(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbfA=1\nnonsense\nB=2\n")
    config = load(tmp_path, JOB.format(text="${A}${B}"), environ={})
    assert config.jobs["j"].text == "12"
    assert config.warnings == (f"{tmp_path}/.env:2:1: not read: write NAME=value",)


# --- what is secret -------------------------------------------------------------------------------

FULL = """
timezone: "${ZONE}"
accounts:
  slack: {bot_token: "literal-bot", app_token: "${APP}", allow: ["${PERSON}"]}
  telegram: {token: abcd}
targets: {team: "${PLACE}"}
agents:
  default: {kind: prompt, model: "${MODEL}", api_key: k123, base_url: "https://${HOST}/v1"}
  desk: {kind: command, command: [curl, "-HAuthorization: Bearer ${BEARER}"], env: {DB_PASSWORD: literal-password}}
jobs:
  j: {schedule: "@daily", text: "${SHORT}", deliver: [team, "slack:${CHANNEL}"]}
"""
FULL_ENVIRON = {
    "ZONE": "Europe/Berlin",
    "APP": "xapp-12345",
    "PERSON": "U0123456789",
    "PLACE": "slack:#operations",
    "MODEL": "tiny",
    "HOST": "models.internal.example",
    "BEARER": "bearer-value",
    "SHORT": "1234567",
    "CHANNEL": "#a-long-channel",
}


def test_which_values_are_secret(tmp_path: Path) -> None:
    assert load(tmp_path, FULL, environ=FULL_ENVIRON).secrets == {
        "literal-bot",
        "xapp-12345",
        "abcd",
        "k123",
        "models.internal.example",
        "bearer-value",
        "literal-password",
    }


def test_no_printed_configuration_shows_a_token(tmp_path: Path) -> None:
    config = load(tmp_path, FULL, environ=FULL_ENVIRON)
    shown = repr(config)
    assert [secret for secret in ("literal-bot", "xapp-12345", "k123", "literal-password") if secret in shown] == []


def test_no_mistake_shows_a_secret(tmp_path: Path) -> None:
    text = (
        'accounts: {telegram: {token: "${T}"}}\n'
        'jobs: {j: {schedule: "@daily", text: hi, late: "${T}", deliver: "local:${T}", overlap: "${T}"}}\n'
    )
    said = mistakes(tmp_path, text, environ={"T": "a-secret-value"})
    assert len(said) == 3
    assert [mistake for mistake in said if "a-secret-value" in mistake] == []
    assert '2:48: "[secret]" is no length of time' in said[0]


def test_a_token_that_breaks_the_syntax_is_not_shown(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "accounts:\n  telegram:\n    token: @12345abcdef\n")
    assert said == ['jobs.yaml:3:12: a text that begins with "@" needs quotes']


def test_a_secret_in_the_name_of_a_job_is_refused(tmp_path: Path) -> None:
    text = 'accounts: {telegram: {token: "12:abcdef"}}\njobs: {"about 12:abcdef": {schedule: "@daily", text: hi}}\n'
    assert mistakes(tmp_path, text) == [
        "jobs.yaml:2:8: this name holds the value of a secret, and names are shown: choose another"
    ]


def test_what_the_command_is_given_is_the_real_value(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("T=real-value-of-it\n")
    job = load_job(tmp_path, "command: [env]\nenv: {T: '${T}'}")
    assert job.writer.env == {"T": "real-value-of-it"}
