"""A bound for library calls that have no timeout of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from harness.clients.api import ClientError

T = TypeVar("T")


def bounded(call: Callable[[], T], timeout_s: float, what: str) -> T:
    """What `call` returns or raises, if it does within `timeout_s`.

    Otherwise raises a fatal ClientError `_TIMED_OUT`: the call goes on in a thread of its own, so whatever
    it uses must be given up.
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
    raise ClientError("_TIMED_OUT", f"{what} took longer than {timeout_s:.1f} s", "fatal")
