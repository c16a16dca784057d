"""Calls of a sink's transaction with retries, for any library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.pipeline_app.ports import Failed, Kind
from harness.protocol.error_codes import ClientError

STEP_S: Final = 6.0  # timeout of one call, including retries
PAUSE_S: Final = 0.01


def step(call: Callable[[float], None], what: str, abortable: Kind = "abort") -> None:
    """Make a call with the seconds left as its argument; repeat it after retriable errors until the timeout.

    Raises Failed, of the kind `abortable` if the library reports that the transaction can be aborted, else "fatal".
    """
    deadline = time.monotonic() + STEP_S
    while True:
        try:
            return call(max(0.1, deadline - time.monotonic()))
        except ClientError as error:
            if error.kind == "retriable" and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
                continue
            raise Failed(abortable if error.kind == "abortable" else "fatal", f"{what}: {error}") from None
