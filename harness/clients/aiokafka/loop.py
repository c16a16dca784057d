"""An asyncio event loop in its own thread. Other threads make blocking calls to it, each with a timeout.

The loop keeps running between calls, so the library's heartbeats, retries and fetches continue.
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

GRACE_S: Final = 0.5  # time for a call to be cancelled
END_TIMEOUT_S: Final = 2.0


class Loop:
    """An event loop that runs until `end`. Only one other thread may use `call` at a time."""

    def __init__(self, name: str) -> None:
        self._ended = False
        self._loop = asyncio.new_event_loop()
        # Ignore what the library reports of lost connections: the calls raise these errors.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def call(self, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
        """Runs a coroutine on the loop, and returns its result or raises its exception.

        On timeout the coroutine is cancelled, and ClientError `_TIMED_OUT` is raised. If the coroutine finishes before
        the cancellation takes effect, its result is returned, because its effect has taken place.

        what  name of the call, for the error message
        """

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
        except futures.TimeoutError:  # the coroutine ignores its cancellation
            raise ClientError("_HANGS", f"{what} is still running after {timeout_s:.1f} s", "fatal") from None
        except (futures.CancelledError, RuntimeError) as error:
            if self._ended:
                raise closed from None
            raise error

    def end(self, last: Callable[[], Awaitable[object]]) -> None:
        """Cancels all tasks, then runs `last`, then stops the loop. Does not wait until this is done. Safe to repeat.

        last  coroutine function, such as one that closes connections; cancelled if it exceeds a timeout
        """
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
