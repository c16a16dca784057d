"""The interpretation of errors of transactional calls."""

from __future__ import annotations

import pytest

from harness.clients.pipeline import transaction
from harness.clients.pipeline.transaction import step
from harness.pipeline_app.ports import Failed
from harness.protocol.error_codes import ClientError, Kind


def test_retriable_errors_are_tried_again_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def call(left_s: float) -> None:
        left.append(left_s)
        if len(left) < 3:
            raise ClientError("COORDINATOR_NOT_AVAILABLE", "later", "retriable")

    step(call, "commit")
    assert len(left) == 3 and left[0] > left[2] > 0
    monkeypatch.setattr(transaction, "STEP_S", 0.0)
    left.clear()
    with pytest.raises(Failed, match=r"commit: .*later") as raised:
        step(call, "commit")
    assert raised.value.kind == "fatal" and len(left) == 1


@pytest.mark.parametrize(
    ("kind_raised", "kind", "of_an_abort"),
    [("abortable", "abort", "fatal"), ("fatal", "fatal", "fatal"), ("plain", "fatal", "fatal")],
)
def test_kinds(kind_raised: Kind, kind: str, of_an_abort: str) -> None:
    def call(left_s: float) -> None:
        raise ClientError("X", "no", kind_raised)

    with pytest.raises(Failed) as raised:
        step(call, "commit")
    assert raised.value.kind == kind
    with pytest.raises(Failed) as raised:
        step(call, "abort", "fatal")
    assert raised.value.kind == of_an_abort
