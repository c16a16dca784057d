"""Limits the duration of library calls that take no timeout, or that do not keep their timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from harness.protocol.error_codes import ClientError

T = TypeVar("T")

_ABANDONED: Final[set[threading.Thread]] = set()
_LOCK: Final = threading.Lock()


def stuck() -> int:
    """Returns how many calls have exceeded their timeout and are still running, in this operating system process.

    Each of these calls occupies a thread, and the producer or consumer on which it was made, until the call returns. A
    call that never returns (confluentinc/librdkafka#5456) occupies them until the process ends.
    """
    with _LOCK:
        _ABANDONED.difference_update([thread for thread in _ABANDONED if not thread.is_alive()])
        return len(_ABANDONED)


def bounded(call: Callable[[], T], timeout_s: float, what: str) -> T:
    """Makes a call, and returns its result or raises its exception if the call finishes within `timeout_s`.

    Otherwise raises a fatal ClientError `_TIMED_OUT`. The call then continues in its thread, so the producer or
    consumer that it uses must be abandoned. Until the call returns, `stuck` counts it.

    what  name of the call, for the error message
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
