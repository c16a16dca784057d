"""The time limit on calls that may never return."""

from __future__ import annotations

import threading
import time

import pytest

from harness.clients.call_timeout import bounded, stuck
from harness.protocol.error_codes import ClientError

PATIENCE_S = 5.0


def test_a_call_in_time_returns_or_raises_and_is_not_stuck() -> None:
    before = stuck()
    assert bounded(lambda: 7, PATIENCE_S, "seven") == 7
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, PATIENCE_S, "division")
    assert stuck() == before


def test_a_call_beyond_its_bound_is_stuck_until_it_returns() -> None:
    before = stuck()
    release = threading.Event()
    for _ in range(2):
        with pytest.raises(ClientError, match="waiting took longer") as caught:
            bounded(lambda: release.wait(PATIENCE_S), 0.01, "waiting")
        assert (caught.value.code, caught.value.kind) == ("_TIMED_OUT", "fatal")
    assert stuck() == before + 2
    release.set()
    deadline = time.monotonic() + PATIENCE_S
    while stuck() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stuck() == before
