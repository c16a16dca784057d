"""Makes the transactional calls of a pipeline's sink, with retries, for any client library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.pipeline_app.ports import Failed, Kind
from harness.protocol.error_codes import ClientError

STEP_S: Final = 6.0  # timeout of one call, including retries
PAUSE_S: Final = 0.01


def step(call: Callable[[float], None], what: str, abortable: Kind = "abort") -> None:
    """Calls `call(seconds left)`; `what` names the call, for messages.

    Repeats the call after retriable errors for up to STEP_S seconds. Raises Failed if the call fails. If the library
    reports that the transaction can still be aborted, the kind of this Failed is `abortable`, otherwise "fatal".
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
