"""How one call of Slack's Web API ended, and what Slack's error codes mean for us. Pure; the SDK is in `slack`."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from delivery.ports import AccountDown

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Slack did it. `scopes` are those of the token, None if the answer does not name them."""

    data: Json
    scopes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Slack answered `ok: false`. `needed` is the scope that `missing_scope` names."""

    code: str
    needed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """Slack asks to wait so many seconds; nothing was done."""

    retry_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """Surely nothing was done: not a byte of the request was written."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """It may have been done: the request was under way, and no clear answer came."""

    reason: str


CallResult = Answered | Refused | Limited | Unreached | Unclear


class Calls(Protocol):
    """The Web API with one token."""

    async def call(self, method: str, args: Mapping[str, object]) -> CallResult:
        """Call once; never retried, never raises."""


class CallFailed(Exception):
    """A call that was to read something did not bring it."""

    def __init__(self, result: Refused | Limited | Unreached | Unclear) -> None:
        super().__init__(sentence(result))
        self.result = result
        self.reason = sentence(result)

    @property
    def code(self) -> str | None:
        """Return Slack's error code if it gave one."""
        return self.result.code if isinstance(self.result, Refused) else None


class ListIncomplete(AccountDown):
    """A list could not be read to its end just now; what it does not show may be there all the same."""


async def ask(calls: Calls, method: str, **args: object) -> Json:
    """Call once and return the answer. Raises CallFailed."""
    result = await calls.call(method, {name: value for name, value in args.items() if value is not None})
    if isinstance(result, Answered):
        return result.data
    raise CallFailed(result)


MOST_PAGES = 100


async def pages(calls: Calls, method: str, field: str, **args: object) -> AsyncIterator[list[Json]]:
    """Read a list page by page to its end. Raises CallFailed, also if Slack does not say how to go on."""
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        answer = await ask(calls, method, cursor=cursor, **args)
        yield [one for one in answer.get(field) or [] if isinstance(one, Mapping)]
        cursor = (answer.get("response_metadata") or {}).get("next_cursor") or None
        if cursor is None:
            if answer.get("has_more"):
                break
            return
    raise CallFailed(Unclear(reason=f"{method} did not come to its end"))


# --- what the codes mean ------------------------------------------------------------------------------
# https://docs.slack.dev/reference/methods/chat.postMessage#errors

ACCOUNT: Mapping[str, str] = {
    "invalid_auth": "Slack refuses the token: check that it is the right one, whole, and not revoked",
    "not_authed": "there is no token: give the account one",
    "token_revoked": "the token was revoked: install the app again and use its new token",
    "token_expired": "the token has expired: install the app again, without token rotation",
    "account_inactive": "the token belongs to a user or workspace that was deleted: install the app again",
    "not_allowed_token_type": "the token is of the wrong kind: bot_token begins with xoxb-, app_token with xapp-",
    "no_permission": "the workspace does not allow this app to do that: ask its admins",
    "org_login_required": "the workspace is being moved into an organisation: it comes back by itself",
    "ekm_access_denied": "the workspace's admins have suspended posting",
    "team_access_not_granted": "the app is not installed in this workspace of the organisation",
    "access_denied": "Slack denies this app the access",
    "two_factor_setup_required": "the workspace demands two-factor login of the token's user",
    "enterprise_is_restricted": "the organisation does not allow this app",
    "missing_scope": "the token lacks a scope",
}
"""Nothing works with this login until somebody mends it."""

DOUBTFUL = frozenset({"internal_error", "fatal_error", "service_unavailable"})
"""Slack: "it's possible some aspect of the operation succeeded before the error was raised"."""

LATER = frozenset({"team_added_to_org", "external_channel_migrating", "request_timeout", "message_limit_exceeded"})
"""Surely not done, and may be done later."""

TOO_OFTEN = frozenset({"ratelimited", "rate_limited", "rate_limit_exceeded"})

GONE: Mapping[str, str] = {
    "channel_not_found": "there is no such conversation, or the bot is not in it: invite it there",
    "is_archived": "the channel is archived",
    "user_not_found": "there is no such person",
    "user_disabled": "the person's account is deactivated",
    "cannot_dm_bot": "bots cannot be written to",
}

REFUSALS: Mapping[str, str] = {
    "not_in_channel": "the bot is not in the channel: invite it there (/invite)",
    "messages_tab_disabled": "the app's Messages tab is off: turn it on under App Home, for writing too",
    "msg_too_long": "the message is longer than Slack takes",
    "msg_blocks_too_long": "the message is longer than Slack takes",
    "restricted_action": "the workspace does not let the app post there",
    "restricted_action_read_only_channel": "the channel is read-only for the app",
    "restricted_action_thread_only_channel": "the channel takes answers in threads only: name a thread as the target",
    "restricted_action_thread_locked": "the thread is locked",
    "restricted_action_non_threadable_channel": "the channel has no threads",
    "thread_not_found": "there is no such thread",
    "invalid_thread_ts": "there is no such thread",
}

NO_THREADS = "restricted_action_non_threadable_channel"


def sentence(result: Refused | Limited | Unreached | Unclear) -> str:
    """Say how a call failed, without secrets."""
    match result:
        case Refused(code="missing_scope", needed=str(needed)):
            return f"the token lacks the scope {needed}: add it to the app and install it again (missing_scope)"
        case Refused(code=code):
            told = ACCOUNT.get(code) or GONE.get(code) or REFUSALS.get(code)
            return f"{told} ({code})" if told is not None else f"Slack refused it: {code}"
        case Limited(retry_after=seconds):
            return f"Slack asks to wait {seconds:g} seconds"
        case Unreached(reason=reason) | Unclear(reason=reason):
            return reason


def account_down(result: CallResult) -> AccountDown | None:
    """Return what to raise if the account itself cannot be used, None if it was about this one call."""
    if isinstance(result, Unreached) or (
        isinstance(result, Refused) and result.code in ACCOUNT and result.code != "missing_scope"
    ):
        return AccountDown(sentence(result))
    return None
