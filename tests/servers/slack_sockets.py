"""Socket Mode: sockets of the app, envelopes, acknowledgements, redelivery.

https://docs.slack.dev/apis/events-api/using-socket-mode
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from aiohttp import WSMsgType, web
from servers.slack_world import Json, World

MAX_SOCKETS = 10
PATIENCE = 3.0
RETRY_DELAYS = (0.0, 60.0, 300.0)


@dataclass(slots=True, kw_only=True)
class Envelope:
    """One sending of a delivery; `socket` is None if there was none to send it on."""

    id: str
    attempt: int
    reason: str
    sent_at: float
    socket: int | None


@dataclass(slots=True, kw_only=True)
class Ack:
    """The app's answer to one envelope; `payload` is what it answered with, if anything."""

    envelope_id: str
    event_id: str | None
    at: float
    payload: Json | None
    socket: int


@dataclass(slots=True, kw_only=True)
class Delivery:
    """One event, command or click on its way to the app, with everything that became of it."""

    type: str
    payload: Json
    accepts_response: bool = False
    envelopes: list[Envelope] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    is_gone: bool = False  # the last redelivery went unanswered

    @property
    def event_id(self) -> str | None:
        """Return the id that stays the same over all redeliveries."""
        found = self.payload.get("event_id")
        return found if isinstance(found, str) else None


@dataclass(slots=True, kw_only=True, eq=False)
class Socket:
    """One WebSocket of the app. Silenced, it answers nothing and its frames are lost, without a FIN."""

    number: int
    ws: web.WebSocketResponse
    request: web.Request
    is_silent: bool = False

    async def send(self, frame: Json) -> None:
        """Write a frame, unless the line is dead."""
        if not self.is_silent and not self.ws.closed:
            try:
                await self.ws.send_str(json.dumps(frame))
            except ConnectionError:
                return


