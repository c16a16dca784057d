"""What the leaders of the quorum and the brokers said during a run, and what leaders must not say.

An epoch has at most one leader. While it leads, its high watermark does not go back. A new leader may not know the high
watermark yet (-1), and then know a lower one than the leader before. Sources: KIP-595; Raft.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from checker.disk.metadata.node_log import NodeLog, elected
from checker.disk.metadata.witnesses import TWO_LEADERS, WATERMARK, Found
from harness.protocol.flaws import Unreadable

FILE: Final = "events/quorum.jsonl"
NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A leader's answer to DescribeQuorum. `high_watermark` is -1 if the leader does not know it."""

    time_ns: int
    node: str
    leader: int
    epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Said:
    """What servers said, in order of time.

    leaders  (topic, partition, leader id, leader epoch) in answers to Metadata
    damaged  the number of lines that cannot be read, except an incomplete last line
    """

    answers: tuple[Answer, ...]
    leaders: tuple[tuple[str, int, int, int], ...]
    damaged: int

    @property
    def committed(self) -> int:
        """The highest high watermark: all records before this offset are committed."""
        return max((answer.high_watermark for answer in self.answers), default=-1)


def read(run: Path) -> Said:
    """Reads the answers from a run folder. There are none if the file is missing."""
    answers, leaders, damaged = list[Answer](), list[tuple[str, int, int, int]](), 0
    try:
        lines = (run / FILE).read_bytes().split(b"\n")
    except OSError:
        lines = []
    for number, line in enumerate(lines, 1):
        try:
            event: Mapping[str, Any] = orjson.loads(line)
            if "leaders" in event:
                leaders += [(str(topic), int(n), int(one), int(epoch)) for topic, n, one, epoch in event["leaders"]]
            else:
                numbers = (int(event[name]) for name in ("leader", "epoch", "high_watermark"))
                answers.append(Answer(int(event["time_ns"]), str(event["node"]), *numbers))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            damaged += bool(line) and number < len(lines)
    return Said(tuple(answers), tuple(leaders), damaged)


def two_leaders(said: Said, logs: Iterable[NodeLog]) -> tuple[list[Found], int, int]:
    """Compares the leaders that answers, logs and the files quorum-state name.

    Returns (a witness for each epoch with several leaders, number of epochs, number of changes of the leader in logs).
    """
    by_epoch: dict[int, dict[int, str]] = {}  # epoch -> leader -> who names it
    for answer in said.answers:
        by_epoch.setdefault(answer.epoch, {}).setdefault(answer.leader, f"DescribeQuorum on {answer.node}")
    changes = set()
    for log in logs:
        for batch in log.batches:
            leader = _elected(batch) if batch.sound else None
            if leader is not None:
                changes.add((batch.epoch, leader))
                by_epoch.setdefault(batch.epoch, {}).setdefault(leader, f"{log.node}'s log at offset {batch.base}")
        if log.leader is not None:
            epoch, leader = log.leader
            by_epoch.setdefault(epoch, {}).setdefault(leader, f"{log.node}'s quorum-state")
    found = [
        Found(
            TWO_LEADERS,
            f"epoch {epoch}",
            " and ".join(f"{leader} leads ({who})" for leader, who in sorted(leaders.items())),
            "one leader",
        )
        for epoch, leaders in sorted(by_epoch.items())
        if len(leaders) > 1
    ]
    return found, len(by_epoch), len(changes)


def _elected(batch: Any) -> int | None:
    try:
        return elected(batch)
    except Unreadable:
        return None


def watermark_regressions(said: Said) -> Iterator[Found]:
    """Yields a witness for each answer with a lower high watermark than an earlier answer in the same epoch."""
    highest: dict[tuple[str, int], Answer] = {}
    for answer in said.answers:
        before = highest.get((answer.node, answer.epoch))
        if before is not None and answer.high_watermark < before.high_watermark:
            place = f"{answer.node}, leader of epoch {answer.epoch}, {answer.time_ns / NS_PER_S:.1f} s"
            seen = f"high watermark {answer.high_watermark}"
            expected = f"at least {before.high_watermark}, as it said at {before.time_ns / NS_PER_S:.1f} s"
            yield Found(WATERMARK, place, seen, expected)
        else:
            highest[answer.node, answer.epoch] = answer
