"""Limits the time of library calls that have no timeout, or do not keep theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from harness.protocol.error_codes import ClientError

T = TypeVar("T")

_ABANDONED: Final[set[threading.Thread]] = set()
_LOCK: Final = threading.Lock()


def stuck() -> int:
    """Return how many calls of this operating system process have exceeded their timeout and are still running.

    Each occupies a thread, and the producer or consumer that it was called on, until it returns. A call that never
    returns (confluentinc/librdkafka#5456) occupies them until the process ends.
    """
    with _LOCK:
        _ABANDONED.difference_update([thread for thread in _ABANDONED if not thread.is_alive()])
        return len(_ABANDONED)


def bounded(call: Callable[[], T], timeout_s: float, what: str) -> T:
    """Return or raise what `call` does, if it finishes within `timeout_s`.

    Otherwise raise a fatal ClientError `_TIMED_OUT`. The call then continues in its thread, so the producer or
    consumer that it uses must be abandoned. `stuck` counts it until it returns.
    """
    results: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(max(0.0, timeout_s))
    if results:
        return results[0]
    if raised:
        raise raised[0]
    with _LOCK:
        _ABANDONED.add(thread)
    raise ClientError("_TIMED_OUT", f"{what} took longer than {timeout_s:.1f} s", "fatal")
