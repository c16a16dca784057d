"""The sink of Kafka's Java client: a flush ends before offsets are committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.clients.java import pipeline_sink
from harness.pipeline_app.ports import Failed
from harness.protocol.error_codes import ClientError
from tests.unit.clients.pipeline.test_files import config


class Producer:
    """A producer whose sends end with the given errors (None: well) as soon as it is flushed."""

    def __init__(self, *errors: ClientError | None) -> None:
        self._errors, self.calls = list(errors), list[str]()

    def init(self, timeout_s: float) -> None: ...
    def post(self, partition: Any, payload: bytes, key: bytes | None = None) -> Any:
        self.calls.append("post")
        return self._errors.pop(0)

    def flush(self, timeout_s: float) -> None:
        self.calls.append("flush")

    def raise_failed(self, future: Any) -> None:
        if future is not None:
            raise future


def send(producer: Producer, monkeypatch: pytest.MonkeyPatch, folder: Path, mode: str) -> None:
    monkeypatch.setattr(pipeline_sink, "opened", lambda machine, settings: producer)
    machine: Any = None
    sink = pipeline_sink.JavaSink(machine, config(folder, pipeline_mode=mode, client=["java"]))
    sink.send_rows([("r-1", 0, b"k", b"v")] * 2)


@pytest.mark.parametrize(
    ("mode", "calls"), [("at-least-once", ["post", "post", "flush"]), ("exactly-once", ["post", "post"])]
)
def test_only_a_sink_without_transactions_flushes(
    mode: str, calls: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    producer = Producer(None, None)
    send(producer, monkeypatch, tmp_path, mode)
    assert producer.calls == calls


@pytest.mark.parametrize(("kind", "failed"), [("abortable", "abort"), ("fatal", "fatal")])
def test_a_failed_send_is_known_after_the_flush(
    kind: Any, failed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(Failed, match="MSG_SIZE_TOO_LARGE") as caught:
        send(Producer(None, ClientError("MSG_SIZE_TOO_LARGE", "x", kind)), monkeypatch, tmp_path, "at-least-once")
    assert caught.value.kind == failed
