"""Slack: one account over the Web API and Socket Mode. The only file that knows the SDK.

What is pure or only asks lies beside it: `slack_events` (reading), `slack_posting`, `slack_places`, `slack_sockets`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime

import aiohttp
from aiohttp import WSMsgType
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from delivery.model import Address, FindResult, OutgoingPart, PartKind, Receipt, SendResult
from delivery.platforms.slack_calls import (
    ACCOUNT,
    Answered,
    CallResult,
    Json,
    Limited,
    Refused,
    Unclear,
    Unreached,
    sentence,
)
from delivery.platforms.slack_catching_up import Readings
from delivery.platforms.slack_envelopes import Envelopes
from delivery.platforms.slack_events import Us
from delivery.platforms.slack_hearing import Hearing, OnChatMoved, us_of
from delivery.platforms.slack_names import Names
from delivery.platforms.slack_places import KnownChats, Places
from delivery.platforms.slack_posting import header, look_for, post
from delivery.platforms.slack_sockets import Line, LineFailed, Sockets
from delivery.platforms.slack_status import thinking
from delivery.platforms.slack_waiting import first_of
from delivery.platforms.slack_web import Progress, form, refusal, scopes, told
from delivery.ports import AccountDown, Chat, Hear, Opening
from delivery.render.parts import RenderedPart
from delivery.render.slack import render_slack
from delivery.targets import Target
from state.clock import Monotonic, Now, Sleep

log = logging.getLogger(__name__)

API = "https://slack.com/api/"
REQUEST_TIMEOUT = 30.0
CONNECT_TIMEOUT = 10.0

_SILENT = logging.Logger("slack_sdk", level=logging.CRITICAL + 1)
"""The SDK logs whole requests and answers, with texts and tickets; what matters is logged by us."""

OnGap = Callable[[str], None]
"""Told the account's name when the socket is back after a time in which nobody listened."""


class WebCalls:
    """The Web API with one token: one call, one connection, one attempt, judged by how far it got."""

    def __init__(self, *, token: str, base_url: str | None) -> None:
        self._token = token
        self._base_url = base_url or API
        self._connector: aiohttp.TCPConnector | None = None

    async def call(self, method: str, args: Mapping[str, object]) -> CallResult:
        """See `slack_calls.Calls`."""
        progress = Progress()
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
        async with aiohttp.ClientSession(
            connector=self._sockets(), connector_owner=False, timeout=timeout, trace_configs=[progress.trace()]
        ) as session:
            client = AsyncWebClient(
                token=self._token, base_url=self._base_url, session=session, retry_handlers=[], logger=_SILENT
            )
            try:
                body = {"json": dict(args)} if method == "chat.postMessage" else {"data": form(args)}
                response = await client.api_call(method, **body)
            except SlackApiError as error:
                return refusal(error.response)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                reason = told(error, REQUEST_TIMEOUT)
                return Unclear(reason=reason) if progress.has_begun else Unreached(reason=reason)
            except (SlackClientError, ValueError, AttributeError) as error:
                return Unclear(reason=f"Slack's answer cannot be read ({type(error).__name__})")
        data = response.data if isinstance(response.data, dict) else {}
        return Answered(data=data, scopes=scopes(response.headers))

    def _sockets(self) -> aiohttp.TCPConnector:
        # no connection is kept: on one that Slack is just closing a post would be in doubt for nothing
        if self._connector is None or self._connector.closed:
            self._connector = aiohttp.TCPConnector(force_close=True)
        return self._connector

    async def close(self) -> None:
        """Close what is open. Idempotent."""
        if self._connector is not None:
            await self._connector.close()


# --- one socket ---------------------------------------------------------------------------------------


