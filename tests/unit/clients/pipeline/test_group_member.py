"""The behaviour of a group member at a rebalance, independent of the library: here one made of lists.

See also test_confluent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.clients.pipeline import group_member
from harness.clients.pipeline.config import PipelineConfig, parse_pipeline_config
from harness.clients.pipeline.group_member import Member
from harness.pipeline_app.ports import Failed, Mark, Partition, Record
from harness.protocol.error_codes import ClientError

A, B = ("r-0", 0), ("r-0", 1)
LATE = ClientError("REQUEST_TIMED_OUT", "late", "retriable")


def settled(tmp_path: Path, **more: Any) -> PipelineConfig:
    options = {"options": {}, "inputs": 1, "partitions": 2, "work_s": 1.0, "assignor": "range"}
    logic = options | {"static_members": False, "one_poll": False}
    base = parse_pipeline_config(
        {"bootstrap": "b:1", "run": "r", "concurrency": 3, "folder": str(tmp_path), "logic_options": logic}
    )
    return replace(base, **more)


class Listed(Member):
    """Polls are functions that make callbacks as a library would, and return records."""

    def __init__(self, made: PipelineConfig, *polls: Callable[[Listed], Mapping[Partition, list[Record]]]) -> None:
        super().__init__(made)
        self.polls = list(polls)
        self.started: list[Mapping[Partition, int]] = []
        self.marks: list[Any] = []  # results of successive calls; the last one repeats

    def _take(self, found: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        found.update(self.polls.pop(0)(self))

    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        answer = self.marks.pop(0) if len(self.marks) > 1 else self.marks[0]
        if isinstance(answer, ClientError):
            raise answer
        return dict.fromkeys(partitions, answer)

    def _end(self, at: Partition) -> int:
        return 99

    def _start(self, starts: Mapping[Partition, int]) -> None:
        self.started.append(starts)

    def _close(self, leave: bool) -> None:
        if leave:
            self.gone(A)

    def given(self, *partitions: Partition) -> dict[Partition, list[Record]]:
        self._assigned(list(partitions))
        return {}

    def gone(self, *partitions: Partition, lost: bool = False) -> dict[Partition, list[Record]]:
        self._taken(list(partitions), lost)
        return {}


class Listener:
    """`ports.Rebalances`: starts at the group's committed offset, or at 0."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.fails: Failed | None = None
        self.marks: Mapping[Partition, Mark | None] = {}

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        self.events.append(("lost" if lost else "revoked", list(partitions)))
        if self.fails is not None:
            raise self.fails

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        self.events.append(("assigned", list(marks)))
        self.marks = marks
        return {at: mark.offset if mark is not None else 0 for at, mark in marks.items()}


def test_reading_starts_at_the_committed_offset_even_if_it_arrives_late(tmp_path: Path) -> None:
    one, listener = Listed(settled(tmp_path), lambda it: it.given(A, B)), Listener()
    one.marks = [LATE, Mark(7)]
    assert one.poll(0.0, 1, listener) == {}
    assert listener.events == [("assigned", [A, B])] and one.started == [{A: 7, B: 7}]


def test_a_group_that_does_not_answer_ends_the_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_member, "COMMITTED_S", 0.0)
    one = Listed(settled(tmp_path), lambda it: it.given(A))
    one.marks = [LATE]
    with pytest.raises(Failed, match=r"committed offsets: .*late") as raised:
        one.poll(0.0, 1, Listener())
    assert raised.value.kind == "fatal" and one.started == []


@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("latest", 99)])
def test_where_nothing_is_committed(tmp_path: Path, reset: str, start: int) -> None:
    base = settled(tmp_path)
    found = replace(base, settings=replace(base.settings, auto_offset_reset=reset))
    one = Listed(found, lambda it: it.given(A))
    one.marks = [None]
    one.poll(0.0, 1, Listener())
    assert one.started == [{A: start}]


def test_what_fails_in_a_callback_is_raised_by_the_poll_and_by_every_later_one(tmp_path: Path) -> None:
    listener = Listener()
    listener.fails = Failed("fatal", "fenced")
    one = Listed(settled(tmp_path), lambda it: {**it.gone(A), **it.given(A)}, lambda it: {B: [(0, 1, 1)]})
    one.marks = [None]
    for _ in range(2):
        with pytest.raises(Failed, match="fenced"):
            one.poll(0.0, 1, listener)
    assert listener.events == [("revoked", [A])] and one.started == []


def test_one_poll_waits_for_the_assignment_and_forgets_what_is_read_again(tmp_path: Path) -> None:
    def first(it: Listed) -> Mapping[Partition, list[Record]]:
        it.gone(A)
        return {A: [(5, 1, 1)], B: [(6, 2, 2)]}

    one, listener = Listed(settled(tmp_path, one_poll=True), first, lambda it: {}, lambda it: it.given(A)), Listener()
    one.marks = [Mark(5)]
    assert one.poll(0.0, 1, listener) == {B: [(6, 2, 2)]}
    assert listener.events == [("revoked", [A]), ("assigned", [A])] and one.polls == []


@pytest.mark.parametrize(("leave", "events"), [(True, [("revoked", [A])]), (False, [])])
def test_only_a_member_that_leaves_gives_its_partitions_up(tmp_path: Path, leave: bool, events: list[Any]) -> None:
    listener = Listener()
    Listed(settled(tmp_path)).close(leave, listener)
    assert listener.events == events
