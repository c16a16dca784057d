"""Code that aiokafka's producers and consumers share: starting them, and making calls with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from aiokafka.errors import KafkaError

from harness.clients.aiokafka.loop import Loop
from harness.clients.aiokafka.settings_and_errors import converted
from harness.clients.settings import Settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError

T = TypeVar("T")

TRY_TIMEOUT_S: Final = 3.0
START_PAUSE_S: Final = 0.1
BLOCK_TIMEOUT_S: Final = 3.0  # to connect, get the topic's metadata and buffer space, like Java's max.block.ms


async def started(make: Callable[[], Any], vanish: Callable[[Any], Awaitable[object]]) -> Any:
    """Creates a producer or consumer with `make`, and starts it.

    Retries after retriable errors until the cluster responds or the task is cancelled.

    vanish  coroutine function that closes the connections of a producer or consumer whose start failed
    """
    while True:
        client = make()
        try:
            await client.start()
            return client
        except BaseException as error:
            with contextlib.suppress(Exception):
                await vanish(client)
            if not (isinstance(error, KafkaError) and error.retriable):
                raise
        await asyncio.sleep(START_PAUSE_S)


def block_s(settings: Settings) -> float:
    """Returns the timeout of calls for which the caller gives none. It is shorter than the time limit of an op."""
    return min(BLOCK_TIMEOUT_S, settings.patience_s / 2)


async def _nothing() -> None:
    """Does nothing: there are no connections to close."""


def check_options(loop: Loop, kind: Any, options: Mapping[str, Any], what: str) -> None:
    """Raises BadInput if aiokafka rejects these options of a producer or consumer (`what`), whose class is `kind`."""

    async def make() -> None:
        kind(**options)._closed = True  # it was never started

    try:
        loop.call(make, TRY_TIMEOUT_S, what)
    except (ValueError, TypeError, RuntimeError) as error:
        loop.end(_nothing)
        raise BadInput(f"{what} settings: {error}; see --{what}-config") from None


def result_of(loop: Loop, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
    """Runs a coroutine, and returns its result. Converts errors that the library raises to ClientError.

    what  name of the call, for the error message
    """
    try:
        return loop.call(make, timeout_s, what)
    except ClientError:
        raise
    except Exception as raised:
        raise converted(raised) from None
