"""What the adapter knows of librdkafka: its metadata of a member, and what its callbacks leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from harness.clients.confluent import pipeline_source
from harness.clients.confluent.pipeline_source import ConfluentSource, anonymous
from harness.clients.pipeline.config import parse_pipeline_config
from harness.pipeline_app.ports import Mark, Partition
from harness.plan.make_plan import make
from harness.plan.resolve import workload_of
from harness.run.start_workers import client_config


def test_nobody_s_metadata_is_as_the_library_writes_it() -> None:
    stranger = ck.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    assert anonymous("g") == stranger.consumer_group_metadata()


class Library:
    """A consumer whose polls call back what they are told to, in turn; nothing is ever committed."""

    def __init__(self, *script: tuple[str, int]) -> None:
        self.script = list(script)
        self.callbacks: dict[str, Callable[[Any, Sequence[Any]], None]] = {}

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[[Any, Sequence[Any]], None]) -> None:
        self.callbacks = callbacks

    def consume(self, records_max: int, timeout_s: float) -> list[Any]:
        name, partitions = self.script.pop(0)
        self.callbacks[name](self, [ck.TopicPartition("t", number) for number in range(partitions)])
        return []

    def committed(self, partitions: Sequence[Any], timeout: float) -> Sequence[Any]:
        return partitions

    def assign(self, partitions: Sequence[Any]) -> None: ...
    def incremental_assign(self, partitions: Sequence[Any]) -> None: ...


class Rebalanced:
    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        self.events.append(("lost" if lost else "revoked", [number for _, number in partitions]))

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        self.events.append(("assigned", [number for _, number in marks]))
        return dict.fromkeys(marks, 0)


def rebalances(
    monkeypatch: pytest.MonkeyPatch, folder: Path, assignor: str, *script: tuple[str, int]
) -> list[tuple[str, list[int]]]:

    library, on = Library(*script), Rebalanced()
    monkeypatch.setattr(pipeline_source, "made_with", lambda *_: library)
    plan = make({"workload": "pipeline", "assignor": assignor}).model_copy(update={"run": "r"})
    options = workload_of(plan).client_options
    config = {**client_config(plan, "h:1"), "process": 8, "logic_options": options, "folder": str(folder)}
    opened = ConfluentSource(parse_pipeline_config(config))
    for _ in script:
        opened.poll(0.1, 10, on)
    return on.events


def test_an_assignment_without_a_revocation_is_a_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert rebalances(monkeypatch, tmp_path, "range", ("on_assign", 1), ("on_assign", 2)) == [
        ("assigned", [0]),
        ("lost", [0]),
        ("assigned", [0, 1]),
    ]


def test_an_assignment_after_a_revocation_is_no_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = ("on_assign", 1), ("on_revoke", 1), ("on_assign", 1), ("on_lost", 1), ("on_assign", 1)
    seen = [what for what, _ in rebalances(monkeypatch, tmp_path, "range", *script)]
    assert seen == ["assigned", "revoked", "assigned", "lost", "assigned"]


def test_what_is_added_to_an_assignment_is_no_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = ("on_assign", 1), ("on_assign", 2)
    seen = [what for what, _ in rebalances(monkeypatch, tmp_path, "cooperative-sticky", *script)]
    assert seen == ["assigned", "assigned"]