class _SlackLine(SocketModeClient):
    """The SDK's socket without its own reconnecting, which closes first, opens after, and sleeps in between."""

    def __init__(self, *, app_token: str, url: str, envelopes: Envelopes, monotonic: Monotonic) -> None:
        super().__init__(
            app_token=app_token, logger=_SILENT, web_client=AsyncWebClient(logger=_SILENT, retry_handlers=[])
        )
        self.wss_uri = url
        self.last_heard = monotonic()
        self.ending = asyncio.Event()
        self.is_gone = False
        self._greeted = asyncio.Event()
        self._envelopes = envelopes
        self._monotonic = monotonic
        self.message_listeners.append(self._note)
        self.socket_mode_request_listeners.append(self._take)

    async def connect(self) -> None:
        """Open it once and wait for Slack's hello. Raises what aiohttp raises, ConnectionError without a hello."""
        self.current_session = await self.aiohttp_client_session.ws_connect(
            str(self.wss_uri), autoping=False, proxy=self.proxy, timeout=aiohttp.ClientWSTimeout(ws_close=2.0)
        )
        self.message_receiver = asyncio.ensure_future(self.receive_messages())
        await first_of(self._greeted.wait(), self.ending.wait())
        if not self._greeted.is_set():
            raise ConnectionError("Slack closed the socket at once")

    async def receive_messages(self) -> None:
        """Receive until nothing can come any more; every frame is a sign of life."""
        session = self.current_session
        assert session is not None
        try:
            while True:
                frame = await session.receive()
                if frame.type is WSMsgType.TEXT:
                    await self.enqueue_message(frame.data)
                elif frame.type is WSMsgType.PING:
                    await session.pong(frame.data)
                elif frame.type is not WSMsgType.PONG:
                    break
                self.last_heard = self._monotonic()
        except (ConnectionError, aiohttp.ClientError):
            pass  # gone, as below
        finally:
            self.is_gone = True
            self.ending.set()

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Slack announced that it will close this socket: ask for a successor, and go on until then."""
        self.ending.set()

    async def ping(self) -> None:
        """See `slack_sockets.Line`."""
        if self.current_session is not None and not self.current_session.closed:
            try:
                await self.current_session.ping(b"hermes-cron")
            except (ConnectionError, aiohttp.ClientError):
                self.ending.set()

    async def close(self) -> None:
        """See `slack_sockets.Line`."""
        tasks = [one for one in (self.message_receiver, self.message_processor) if one is not None]
        try:
            await super().close()  # type: ignore[no-untyped-call]
        except (ConnectionError, aiohttp.ClientError, TimeoutError):
            await self.aiohttp_client_session.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.is_gone = True
        self.ending.set()

    async def _note(self, _client: AsyncBaseSocketModeClient, message: Json, _raw: str | None) -> None:
        if message.get("type") == "hello":
            self._greeted.set()

    async def _take(self, _client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        async def acknowledge() -> None:
            await self.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

        await self._envelopes.take(request.type, request.payload, acknowledge)


# --- the platform -------------------------------------------------------------------------------------


class SlackPlatform:
    """One Slack account; see `delivery.ports.Platform`."""

    kind = "slack"
    pace = 1.0
    request_timeout = REQUEST_TIMEOUT

    def __init__(
        self,
        *,
        account: str,
        bot_token: str,
        app_token: str | None,
        base_url: str | None,
        workspace: str | None,
        directory: KnownChats | None,
        now: Now,
        monotonic: Monotonic,
        sleep: Sleep,
        on_gap: OnGap | None = None,
        on_chat_moved: OnChatMoved | None = None,
    ) -> None:
        """Take the login; nothing is called yet. `workspace` is the stored one, if there is one.

        Without `app_token` it can send but not hear. `on_gap`: time to catch up. `on_chat_moved`: follow it.
        """
        self.account = account
        self.workspace: str | None = workspace
        self._app_token = app_token
        self._calls = WebCalls(token=bot_token, base_url=base_url)
        self._app_calls = None if app_token is None else WebCalls(token=app_token, base_url=base_url)
        self._names = Names(self._calls, monotonic, sleep)
        self._readings = Readings(self._calls, monotonic=monotonic, sleep=sleep)
        self._places = Places(account=account, calls=self._calls, names=self._names, directory=directory)
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._on_gap = on_gap
        self._on_chat_moved = on_chat_moved
        self._us: Us | None = None
        self._scopes: frozenset[str] | None = None
        self._listening: asyncio.Task[None] | None = None

    # --- login ----------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """See `Platform.connect`: the team, or the organisation of an org-wide install."""
        result = await self._calls.call("auth.test", {})
        if not isinstance(result, Answered):
            raise AccountDown(sentence(result))
        us = us_of(self.account, result.data)
        if us is None:
            raise AccountDown("Slack did not say which workspace the token belongs to")
        if self.workspace not in (None, us.workspace):
            log.warning(
                "The token belongs to another workspace than before.",
                extra={"action": "workspace_changed", "account": self.account, "workspace": us.workspace},
            )
        self._us, self._scopes, self.workspace = us, result.scopes, us.workspace
        return us.workspace

    @property
    def scopes(self) -> frozenset[str] | None:
        """Return the bot token's scopes, None before `connect` has succeeded once (or if Slack does not say)."""
        return self._scopes

    async def _identity(self) -> Us:
        if self._us is None:
            await self.connect()
        assert self._us is not None
        return self._us

    # --- hearing --------------------------------------------------------------------------------------

    async def listen(self, hear: Hear) -> None:
        """See `Platform.listen`."""
        if self._listening is not None:
            raise RuntimeError(f"the account {self.account} is listening already")
        self._listening = asyncio.create_task(self._listen(hear))
        try:
            await asyncio.wait((self._listening,))
            if self._listening.cancelled():
                raise AccountDown("the account was closed")
            self._listening.result()
        finally:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
            self._listening = None

    async def _listen(self, hear: Hear) -> None:
        if self._app_calls is None:
            log.warning(
                "Without an app_token nothing is heard; briefs are sent all the same.",
                extra={"action": "cannot_listen", "account": self.account},
            )
            await asyncio.Event().wait()
        hearing = self._hearing(await self._identity())
        envelopes = Envelopes(account=self.account, read=hearing.read, hear=hear, sleep=self._sleep)

        async def open_line() -> Line:
            return await self._open_line(envelopes)

        await Sockets(
            account=self.account,
            open_line=open_line,
            gap=self._tell_gap,
            finish=envelopes.finish,
            monotonic=self._monotonic,
            sleep=self._sleep,
        ).run()

    async def _open_line(self, envelopes: Envelopes) -> Line:
        assert self._app_calls is not None and self._app_token is not None
        result = await self._app_calls.call("apps.connections.open", {})
        if isinstance(result, Refused) and result.code in ACCOUNT:
            raise AccountDown(f"app_token: {sentence(result)}")
        if not isinstance(result, Answered):
            raise LineFailed(sentence(result), result.retry_after if isinstance(result, Limited) else 0.0)
        line = _SlackLine(
            app_token=self._app_token,
            url=str(result.data.get("url")),
            envelopes=envelopes,
            monotonic=self._monotonic,
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await line.connect()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            await line.close()
            raise LineFailed(told(error, CONNECT_TIMEOUT)) from error
        except BaseException:
            await line.close()
            raise
        return line

    def _tell_gap(self) -> None:
        if self._on_gap is not None:
            self._on_gap(self.account)

    async def catch_up(self, address: Address, since: datetime, hear: Hear) -> None:
        """See `Platform.catch_up`."""
        hearing = self._hearing(await self._identity())
        await self._readings.catch_up(address, since, hearing.read_back, hear)

    def _hearing(self, us: Us) -> Hearing:
        return Hearing(us=us, names=self._names, now=self._now, on_chat_moved=self._on_chat_moved)

    # --- places ---------------------------------------------------------------------------------------

    async def chats(self) -> Sequence[Chat]:
        """See `Platform.chats`: every conversation that is not archived, also channels that we are not in."""
        await self._identity()
        return tuple(await self._places.chats(self._scopes))

    async def resolve(self, target: Target) -> Address:
        """See `Platform.resolve`."""
        us = await self._identity()
        return await self._places.resolve(target, us.workspace, self._scopes)

    # --- writing --------------------------------------------------------------------------------------

    def render(self, markdown: str) -> tuple[RenderedPart, ...]:
        """See `Platform.render`."""
        return render_slack(markdown)

    def opening(self, address: Address, title: str) -> Opening | None:
        """See `Platform.opening`: a header message, unless the target is a thread already."""
        if address.root is not None:
            return None
        return Opening(kind=PartKind.HEADER, payload=header(title), text=title)

    async def send(self, part: OutgoingPart) -> SendResult:
        """See `Platform.send`."""
        return await post(self._calls, part, self._workspace_of(part))

    async def find(self, part: OutgoingPart) -> FindResult:
        """See `Platform.find`: by the marker in the message's metadata."""
        bot_id = None if self._us is None else self._us.bot_id
        return await look_for(self._calls, part, self._workspace_of(part), bot_id)

    def _workspace_of(self, part: OutgoingPart) -> str:
        return self.workspace if self.workspace is not None else part.address.workspace

    def working(self, address: Address) -> AbstractAsyncContextManager[None]:
        """See `Platform.working`: the status of a thread; at top level Slack has nothing comparable."""
        return thinking(self._calls, address, self._sleep)

    async def retract(self, receipt: Receipt) -> bool:
        """See `Platform.retract`."""
        address = receipt.address
        if address.message is None:
            return False
        result = await self._calls.call("chat.delete", {"channel": address.chat, "ts": address.message})
        return isinstance(result, Answered) or result == Refused(code="message_not_found")

    async def close(self) -> None:
        """See `Platform.close`: a `listen` that is running ends with AccountDown."""
        listening = self._listening
        if listening is not None:
            listening.cancel()
            await asyncio.wait((listening,))
        await self._calls.close()
        if self._app_calls is not None:
            await self._app_calls.close()