class Hub:
    """All sockets of the app; each envelope goes to one of them, in turn.

    An envelope not acknowledged within `patience` seconds is sent again after each of `retry_delays`
    (seconds, times `time_scale`), then it is gone.
    """

    def __init__(self, world: World, changed: Callable[[], None]) -> None:
        self.patience = PATIENCE
        self.retry_delays: tuple[float, ...] = RETRY_DELAYS
        self.time_scale = 1.0
        self.ping_interval = 10.0
        self.sockets: list[Socket] = []
        self.deliveries: list[Delivery] = []
        self.acks: list[Ack] = []
        self.opened = 0
        self._world = world
        self._changed = changed
        self._tickets: set[str] = set()
        self._by_envelope: dict[str, tuple[Delivery, Envelope]] = {}
        self._due: asyncio.Queue[tuple[Delivery, int, str]] = asyncio.Queue()
        self._timers: set[asyncio.TimerHandle] = set()
        self._turn = itertools.count()
        self._worker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to deliver."""
        self._worker = asyncio.create_task(self._deliver())

    async def stop(self) -> None:
        """Drop every socket and every redelivery."""
        self.drop_all()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def ticket(self) -> str:
        """Return a ticket that opens one socket."""
        ticket = uuid4().hex
        self._tickets.add(ticket)
        return ticket

    def publish(self, payload: Json, *, type: str = "events_api", accepts: bool = False) -> Delivery:
        """Queue one delivery; order is kept."""
        delivery = Delivery(type=type, payload=payload, accepts_response=accepts)
        self.deliveries.append(delivery)
        self._due.put_nowait((delivery, 0, ""))
        return delivery

    def again(self, delivery: Delivery, *, reason: str = "timeout") -> None:
        """Send a delivery once more now, acknowledged or not, as Slack does when an ack got lost."""
        self._due.put_nowait((delivery, len(delivery.envelopes), reason))

    def drop_all(self) -> None:
        """Cut every socket without a close frame."""
        for socket in list(self.sockets):
            if socket.request.transport is not None:
                socket.request.transport.abort()

    async def disconnect(self, reason: str, *, socket: Socket | None = None, close_after: float = 0) -> None:
        """Announce the end of one socket (or of all) and close it `close_after` seconds later."""
        chosen = [socket] if socket is not None else list(self.sockets)
        frame = {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-test"}}
        for one in chosen:
            await one.send(frame)
            self._later(close_after, lambda one=one: asyncio.ensure_future(one.ws.close()))  # type: ignore[misc]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Run one socket from its ticket to its end."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=404)
        self._tickets.discard(ticket)
        ws = web.WebSocketResponse(autoping=False, autoclose=False)
        await ws.prepare(request)
        self.opened += 1
        socket = Socket(number=self.opened, ws=ws, request=request)
        if len(self.sockets) >= MAX_SOCKETS:
            await socket.send({"type": "disconnect", "reason": "too_many_websockets"})
            await ws.close()
            return ws
        await self._hello(socket)
        pings = asyncio.create_task(self._ping(socket))
        try:
            await self._listen(socket)
        finally:
            pings.cancel()
            self.sockets.remove(socket)
            self._changed()
        return ws

    async def _hello(self, socket: Socket) -> None:
        self.sockets.append(socket)
        await socket.send(
            {
                "type": "hello",
                "num_connections": len(self.sockets),
                "debug_info": {"host": "applink-test", "build_number": 1, "approximate_connection_time": 18060},
                "connection_info": {"app_id": self._world.app},
            }
        )
        self._changed()

    async def _listen(self, socket: Socket) -> None:
        while True:
            frame = await socket.ws.receive()
            if socket.is_silent:
                if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                    return await _until_gone(socket)
            elif frame.type is WSMsgType.PING:
                await socket.ws.pong(frame.data)
            elif frame.type is WSMsgType.TEXT:
                self._acknowledge(socket, json.loads(frame.data))
            elif frame.type is not WSMsgType.PONG:
                await socket.ws.close()
                return None

    async def _ping(self, socket: Socket) -> None:
        for number in itertools.count():
            await asyncio.sleep(self.ping_interval)
            if socket.ws.closed:
                return
            if not socket.is_silent:
                await socket.ws.ping(f"Ping from applink-test-{number}".encode())

    def _acknowledge(self, socket: Socket, answer: Json) -> None:
        found = self._by_envelope.get(answer.get("envelope_id", ""))
        if found is None:
            return
        delivery, envelope = found
        ack = Ack(
            envelope_id=envelope.id,
            event_id=delivery.event_id,
            at=time.time(),
            payload=answer.get("payload") or None,
            socket=socket.number,
        )
        delivery.acks.append(ack)
        self.acks.append(ack)
        self._changed()

    async def _deliver(self) -> None:
        while True:
            delivery, attempt, reason = await self._due.get()
            socket = self.sockets[next(self._turn) % len(self.sockets)] if self.sockets else None
            envelope = Envelope(
                id=str(uuid4()),
                attempt=attempt,
                reason=reason,
                sent_at=time.time(),
                socket=None if socket is None else socket.number,
            )
            delivery.envelopes.append(envelope)
            self._by_envelope[envelope.id] = (delivery, envelope)
            if socket is not None:
                await socket.send(_frame(delivery, envelope))
            if delivery.type == "events_api":
                wait = 0.0 if socket is None else self.patience
                self._later(wait, lambda d=delivery, a=attempt: self._judge(d, a))  # type: ignore[misc]
            self._changed()

    def _judge(self, delivery: Delivery, attempt: int) -> None:
        if delivery.acks or attempt + 1 != len(delivery.envelopes):
            return
        if attempt >= len(self.retry_delays):
            delivery.is_gone = True
            self._changed()
            return
        item = (delivery, attempt + 1, "timeout")
        self._later(self.retry_delays[attempt] * self.time_scale, lambda: self._due.put_nowait(item))

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            act()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)


async def _until_gone(socket: Socket) -> None:
    # a dead line answers no close frame either; only the client's end of TCP ends it
    while socket.request.transport is not None and not socket.request.transport.is_closing():
        await asyncio.sleep(0.02)


def _frame(delivery: Delivery, envelope: Envelope) -> Json:
    frame: Json = {
        "envelope_id": envelope.id,
        "payload": delivery.payload,
        "type": delivery.type,
        "accepts_response_payload": delivery.accepts_response,
    }
    if delivery.type == "events_api":
        frame |= {"retry_attempt": envelope.attempt, "retry_reason": envelope.reason}
    return frame
