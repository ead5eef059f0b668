"""A strict OpenAI-compatible chat server for tests: it refuses what strict providers refuse.

In process:

    async with ChatServer(api_key="secret") as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="secret", max_retries=0)
        server.reply("The second one failed on a timeout.")

Without a scripted reply the answer quotes the last user message, so that a test sees what the model was given.
On its own, driven by `POST /__test/VERB` (reply, fault, clear_faults, wait_requests) and `GET /__test/requests`:

    PYTHONPATH=tests python -m servers.chat --port 0 --api-key secret

Source: https://platform.openai.com/docs/api-reference/chat. Strict is: one leading system message at most, then user
and assistant in turn, user first and last, nothing empty.
"""

import argparse
import asyncio
import inspect
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from servers.chat_faults import ChatFault, ChatFaultKind, Cut, Refusal
from servers.chat_strict import check_messages, text_of, tokens

Json = dict[str, Any]
DEFAULT_MODEL = "test-model"


class ChatServer:
    """The server. `models` are the ones it has; `responder`, if given, writes the answers that are not scripted."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        models: Iterable[str] = (DEFAULT_MODEL,),
        port: int = 0,
        responder: Callable[[Sequence[Json]], str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.api_key = api_key
        self.models = tuple(models)
        self.port = port
        self.responder = responder or _quote_back
        self.requests: list[Json] = []
        """Each request's body as it came, with `status` (None while open or when cut) and `error` beside it."""
        self._now = now
        self._replies: deque[str] = deque()
        self._faults: list[ChatFault] = []
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60 * 2**20)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_post("/__test/{verb}", self._control)
        app.router.add_get("/__test/requests", self._show_requests)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear_faults()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        """What a client wants as `base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    # scripting

    def reply(self, *texts: str) -> None:
        """Script the next answers, in order; after them the default answers again."""
        self._replies.extend(texts)

    def fault(
        self,
        kind: ChatFaultKind | str,
        times: int = 1,
        *,
        skip: int = 0,
        seconds: float = 0,
        retry_after: float | None = None,
        code: int = 400,
        message: str = "Bad request",
    ) -> ChatFault:
        """Arm a fault for the next `times` completions, after `skip` of them; see ChatFaultKind."""
        fault = ChatFault(
            kind=ChatFaultKind(kind),
            times=times,
            skip=skip,
            seconds=seconds,
            retry_after=retry_after,
            code=code,
            message=message,
        )
        self._faults.append(fault)
        return fault

    def clear_faults(self) -> None:
        """Disarm every fault and let go what is held."""
        for fault in self._faults:
            fault.release()
        self._faults.clear()

    async def wait_requests(self, count: int = 1, *, timeout: float = 10) -> list[Json]:
        """Return the requests once there are `count`; TimeoutError says how many there were."""
        try:
            async with asyncio.timeout(timeout):
                while len(self.requests) < count:
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{len(self.requests)} of {count} requests after {timeout} s") from None
        return self.requests

    # the wire

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        record: Json = body | {"status": None, "error": None}
        self.requests.append(record)
        self._touch()
        try:
            return await self._answer(request, body, record)
        except Refusal as refusal:
            record["status"], record["error"] = refusal.status, refusal.message
            return web.json_response(refusal.wire(), status=refusal.status, headers=refusal.headers)
        except Cut:
            record["status"] = None
            return web.Response()
        finally:
            self._touch()

    async def _answer(self, request: web.Request, body: Json, record: Json) -> web.StreamResponse:
        self._check_key(request)
        fault = next((f for f in self._faults if f.strikes()), None)
        if fault is not None:
            await fault.before(request)
        if body.get("model") not in self.models:
            raise Refusal.unknown_model(str(body.get("model")))
        messages = check_messages(body.get("messages"))
        text = self._replies.popleft() if self._replies else self.responder(messages)
        if fault is not None and fault.kind is ChatFaultKind.EMPTY:
            text = ""
        answer = _Answer(body, messages, text, int(self._now()), len(self.requests))
        record["status"] = 200
        if body.get("stream"):
            return await self._stream(request, answer, fault)
        if fault is not None:
            await fault.midway(request)
        return web.json_response(answer.whole(fault))

    async def _stream(self, request: web.Request, answer: "_Answer", fault: ChatFault | None) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        chunks = answer.chunks(fault)
        half = len(chunks) // 2
        for number, chunk in enumerate(chunks):
            if fault is not None and number == half:
                await fault.midway(request)
                error = fault.error_in_stream()
                if error is not None:
                    await response.write(_event(error))
                    return response
            await response.write(_event(chunk))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _check_key(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and given != self.api_key:
            raise Refusal.wrong_key(given)

    async def _list_models(self, request: web.Request) -> web.Response:
        try:
            self._check_key(request)
        except Refusal as refusal:
            return web.json_response(refusal.wire(), status=refusal.status)
        data = [{"id": m, "object": "model", "created": int(self._now()), "owned_by": "tests"} for m in self.models]
        return web.json_response({"object": "list", "data": data})

    # the control API

    async def _control(self, request: web.Request) -> web.Response:
        verbs: dict[str, Callable[..., object]] = {
            "reply": lambda texts: self.reply(*texts),
            "fault": lambda **arguments: self.fault(**arguments).kind.value,
            "clear_faults": self.clear_faults,
            "wait_requests": self.wait_requests,
        }
        name = request.match_info["verb"]
        try:
            if name not in verbs:
                raise LookupError(f"no such verb, only {sorted(verbs)}")
            result = verbs[name](**(await request.json() if request.can_read_body else {}))
            result = await result if inspect.isawaitable(result) else result
        except (LookupError, TypeError, ValueError, TimeoutError) as error:
            return web.json_response({"error": f"{name}: {error}"}, status=400)
        return web.json_response({"result": result})

    async def _show_requests(self, request: web.Request) -> web.Response:
        return web.json_response({"result": self.requests})

    def _touch(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Answer:
    """One answer in both of its forms. A token is a word with the space behind it."""

    def __init__(self, body: Json, messages: Sequence[Json], text: str, created: int, number: int) -> None:
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        pieces = tokens(text)
        self._pieces = pieces if limit is None else pieces[:limit]
        self._finish = "stop" if len(self._pieces) == len(pieces) else "length"
        self._head: Json = {"id": f"chatcmpl-{number}", "created": created, "model": body["model"]}
        prompt = sum(len(tokens(text_of(message))) for message in messages)
        self._usage = {
            "prompt_tokens": prompt,
            "completion_tokens": len(self._pieces),
            "total_tokens": prompt + len(self._pieces),
        }
        self._wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    def whole(self, fault: ChatFault | None) -> Json:
        message = {"role": "assistant", "content": "".join(self._pieces), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish}
        choices = [] if fault is not None and fault.kind is ChatFaultKind.NO_CHOICES else [choice]
        return self._head | {"object": "chat.completion", "choices": choices, "usage": self._usage}

    def chunks(self, fault: ChatFault | None) -> list[Json]:
        if fault is not None and fault.kind is ChatFaultKind.NO_CHOICES:
            return [self._chunk([])]
        deltas: list[Json] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in self._pieces)]
        chunks = [self._chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        chunks.append(self._chunk([{"index": 0, "delta": {}, "finish_reason": self._finish}]))
        if self._wants_usage:
            chunks.append(self._chunk([]) | {"usage": self._usage})
        return chunks

    def _chunk(self, choices: list[Json]) -> Json:
        return self._head | {"object": "chat.completion.chunk", "choices": choices}


def _quote_back(messages: Sequence[Json]) -> str:
    return f"You said: {text_of(messages[-1])}"


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


async def _body(request: web.Request) -> Json:
    try:
        body = await request.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {}


async def _serve(api_key: str | None, models: Sequence[str], port: int) -> None:
    async with ChatServer(api_key=api_key, models=models, port=port) as server:
        print(json.dumps({"base_url": server.base_url, "port": server.port}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run on its own until it is killed; the first line on stdout says where it listens."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--api-key")
    parser.add_argument("--model", action="append", default=[])
    args = parser.parse_args()
    asyncio.run(_serve(args.api_key, args.model or [DEFAULT_MODEL], args.port))


if __name__ == "__main__":
    main()
