"""A bound for library calls that have no timeout of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from harness.protocol.error_codes import ClientError

T = TypeVar("T")

_ABANDONED: Final[set[threading.Thread]] = set()
_LOCK: Final = threading.Lock()


def stuck() -> int:
    """How many calls of this operating system process have passed their bound and still go on.

    Each holds a thread, and the producer or consumer it was made on, until it returns; one that never does
    (confluentinc/librdkafka#5456) holds them until the process ends.
    """
    with _LOCK:
        _ABANDONED.difference_update([thread for thread in _ABANDONED if not thread.is_alive()])
        return len(_ABANDONED)


def bounded(call: Callable[[], T], timeout_s: float, what: str) -> T:
    """What `call` returns or raises, if it does within `timeout_s`.

    Otherwise raises a fatal ClientError `_TIMED_OUT`: the call goes on in a thread of its own, so whatever
    it uses must be given up. `stuck` counts it until it returns.
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
