"""The final reading: reads all records of the input and output topics, and notes which of them read_committed shows.

Each slot reads its share of the partitions into pipeline/read-<slot>.jsonl. The slot first reads with read_committed
and remembers which offsets are visible, in one byte for each offset. Then it reads with read_uncommitted and writes the
lines. An op reads for a few seconds; the next op continues.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import orjson

from harness.clients.client_protocols import Admin
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.events import Clock
from harness.clients.pipeline.files import rows_of
from harness.clients.pipeline.library import PipelineLibrary, Row
from harness.history_writer import write_json
from harness.protocol.error_codes import ClientError, TopicPartition

OP_S: Final = 3.0  # how long an op reads
IDLE_S: Final = 15.0
ADMIN_S: Final = 4.0
RowsOf = Callable[[str, Row], Sequence[Mapping[str, Any]]]
"""(input or output, record) -> the rows that the reading writes for the record, with id, key and n, and maybe state."""

OPEN_S: Final = 20.0  # how long to wait for open transactions to end


def partitions(admin: Admin, topics: Sequence[str], least: int) -> list[TopicPartition]:
    """Returns all partitions of the topics.

    Raises ClientError if there is no response, or if the metadata has fewer than `least` partitions of a topic.
    """
    rows = admin.partitions(topics, ADMIN_S)
    input_partitions = sorted((row["topic"], row["partition"]) for row in rows)
    found = Counter(topic for topic, _ in input_partitions)
    for topic in topics:
        if found[topic] < least:
            raise ClientError(
                "LEADER_NOT_AVAILABLE", f"the metadata has {found[topic]} of {least} partitions of {topic}"
            )
    return input_partitions


def lag(pipeline: PipelineConfig, library: PipelineLibrary) -> dict[str, Any]:
    """Writes the group's committed offsets to pipeline/committed.json.

    Returns {"left": number of input records beyond the committed offsets}. Raises ClientError.
    """
    path = pipeline.folder / "pipeline" / "committed.json"
    path.unlink(missing_ok=True)  # an older file would have lower offsets
    admin = library.admin(pipeline)
    try:
        inputs = partitions(admin, pipeline.input_topics, pipeline.partitions)
        ends = {at: end for at, (_, end) in admin.offsets(inputs, "read_committed", ADMIN_S).items()}
    finally:
        admin.close()
    marks = library.committed(pipeline, inputs, ADMIN_S)
    committed = {at: mark.offset for at, mark in marks.items() if mark is not None}
    offsets = {f"{topic}/{number}": offset for (topic, number), offset in sorted(committed.items())}
    write_json(path, {"group": pipeline.settings.group_id, "offsets": offsets})
    return {"left": sum(max(0, end - committed.get(at, 0)) for at, end in ends.items())}


def rows_of_record(folder: Path, value: bytes) -> list[Mapping[str, Any]]:
    """Returns what a record of the pipeline says: one row, or the rows of the file that the record refers to.

    folder  the run folder
    """
    try:
        content = orjson.loads(value)
    except ValueError:
        content = {}
    return list(rows_of(folder, content)) if "file" in content else [content]


class Reading:
    """The final reading of one slot's share of the partitions."""

    def __init__(self, pipeline: PipelineConfig, library: PipelineLibrary, rows: RowsOf) -> None:
        self._pipeline, self._library, self._rows = pipeline, library, rows
        self._side = self._share()
        self._clock = Clock.of(pipeline.folder)
        self._lines = 0
        self._work = self._all()

    def go_on(self) -> dict[str, Any]:
        """Continues reading for up to OP_S seconds.

        Returns {"read": number of lines so far, "done": whether everything is read}. Raises ClientError.
        """
        until = time.monotonic() + OP_S
        for lines in self._work:
            self._lines = lines
            if time.monotonic() > until:
                return {"read": lines, "done": False}
        return {"read": self._lines, "done": True}

    def _share(self) -> dict[TopicPartition, str]:
        """Returns partition -> "input" or "output", for this slot's share of the partitions.

        Whether a partition belongs to the share depends on its number only. So every partition is in one slot's share,
        even if some slots do not see all partitions yet.
        """
        pipeline = self._pipeline
        topics = [*pipeline.input_topics, pipeline.output_topic]
        admin = self._library.admin(pipeline)
        try:
            output_partitions = partitions(admin, topics, pipeline.partitions)
        finally:
            admin.close()
        return {
            (topic, number): "output" if topic == pipeline.output_topic else "input"
            for topic, number in output_partitions
            if (number * len(topics) + topics.index(topic)) % pipeline.slots == pipeline.slot
        }

    def _all(self) -> Iterator[int]:
        """Reads all records and writes them to the file. Sometimes yields the number of lines written so far."""
        path = self._pipeline.folder / "pipeline" / f"read-{self._pipeline.slot}.jsonl"
        with path.open("wb") as file:
            ends, deadline = self._ends(), time.monotonic() + OPEN_S
            while ends is None:
                if time.monotonic() > deadline:
                    raise ClientError("_TIMED_OUT", f"transactions are still open after {OPEN_S:.0f} s")
                yield 0
                time.sleep(0.2)
                ends = self._ends()
            logs = self._library.logs(self._pipeline)
            visible = {at: bytearray(end) for at, end in ends.items()}
            for n, row in enumerate(logs.read(ends, "read_committed", IDLE_S)):
                if row is not None:
                    visible[row[0]][row[1][0]] = 1
                if row is None or n % 1000 == 999:
                    yield 0
            lines = 0
            for n, row in enumerate(logs.read(ends, "read_uncommitted", IDLE_S)):
                if row is not None:
                    at, record = row
                    lines += self._write(file, at, record, bool(visible[at][record.offset]))
                if row is None or n % 1000 == 999:
                    yield lines
            ends_by_name = {f"{topic}/{number}": end for (topic, number), end in ends.items()}
            last = {"end": True, "ends": ends_by_name, "caught_up": True}
            file.write(orjson.dumps(last, option=orjson.OPT_APPEND_NEWLINE))
        yield lines

    def _ends(self) -> dict[TopicPartition, int] | None:
        """Returns partition -> high watermark. Returns None while a transaction is open. Raises ClientError."""
        admin = self._library.admin(self._pipeline)
        try:
            stable = admin.offsets(list(self._side), "read_committed", ADMIN_S)
            high = admin.offsets(list(self._side), "read_uncommitted", ADMIN_S)
        finally:
            admin.close()
        ended = stable == high and len(high) == len(self._side)
        return {at: end for at, (_, end) in high.items()} if ended else None

    def _write(self, file: IO[bytes], at: TopicPartition, record: Row, committed: bool) -> int:
        side = self._side[at]
        rows = self._rows(side, record)
        for row in rows:
            line = {
                "side": side,
                "topic": at[0],
                "partition": at[1],
                "offset": record.offset,
                "id": row.get("id"),
                "key": row.get("key"),
                "n": row.get("n"),
                "instance": row.get("instance"),
                "incarnation": row.get("incarnation"),
                "generation": row.get("generation"),
                "committed": committed,
                "time_ns": record.time_ms * 1_000_000 - self._clock.wall_ns,
            }
            if "state" in row:
                line["state"] = row["state"]
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        return len(rows)
