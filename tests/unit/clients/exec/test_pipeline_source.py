"""The pipeline's source for client programs, over a consumer whose polls are written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.clients.client_protocols import Batch, Record
from harness.clients.exec.pipeline_source import ExecSource
from harness.pipeline_app.ports import Failed, Mark, Partition
from harness.protocol.error_codes import ClientError, Kind
from tests.unit.clients.pipeline.test_group_member import Listener, settled

A, B = ("r-0", 0), ("r-0", 1)
Poll = Callable[["Consumer"], Batch]


def records(*offsets: int, at: Partition = A) -> Batch:
    return Batch([Record(*at, offset, b'{"id":%d,"key":3}' % offset) for offset in offsets])


class Consumer:
    """Polls are functions that report rebalances as a program would; `seeks` has the positions sought."""

    def __init__(self, *polls: Poll) -> None:
        self.polls = list(polls)
        self.seeks: list[Mapping[Partition, int]] = []
        self.refusals: list[Kind] = []
        self.rebalanced: Any = None

    def subscribe(self, topics: Sequence[str], rebalanced: Any) -> None:
        self.rebalanced = rebalanced

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        return self.polls.pop(0)(self)

    def seek(self, positions: Mapping[Partition, int], timeout_s: float) -> None:
        self.seeks.append(dict(positions))
        if self.refusals:
            raise ClientError("_STATE", "not yet", self.refusals.pop(0))


class Coordinator:
    """librdkafka's part: the group's committed offsets."""

    def __init__(self, **marks: int) -> None:
        self.marks = {
            A: Mark(marks["a"], "of the library") if "a" in marks else None,
            B: Mark(marks["b"]) if "b" in marks else None,
        }

    def committed(self, pipeline: Any, partitions: Sequence[Partition], timeout_s: float) -> dict[Any, Mark | None]:
        return {at: self.marks[at] for at in partitions}


class Starter(Listener):
    """Starts at `starts` instead of the committed offsets."""

    def __init__(self, starts: Mapping[Partition, int]) -> None:
        super().__init__()
        self.starts = starts

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        return {**super().assigned(marks), **self.starts}


def source(tmp_path: Path, consumer: Consumer, **marks: int) -> ExecSource:
    program: Any = type("Program", (), {"consumer": lambda self, settings: consumer})()
    library: Any = Coordinator(**marks)
    return ExecSource(program, settled(tmp_path), library)


def assigned(batch: Batch) -> Poll:
    def poll(consumer: Consumer) -> Batch:
        consumer.rebalanced("assigned", [A, B], {})
        return batch

    return poll


def offsets(found: Mapping[Partition, list[Any]]) -> dict[Partition, list[int]]:
    return {at: [offset for offset, _, _ in rows] for at, rows in found.items()}


def test_the_library_starts_where_it_wants_at_the_committed_offset(tmp_path: Path) -> None:
    consumer = Consumer(assigned(records(9)))
    made = source(tmp_path, consumer, a=7)
    listener = Listener()
    assert offsets(made.poll(0.0, 10, listener)) == {A: [9]}
    assert consumer.seeks == [] and listener.marks == {A: Mark(7), B: None}


def test_it_is_told_to_seek_if_the_instance_starts_elsewhere(tmp_path: Path) -> None:
    consumer = Consumer(assigned(records(7)), lambda it: records(12))
    made = source(tmp_path, consumer, a=7)
    assert made.poll(0.0, 10, Starter({A: 12})) == {}
    assert consumer.seeks == [{A: 12}]
    assert offsets(made.poll(0.0, 10, Listener())) == {A: [12]}


def test_a_seek_that_is_refused_is_tried_again_for_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clients.exec.pipeline_source.PAUSE_S", 0.0)
    consumer = Consumer()
    made = source(tmp_path, consumer)
    consumer.refusals = ["plain", "retriable"]
    made.seek({A: 12})
    assert consumer.seeks == [{A: 12}] * 3
    for refusals, seek_s in ((["fatal", "fatal"], 60), (["plain"] * 2, -1)):
        monkeypatch.setattr("harness.clients.exec.pipeline_source.SEEK_S", seek_s)
        consumer.refusals = [*refusals]
        with pytest.raises(Failed, match="seek: _STATE"):
            made.seek({A: 12})
        assert len(consumer.refusals) == 1


def test_records_of_a_paused_partition_are_read_again_once_it_resumes(tmp_path: Path) -> None:
    consumer = Consumer(assigned(records(0)), lambda it: records(1, 2), lambda it: records(3))
    made = source(tmp_path, consumer)
    made.poll(0.0, 10, Listener())
    made.pause([A])
    assert made.poll(0.0, 10, Listener()) == made.poll(0.0, 10, Listener()) == {}
    made.resume([A, B])
    assert consumer.seeks == [{A: 1}]
    made.resume([A])
    assert len(consumer.seeks) == 1


def test_a_revoked_partition_is_not_sought(tmp_path: Path) -> None:
    def revoked(consumer: Consumer) -> Batch:
        consumer.rebalanced("revoked", [A], {})
        return Batch()

    consumer = Consumer(assigned(records(0)), lambda it: records(1), revoked)
    made, listener = source(tmp_path, consumer), Listener()
    made.poll(0.0, 10, listener)
    made.pause([A])
    made.poll(0.0, 10, listener)
    made.poll(0.0, 10, listener)
    made.resume([A])
    assert listener.events == [("assigned", [A, B]), ("revoked", [A])] and consumer.seeks == []


@pytest.mark.parametrize(("kind", "fatal"), [("fatal", True), ("retriable", False), ("plain", False)])
def test_only_a_fatal_error_of_a_poll_ends_the_member(tmp_path: Path, kind: Any, fatal: bool) -> None:
    def refused(consumer: Consumer) -> Batch:
        raise ClientError("COORDINATOR_NOT_AVAILABLE", "x", kind)

    made = source(tmp_path, Consumer(refused))
    if fatal:
        with pytest.raises(Failed, match="poll: ") as raised:
            made.poll(0.0, 10, Listener())
        assert raised.value.kind == "fatal"
    else:
        assert made.poll(0.0, 10, Listener()) == {}


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b'{"id":1}', b'{"id":1,"key":null}'])
def test_a_value_that_no_writer_wrote(tmp_path: Path, value: bytes | None) -> None:
    made = source(tmp_path, Consumer(lambda it: Batch([Record(*A, 5, value)])))
    with pytest.raises(Failed, match="r-0-0 offset 5 is not that of a writer"):
        made.poll(0.0, 10, Listener())
