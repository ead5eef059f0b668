"""Two reading connections on two threads, and the gate that lets the -wal shrink between their reads."""

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from state.calls import Call, answer
from state.sqlite import Link, Trouble, for_caller, trouble_of

READERS = 2
GATE_SECONDS = 0.5
DRAIN_SECONDS = 5.0
_TRIES = 3


class Gate:
    """Reads go through it; while it is closed none begins, and those inside are asked to leave."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside: list[Link[sqlite3.Connection]] = []

    @contextlib.contextmanager
    def reading(self, link: Link[sqlite3.Connection]) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside.append(link)
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(link)
                self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Keep new reads out; wait for those inside, then interrupt them (they are run again)."""
        with self._changed:
            self._closed = True
            if not self._changed.wait_for(self._is_empty, GATE_SECONDS):
                for link in self._inside:
                    link.raw.interrupt()
                self._changed.wait_for(self._is_empty, GATE_SECONDS)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def _is_empty(self) -> bool:
        return not self._inside


class Readers:
    """Runs functions, each in a read transaction of its own, in the order given but two at a time."""

    def __init__(self, path: Path, links: list[Link[sqlite3.Connection]]) -> None:
        self.gate = Gate()
        self._path = path
        self._links = links
        self._is_ending = False
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, args=(link,), name=f"{path.name}-reader", daemon=True)
            for link in links
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, call: Call) -> None:
        self._queue.put(call)

    def is_current_thread(self) -> bool:
        return threading.current_thread() in self._threads

    def drain(self) -> None:
        """Answer what is queued and end the threads; a read that goes on for long is interrupted for good.

        Nothing may be submitted any more.
        """
        for _ in self._threads:
            self._queue.put(None)
        for thread, link in zip(self._threads, self._links, strict=True):
            thread.join(DRAIN_SECONDS)
            if thread.is_alive():
                self._is_ending = True
                link.raw.interrupt()
            thread.join()

    def close(self) -> None:
        """Close the connections, after `drain`."""
        for link in self._links:
            link.close()

    def _serve(self, link: Link[sqlite3.Connection]) -> None:
        while (call := self._queue.get()) is not None:
            for _ in range(_TRIES):
                self._read(link, call)
                if call.error is None or trouble_of(call.error) is not Trouble.INTERRUPTED or self._is_ending:
                    break
            answer((call,))

    def _read(self, link: Link[sqlite3.Connection], call: Call) -> None:
        with self.gate.reading(link):
            try:
                link.raw.execute("BEGIN")
                call.run(link.core)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's; the thread lives on
                call.error = for_caller(self._path, error)
            finally:
                self._finish(link)

    def _finish(self, link: Link[sqlite3.Connection]) -> None:
        if link.raw.in_transaction:
            link.raw.execute("COMMIT")
        if link.is_entangled():
            link.renew()
