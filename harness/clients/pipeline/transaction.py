"""Makes the calls of a sink's transaction, with retries, for any library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.pipeline_app.ports import Failed, Kind
from harness.protocol.error_codes import ClientError

STEP_S: Final = 6.0  # timeout of one call, including retries
PAUSE_S: Final = 0.01


def step(call: Callable[[float], None], what: str, abortable: Kind = "abort") -> None:
    """Makes a call with the seconds left as its argument. Repeats the call after retriable errors until the timeout.

    Raises Failed if the call fails. If the library reports that the transaction can be aborted, the kind of Failed is
    `abortable`; otherwise the kind is "fatal".
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
