"""Secrets never leave: not as they are, not dressed up for a URL, JSON or base64, not in logs."""

import base64
import io
import json
import logging
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cron.redact import RedactingFilter, Redactor

VALUE = 'p@ss/w"ord+ü=1'


@pytest.mark.parametrize(
    "shown",
    [
        VALUE,
        quote(VALUE, safe=""),
        quote(VALUE, safe="").lower(),
        json.dumps({"key": VALUE}),
        json.dumps({"key": VALUE}, ensure_ascii=False),
        "p@ss/w&quot;ord+ü=1",
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(f"user:{VALUE}".encode()).decode(),
        base64.b64encode(f"me:{VALUE}:x".encode()).decode(),
        base64.urlsafe_b64encode(f"u:{VALUE}".encode()).decode(),
        repr(VALUE),
    ],
)
def test_a_value_is_found_in_every_dress(shown: str) -> None:
    redacted = Redactor([VALUE]).redact(f"before {shown} after")
    assert "[secret]" in redacted
    assert redacted.startswith("before ") and redacted.endswith(" after")
    assert "w&quot;ord" not in redacted and "ss/w" not in redacted


def test_the_longer_value_wins() -> None:
    assert Redactor(["token", "token-and-more"]).redact("a token-and-more, a token") == "a [secret], a [secret]"


def test_values_too_short_to_be_secrets_are_left_alone() -> None:
    assert Redactor(["ab", "", "   ", "abc"]).redact("ab abc   x") == "ab abc   x"


def test_a_line_of_a_key_is_found_alone() -> None:
    key = "-----HEAD-----\nMIIEpAIBAAKCAQEA7c1v9c0example\nTAIL"
    assert Redactor([key]).redact("log: MIIEpAIBAAKCAQEA7c1v9c0example!") == "log: [secret]!"


@pytest.mark.parametrize(
    "token",
    [
        "xoxb-1234567890-abcdefGHIJ",
        "xapp-1-A012-345-abcdef0123456789",
        "123456789:AAabcdefghijklmnopqrstuvwxyz-_01234",
        "sk-proj-abcdefghijklmnopqrstuvwx",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_well_known_shapes_are_found_without_being_told(token: str) -> None:
    assert Redactor().redact(f"the token is {token}.") == "the token is [secret]."


def test_the_token_in_a_bot_api_address_is_found() -> None:
    url = "https://api.telegram.org/bot123456:AAabcdefghijklmnopqrstuv/sendMessage"
    assert Redactor().redact(url) == "https://api.telegram.org/bot[secret]/sendMessage"


@pytest.mark.parametrize(
    "text",
    ["task-sk-1", "ask-for-help-with-the-risk-register-today", "12:30", "at 1700000000.000100", "C0123456789", ""],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor(["some-secret"]).redact(text) == text


def test_structures_are_searched_whole() -> None:
    value = {"a": ["x secret-1", {"secret-1": 5}], "b": ("secret-1", None)}
    assert Redactor(["secret-1"]).redact_value(value) == {
        "a": ["x [secret]", {"[secret]": 5}],
        "b": ("[secret]", None),
    }


# brackets and the word itself are what we write in place of a secret
_SECRETS = st.text(st.characters(exclude_characters="[]"), min_size=4, max_size=30).filter(
    lambda secret: len(secret.strip()) >= 4 and secret.strip() not in "secret"
)


@given(_SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_no_value_survives(secret: str, before: str, after: str) -> None:
    assert secret not in Redactor([secret]).redact(before + secret + after)


def test_logs_hold_no_secret_in_any_place() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(action)s %(data)s"))
    redacting = RedactingFilter(Redactor(["hidden-value"]))
    handler.addFilter(redacting)
    logger = logging.Logger("a.child.of.others")
    logger.addHandler(handler)
    try:
        raise ValueError("broke on hidden-value")
    except ValueError:
        extra = {"action": "hidden-value", "data": ["hidden-value"]}
        logger.exception("sent %s to %s", "hidden-value", {"k": "hidden-value"}, extra=extra, stack_info=True)
    printed = stream.getvalue()
    assert "hidden-value" not in printed.replace('"hidden-value"', "")  # the source lines of this test are quoted
    assert printed.startswith("sent [secret] to {'k': '[secret]'} [secret] ['[secret]']")
    assert "ValueError: broke on [secret]" in printed


def test_a_new_set_of_secrets_can_be_used() -> None:
    redacting = RedactingFilter(Redactor(["old-secret"]))
    redacting.use(Redactor(["new-secret"]))
    record = logging.makeLogRecord({"msg": "a new-secret", "args": None})
    assert redacting.filter(record) and record.getMessage() == "a [secret]"


def test_a_message_with_a_percent_sign_stays_whole() -> None:
    record = logging.makeLogRecord({"msg": "disk at %d%%", "args": (90,)})
    assert RedactingFilter(Redactor()).filter(record) and record.getMessage() == "disk at 90%"
