"""An event loop in a thread of its own, for a library that needs one: calls from outside, each with a bound.

The loop goes on between calls, so heartbeats, retries and fetches of the library do, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import Final, TypeVar

from harness.protocol.error_codes import ClientError

T = TypeVar("T")

GRACE_S: Final = 0.5  # for a call to be cancelled in
END_TIMEOUT_S: Final = 2.0


class Loop:
    """Runs until `end`. `call` may be used from one other thread at a time."""

    def __init__(self, name: str) -> None:
        self._ended = False
        self._loop = asyncio.new_event_loop()
        # What the library says of connections that are lost is no news: their errors come with the calls.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def call(self, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
        """What the coroutine returns or raises. Out of time it is cancelled where it waits, and ClientError
        `_TIMED_OUT` raised; if it has ended by then, its result stands, so nothing it did goes unnoticed."""

        async def run() -> T:
            try:
                return await asyncio.wait_for(make(), max(0.0, timeout_s))
            except TimeoutError:
                raise ClientError("_TIMED_OUT", f"{what} took longer than {timeout_s:.1f} s") from None

        closed = ClientError("_DESTROY", f"{what}: the client has been closed", "fatal")
        if self._ended:
            raise closed
        try:
            future = asyncio.run_coroutine_threadsafe(run(), self._loop)
            return future.result(max(0.0, timeout_s) + GRACE_S)
        except futures.TimeoutError:  # what it waits for does not let itself be cancelled
            raise ClientError("_HANGS", f"{what} goes on after {timeout_s:.1f} s", "fatal") from None
        except (futures.CancelledError, RuntimeError) as error:
            if self._ended:
                raise closed from None
            raise error

    def end(self, last: Callable[[], Awaitable[object]]) -> None:
        """Cancel all tasks, as the end of a process would; then `last`, bounded; then the loop ends. Returns
        at once. Safe to repeat."""
        if self._ended:
            return
        self._ended = True

        async def run() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=GRACE_S)
            with contextlib.suppress(Exception):
                await asyncio.wait_for(last(), END_TIMEOUT_S)
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(run(), self._loop)
