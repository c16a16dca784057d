"""Splits a recorded history into operations, readers of whole logs, and possible deletions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op, polls, sends
from tests.oracle.case import Case
from tests.oracle.log import RECORD_BYTES

MS = 1_000_000
Record = tuple[int, Any]  # key, value
YES, NO, MAYBE, UNKNOWABLE = "yes", "no", "maybe", "unknowable"


@dataclass(slots=True)
class Asked:
    """An operation: its invocation, and its completion if it is recorded."""

    invoked: Op
    done: Op | None = None

    @property
    def type(self) -> str:
        return self.done.type if self.done is not None else INFO

    @property
    def sends(self) -> list[tuple[int, int | None, Any]]:
        return sends(self.done if self.done is not None else self.invoked)

    @property
    def polls(self) -> list[tuple[int, int, Any]]:
        return polls(self.done) if self.done is not None else []


@dataclass(slots=True)
class Reader:
    """A consumer that read a log from its beginning to its reported end: values, log start, end, time.

    doubtful  deletion may have overtaken it, and auto.offset.reset=latest may have moved it to the end
    """

    values: set[Any]
    start: int
    end: int
    done_ns: int
    began_ns: int
    at: dict[int, set[Any]]
    doubtful: bool = False


def pairs(ops: Iterable[Op]) -> list[Asked]:
    """Client operations in order of invocation; a completion without an invocation stands for both."""
    found: list[Asked] = []
    busy: dict[Any, Asked] = {}
    for op in ops:
        if op.process == NEMESIS and op.type == INFO and "fault" in op.extra:
            continue
        if op.type == INVOKE:
            busy[op.process] = Asked(op)
            found.append(busy[op.process])
        elif op.process in busy and busy[op.process].done is None and busy[op.process].invoked.f == op.f:
            busy[op.process].done = op
        else:
            found.append(Asked(op, op))
    return found


class History:
    """A recorded history with its operations, readers and deletions."""

    def __init__(self, case: Case, ops: Sequence[Op]) -> None:
        self.case, self.ops = case, ops
        self.asked = pairs(ops)
        self.missing_lines = [op.index for op in ops] != list(range(len(ops)))
        self.nemesis = [op for op in ops if op.process == NEMESIS and "fault" in op.extra]
        self.writer: dict[Record, Asked] = {}
        self.acked: dict[Record, int | None] = {}
        self.polled_ok: dict[Record, set[int]] = defaultdict(set)
        self.polled: dict[Record, set[int]] = defaultdict(set)
        for asked in self.asked:
            for key, offset, value in asked.sends:
                self.writer[key, value] = asked
                if offset is not None:
                    self.acked[key, value] = offset
            for key, offset, value in asked.polls:
                self.polled[key, value].add(offset)
                if asked.type == OK:
                    self.polled_ok[key, value].add(offset)
        self.readers = self._readers()

    def _readers(self) -> dict[int, list[Reader]]:
        """By key, the consumers that read its log from the beginning to the end in the final polls."""
        found: dict[int, list[Reader]] = defaultdict(list)
        by_process: dict[Any, list[Asked]] = defaultdict(list)
        for asked in self.asked:
            by_process[asked.invoked.process].append(asked)
        for own in by_process.values():
            began: Asked | None = None
            since: list[Asked] = []
            for asked in own:
                if asked.invoked.f in ("assign", "subscribe", "crash"):
                    fresh = asked.type == OK and asked.invoked.extra.get("seek_to_beginning")
                    began, since = (asked if fresh else None), []
                elif asked.type == OK:
                    since.append(asked)
                else:
                    began = None
            if began is None or not since or since[-1].done is None:
                continue
            last = since[-1].done
            positions = dict(last.extra.get("positions", ()))
            for key, start, end in last.extra.get("ends", ()):
                if positions.get(key) != end or key not in began.invoked.value:
                    continue
                at: dict[int, set[Any]] = defaultdict(set)
                for asked in since:
                    for other, offset, value in asked.polls:
                        if other == key:
                            at[offset].add(value)
                values = {value for held in at.values() for value in held}
                doubtful = start > 0 and self._overtaken(key, began)
                found[key].append(Reader(values, start, end, last.time_ns, since[-1].invoked.time_ns, at, doubtful))
        return found

    def _overtaken(self, key: int, began: Asked) -> bool:
        """Whether deletion may have overtaken a consumer at the beginning of a log and moved it to the end."""
        if self.case.reset == "earliest" and not self.case.plain:
            return False
        late = [op for op in self.nemesis if op.index > began.invoked.index and isinstance(op.value, dict)]
        asked = [each for each in self.asked if each.invoked.f == "delete-records" and each.type != FAIL]
        return (
            case_deletes(self.case)
            or any("deleted" in op.value for op in late)
            or any(each.type != OK or each.done is None or each.done.index > began.invoked.index for each in asked)
        )

    @property
    def keys(self) -> set[int]:
        return {key for key, _ in self.writer} | {key for key, _ in self.polled}

    def faults(self, *names: str) -> list[Op]:
        return [op for op in self.nemesis if op.extra.get("fault", "").startswith(names)]

    # --- deletion ---

    def deleted_on_request(self, key: int) -> tuple[int, bool]:
        """The offset up to which requests may have deleted; and whether a request says only `to the end`."""
        until, to_the_end = 0, False
        for op in self.nemesis:
            for deleted_key, offset in (op.value or {}).get("deleted", ()) if isinstance(op.value, dict) else ():
                if deleted_key == key:
                    until = max(until, offset)
        for asked in self.asked:
            if asked.invoked.f != "delete-records" or asked.type == FAIL:
                continue
            for deleted_key, offset in asked.done.value if asked.type == OK and asked.done else asked.invoked.value:
                if deleted_key != key:
                    continue
                until = max(until, offset)
                if offset < 0:
                    end_ns = asked.done.time_ns if asked.done is not None else 1 << 62
                    for (other, value), writer in self.writer.items():
                        offsets = self.places((other, value))
                        if other == key and writer.invoked.time_ns < end_ns and writer.type != FAIL:
                            until = max(until, *(at + 1 for at in offsets), 0) if offsets else until
                            to_the_end = to_the_end or not offsets or self.case.txn
        return until, to_the_end

    def surely_deleted(self, key: int, offset: int, acked_at: int) -> bool:
        """Whether a successful request deleted a record that was acknowledged before index `acked_at`."""
        for op in self.nemesis:
            for deleted_key, until in op.value.get("deleted", ()) if isinstance(op.value, dict) else ():
                if deleted_key == key and offset < until:
                    return True
        for asked in self.asked:
            if asked.invoked.f == "delete-records" and asked.type == OK and asked.done is not None:
                for deleted_key, until in asked.done.value:
                    everything = until < 0 and acked_at < asked.invoked.index
                    if deleted_key == key and (offset < until or everything):
                        return True
        return False

    def looks(self, key: int) -> list[Reader]:
        """Reported starts and ends of a log, by final polls and by the admin, as readers without records."""
        found: list[Reader] = []
        for asked in self.asked:
            if asked.done is None or asked.type != OK:
                continue
            reported = [(start, end) for other, start, end in asked.done.extra.get("ends", ()) if other == key]
            if asked.invoked.f == "debug-topic-partitions":
                reported = [(shown["start"], shown["end"]) for other, shown in asked.done.value if other == key]
            began_ns, done_ns = asked.invoked.time_ns, asked.done.time_ns
            found += [Reader(set(), start, end, done_ns, began_ns, {}) for start, end in reported]
        return found

    def start_reported(self, key: int) -> int:
        """The largest log start offset that was reported."""
        return max((look.start for look in self.looks(key)), default=0)

    def places(self, record: Record) -> set[int]:
        acked = self.acked.get(record)
        return self.polled[record] | ({acked} if acked is not None else set())

    def explained(self, key: int, reader: Reader) -> str:
        """Whether the history and the settings permit the log start offset."""
        until, to_the_end = self.deleted_on_request(key)
        if reader.start <= until:
            return YES
        answers = [MAYBE] if to_the_end else []
        answers.append(self._by_age(key, reader, until))
        answers.append(self._by_size(key, reader))
        for answer in (YES, MAYBE, UNKNOWABLE):
            if answer in answers:
                return answer
        return NO

    def _by_age(self, key: int, reader: Reader, until: int) -> str:
        changed = self.faults("config-change:retention")
        open_span = changed and not any(op.f == "config-back" and op.extra.get("phase") == "complete" for op in changed)
        if self.case.plain or open_span:
            return MAYBE
        limit_ms = self.case.retention_ms
        if limit_ms is None:
            return NO
        answer = (MAYBE if self.faults("clock-") else YES) if limit_ms < 3_600_000 else NO
        for (other, value), writer in self.writer.items():
            if other != key or not any(until <= offset < reader.start for offset in self.places((other, value))):
                continue
            # The record's timestamp is between its invocation and its completion.
            if writer.invoked.time_ns + limit_ms * MS > reader.done_ns:
                return NO
            done_ns = writer.done.time_ns if writer.done is not None else 1 << 62
            if done_ns + limit_ms * MS > reader.began_ns:
                answer = MAYBE
        return answer

    def _by_size(self, key: int, reader: Reader) -> str:
        if self.case.plain:
            return MAYBE
        limit = self.case.retention_bytes
        if limit is None:
            return NO
        if self.case.record_bytes_known():
            # After the deletion, the log had at least the size of the limit, and it has only grown since.
            return NO if (reader.end - reader.start) * RECORD_BYTES < limit else YES
        return UNKNOWABLE

    # --- compaction ---

    def cleaned(self, key: int) -> int | None:
        """How far the log cleaner may have compacted; None: unknown."""
        begun = [op for op in self.faults("config-change:compact") if op.f == "config-change"]
        ended = [
            op
            for op in self.faults("config-change:compact")
            if op.f == "config-back" and op.extra.get("phase") == "complete"
        ]
        if not begun:
            return 0
        if not ended:
            return None
        recorded = {key_: at for op in ended for key_, at in op.value.get("cleaned", ())}
        return recorded.get(key)


def case_deletes(case: Case) -> bool:
    """Whether the settings let brokers delete records within the minutes of a run."""
    age = case.retention_ms is not None and case.retention_ms < 3_600_000
    return age or case.retention_bytes is not None or case.plain
