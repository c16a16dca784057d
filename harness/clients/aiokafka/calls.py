"""What producers and consumers of aiokafka share: starting, and calls with a bound."""

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
BLOCK_TIMEOUT_S: Final = 3.0  # to find the cluster, know the topic and have room, as Java's max.block.ms


async def started(make: Callable[[], Any], vanish: Callable[[Any], Awaitable[object]]) -> Any:
    """A producer or consumer that has found the cluster; tries until it is cancelled."""
    while True:
        made = make()
        try:
            await made.start()
            return made
        except BaseException as error:
            with contextlib.suppress(Exception):
                await vanish(made)
            if not (isinstance(error, KafkaError) and error.retriable):
                raise
        await asyncio.sleep(START_PAUSE_S)


def block_s(made: Settings) -> float:
    """How long a call may block that has no time-out of its own; less than its op may take."""
    return min(BLOCK_TIMEOUT_S, made.patience_s / 2)


async def _nothing() -> None:
    """No connections to close."""


def tried(loop: Loop, kind: Any, options: Mapping[str, Any], what: str) -> None:
    """Raises BadInput when the library does not take these options."""

    async def make() -> None:
        kind(**options)._closed = True  # it has not been started

    try:
        loop.call(make, TRY_TIMEOUT_S, what)
    except (ValueError, TypeError, RuntimeError) as error:
        loop.end(_nothing)
        raise BadInput(f"{what} settings: {error}; see --{what}-config") from None


def result_of(loop: Loop, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
    """What a coroutine gives; the library's errors as ours. Raises ClientError."""
    try:
        return loop.call(make, timeout_s, what)
    except ClientError:
        raise
    except Exception as raised:
        raise converted(raised) from None
