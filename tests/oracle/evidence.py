"""From a recorded history and the settings to what anybody could know of it; without the truth.

A record is owed when its acknowledgement, or a read that proves that its transaction committed, is in the history. It
is missing when a consumer that began at the beginning read its log to the end, and nobody ever polled it. It may be
missing only because of what the history and the settings let be deleted: each such reason is looked at by itself.
Where two worlds agree with the history, one honest and one not, the answer is `unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op, polls, sends
from tests.oracle.case import Case
from tests.oracle.log import RECORD_BYTES

MS = 1_000_000
Record = tuple[int, Any]  # key, value
YES, NO, MAYBE, UNKNOWABLE = "yes", "no", "maybe", "unknowable"
WITHOUT_SUCCESS = ("crash", "debug-topic-partitions")


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
    """A consumer that read a log from its beginning to the end that was reported: values, log start, end, when.

    doubtful  deletion may have overtaken it, and auto.offset.reset=latest may have moved it to the end
    """

    values: set[Any]
    start: int
    end: int
    done_ns: int
    began_ns: int
    at: dict[int, set[Any]]
    doubtful: bool = False


@dataclass(slots=True)
class Known:
    """What a history shows.

    shown    by anomaly: records, keys or ops of which it certainly is so
    maybe    the same, of which it is so, but that nobody must report
    open     why the verdict cannot be `valid`
    lenient  why both `valid` and `unknown` are right
    """

    shown: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    maybe: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    open: list[str] = field(default_factory=list)
    lenient: list[str] = field(default_factory=list)


def pairs(ops: Iterable[Op]) -> list[Asked]:
    """Operations of clients, by invocation; a completion whose invocation is missing stands for both."""
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
    """A recorded history, taken apart."""

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
        """By key, those who read its log from the beginning to the end in the final polls."""
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
            positions = {key: at for key, at in last.extra.get("positions", ())}
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
        """Whether a log's beginning may have been deleted under a consumer that began there, and sent it to the end."""
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
        """Up to which offset requests may have deleted; and whether one says no more than `to the end`."""
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
        """Whether a request that succeeded deleted a record that was acknowledged by index `acked_at`."""
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

    def start_reported(self, key: int) -> int:
        """The largest log start that anybody was told."""
        found = 0
        for asked in self.asked:
            if asked.done is not None and asked.type == OK:
                found = max([found, *(start for other, start, _ in asked.done.extra.get("ends", ()) if other == key)])
                if asked.invoked.f == "debug-topic-partitions":
                    found = max([found, *(shown["start"] for other, shown in asked.done.value if other == key)])
        return found

    def places(self, record: Record) -> set[int]:
        acked = self.acked.get(record)
        return self.polled[record] | ({acked} if acked is not None else set())

    def explained(self, key: int, reader: Reader) -> str:
        """Whether the history and the settings let the log begin there."""
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
        if limit_ms < 3_600_000 and self.faults("clock-"):
            return UNKNOWABLE
        answer = YES if limit_ms < 3_600_000 else NO
        for (other, value), writer in self.writer.items():
            if other != key or not any(until <= offset < reader.start for offset in self.places((other, value))):
                continue
            # The record's time lies between its invocation and its completion.
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
        written = [record for record in self.writer if record[0] == key]
        if self.case.record_bytes_known():
            most = sum(1 for record in written if not self.places(record) or max(self.places(record)) >= reader.start)
            return NO if (most + (len(written) if self.case.txn else 0)) * RECORD_BYTES < limit else YES
        return UNKNOWABLE

    # --- compaction ---

    def cleaned(self, key: int) -> int | None:
        """How far the cleaner may have gone; None: not known."""
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
        recorded = dict((key_, at) for op in ended for key_, at in op.value.get("cleaned", ()))
        return recorded.get(key)


def known(case: Case, ops: Sequence[Op]) -> Known:
    """What the history shows."""
    history, answer = History(case, ops), Known()
    _positive(history, answer)
    _order_of_sends(history, answer)
    _order_of_polls(history, answer)
    _missing(history, answer)
    _whole(history, answer)
    if history.missing_lines:
        for name in ("order", "back", "skip", "early", "own-early"):
            answer.maybe[name] |= answer.shown.pop(name, set())
    return answer


# --- what is seen ---


def _positive(history: History, answer: Known) -> None:
    case = history.case
    offsets: dict[str, dict[Record, set[int]]] = {"ok": defaultdict(set), "all": defaultdict(set)}
    holders: dict[str, dict[tuple[int, int], set[Any]]] = {"ok": defaultdict(set), "all": defaultdict(set)}
    for asked in history.asked:
        rows = [(key, offset, value) for key, offset, value in asked.sends if offset is not None] + asked.polls
        for key, offset, value in rows:
            for kind in ("ok", "all") if asked.type == OK else ("all",):
                offsets[kind][key, value].add(offset)
                holders[kind][key, offset].add(value)
    for kind, found in (("ok", answer.shown), ("all", answer.maybe)):
        found["duplicate"] |= {
            record for record, held in offsets[kind].items() if len(held) > 1 and _whole_payload(record)
        }
        found["inconsistent-offsets"] |= {at for at, held in holders[kind].items() if len(held) > 1}
    for asked in history.asked:
        own = {(key, value) for key, _, value in asked.sends}
        for key, _, value in asked.polls:
            record = (key, value)
            writer = history.writer.get(record)
            certain = answer.shown if asked.type == OK else answer.maybe
            if isinstance(value, str):
                certain["phantom-read"].add(record)
            elif writer is None:
                if not history.missing_lines:
                    certain["phantom-read"].add(record)
            elif writer.type == FAIL:
                legal = case.isolation == "read_uncommitted" and case.txn and not case.plain
                if not legal:
                    weak = case.isolation == "read_uncommitted" or (case.plain and not case.txn)
                    (answer.maybe if weak else certain)["G1a"].add(record)
            elif asked.done is not None and asked.done.index < writer.invoked.index and not history.missing_lines:
                answer.shown["early"].add(record)
            if record in own:
                if case.plain or (case.txn and case.isolation == "read_committed"):
                    (answer.maybe if case.plain else certain)["precommitted-read"].add(record)
                if case.txn and asked.invoked.value and _polled_before_sent(asked, record):
                    certain["own-early"].add(record)


def _whole_payload(record: Record) -> bool:
    return not isinstance(record[1], str)


def _polled_before_sent(asked: Asked, record: Record) -> bool:
    """Whether the operation polled a record in an earlier micro-op than the one that sent it."""
    if asked.done is None:
        return False
    for mop in asked.done.value:
        if (
            mop[0] == "send"
            and mop[1] == record[0]
            and (mop[2][1] if isinstance(mop[2], list) else mop[2]) == record[1]
        ):
            return False
        if mop[0] == "poll" and len(mop) == 2:
            for key, held in mop[1]:
                if any((key, value) == record for _, value in held):
                    return True
    return False


def _order_of_sends(history: History, answer: Known) -> None:
    """Records that stand in another order than they were sent, of operations with one known place each."""
    rows: list[tuple[Asked, int, int, int]] = []  # operation, key, number in it, offset
    for asked in history.asked:
        for number, (key, _, value) in enumerate(asked.sends):
            places = history.places((key, value))
            if len(places) == 1 and asked.type != FAIL:
                rows.append((asked, key, number, next(iter(places))))
    for first, key, number, offset in rows:
        for second, other, other_number, other_offset in rows:
            if other != key or other_offset >= offset:
                continue
            sure = first.type == OK and second.type == OK and (history.case.true_acks != "0" or history.case.plain)
            certain = answer.shown if sure else answer.maybe
            if first is second:
                if number < other_number:
                    certain["order"].add(key)
            elif (first.type == OK and first.done is not None and first.done.index < second.invoked.index) or (
                first.invoked.process == second.invoked.process and first.invoked.index < second.invoked.index
            ):
                certain["order"].add(key)


def _order_of_polls(history: History, answer: Known) -> None:
    """Consumers that went back or passed over records, where nothing lets them."""
    last: dict[Any, dict[int, int]] = defaultdict(dict)
    seen_at: dict[int, dict[int, Any]] = defaultdict(dict)
    for (key, value), offsets in history.polled_ok.items():
        if len(offsets) == 1 and (key, value) in history.writer:
            seen_at[key][next(iter(offsets))] = value
    for asked in history.asked:
        process = asked.invoked.process
        if asked.invoked.f in ("assign", "subscribe", "crash"):
            last[process] = {}
            continue
        if asked.type != OK or asked.done is None:
            continue
        moved = {key for event in asked.done.extra.get("rebalance_log", ()) for key in event.get("keys", ())}
        for key in moved:
            last[process].pop(key, None)
        for key, offset, _value in asked.polls:
            before = last[process].get(key)
            last[process][key] = offset
            if before is None:
                continue
            certain = answer.maybe if key in moved else answer.shown
            if offset <= before:
                certain["back"].add(key)
            elif any(before < at < offset for at in seen_at[key]):
                passed = [at for at in seen_at[key] if before < at < offset]
                excused = (
                    history.start_reported(key) > min(passed)
                    or history.deleted_on_request(key) != (0, False)
                    or history.faults("config-change")
                    or (case_deletes(history.case))
                )
                (answer.maybe if excused else certain)["skip"].add(key)


def case_deletes(case: Case) -> bool:
    """Whether the settings let brokers delete within the minutes of a run."""
    age = case.retention_ms is not None and case.retention_ms < 3_600_000
    return age or case.retention_bytes is not None or case.plain


# --- what is missing ---


def _missing(history: History, answer: Known) -> None:
    case = history.case
    committed_txns = set()
    for asked in history.asked:
        if asked.type == INFO and any((key, value) in history.polled_ok for key, _, value in asked.sends):
            committed_txns.add(id(asked))
    for record, writer in history.writer.items():
        key, value = record
        offset = history.acked.get(record)
        if record in history.polled_ok or writer.type == FAIL:
            if record in history.polled_ok and writer.type == OK:
                _gone_after_read(history, answer, record)
            continue
        if writer.type == INFO:
            if case.plain:
                if id(writer) in committed_txns or offset is not None:
                    answer.lenient.append(f"record {record} of an info op, settings not known")
                    answer.maybe["lost"].add(record)
                continue
            if case.txn:
                if id(writer) not in committed_txns or case.isolation != "read_committed":
                    continue
            elif offset is None:
                continue
        _judge_missing(history, answer, record, offset, writer)
    for key in history.keys:
        for reader in history.readers.get(key, ()):
            if reader.start > 0 and history.explained(key, reader) != YES:
                answer.lenient.append(f"the log of key {key} begins at {reader.start}")


def _judge_missing(history: History, answer: Known, record: Record, offset: int | None, writer: Asked) -> None:
    """A record that is owed and that nobody polled."""
    key = record[0]
    if history.missing_lines:
        answer.open.append("lines are missing")
        answer.maybe["lost"].add(record)
        return
    if offset is not None and writer.done is not None and history.surely_deleted(key, offset, writer.done.index):
        return
    if offset is not None and writer.done is not None and _end_below(history, key, offset, writer.done.index):
        answer.shown["lost"].add(record)
        return
    readers = history.readers.get(key)
    until, _ = history.deleted_on_request(key)
    if not readers and offset is not None and offset < until:
        answer.lenient.append(f"record {record} may have been deleted")
        return
    if not readers:
        answer.open.append(f"record {record} is owed and the log of its key was not read to the end")
        answer.maybe["lost"].add(record)
        return
    verdicts = [_why_missing(history, key, offset, reader, writer) for reader in readers]
    if NO in verdicts:
        answer.shown["lost"].add(record)
    elif UNKNOWABLE in verdicts:
        answer.open.append(f"record {record} may have been lost")
        answer.maybe["lost"].add(record)
    elif MAYBE in verdicts:
        answer.lenient.append(f"record {record} may have been lost")
        answer.maybe["lost"].add(record)


def _end_below(history: History, key: int, offset: int, after: int) -> bool:
    """Whether the final polls say that the log ends at or before the offset, later than the acknowledgement."""
    for asked in history.asked:
        done = asked.done
        if done is None or asked.type != OK or asked.invoked.index < after or not done.extra.get("final"):
            continue
        if any(other == key and end <= offset for other, _, end in done.extra.get("ends", ())):
            return True
    return False


def _why_missing(history: History, key: int, offset: int | None, reader: Reader, writer: Asked) -> str:
    """YES: it was deleted legally; NO: nothing lets it be missing; or it cannot be known."""
    cleaned = history.cleaned(key)
    always_compacted = "compact" in history.case.broker.get("log.cleanup.policy", "")
    if always_compacted:
        return UNKNOWABLE
    if history.case.plain and cleaned != 0:
        cleaned = None
    if offset is not None and offset >= reader.end:
        return NO
    if offset is None:
        return NO if reader.start == 0 and cleaned == 0 else MAYBE
    if cleaned is not None and offset < cleaned:
        return YES
    if offset < reader.start:
        if offset < history.deleted_on_request(key)[0]:
            return YES
        explained = history.explained(key, reader)
        return UNKNOWABLE if explained == NO else explained
    if reader.doubtful:
        return UNKNOWABLE
    if reader.at.get(offset):  # another record has its place
        return NO
    return NO if cleaned is not None else UNKNOWABLE


def _gone_after_read(history: History, answer: Known, record: Record) -> None:
    """An acknowledged record that was polled once, and is not in the log at the end."""
    key, value = record
    writer, offset = history.writer[record], history.acked.get(record)
    if history.missing_lines or offset is None or writer.done is None:
        return
    if history.surely_deleted(key, offset, writer.done.index):
        return
    for reader in history.readers.get(key, ()):
        if value in reader.values:
            continue
        if _why_missing(history, key, offset, reader, writer) == NO:
            answer.maybe["gone"].add(record)


# --- the history as a whole ---


def _whole(history: History, answer: Known) -> None:
    case = history.case
    if history.missing_lines:
        answer.open.append("lines are missing")
    by_f: dict[str, set[str]] = defaultdict(set)
    for asked in history.asked:
        by_f[asked.invoked.f].add(asked.type)
    for f, types in by_f.items():
        if f not in WITHOUT_SUCCESS and OK not in types:
            answer.lenient.append(f"no {f} succeeded")
    if not any(asked.type == OK and asked.sends for asked in history.asked):
        answer.lenient.append("nothing was acknowledged")
    if case.plain:
        if any(key not in history.readers for key in history.keys):
            answer.lenient.append("a log was not read to its end")
        return
    for fault in case.faults:
        if not any(
            isinstance(op.value, dict) and op.value.get("took_effect")
            for op in history.nemesis
            if op.extra["fault"] == fault
        ):
            answer.open.append(f"{fault} took no effect")
    for key in history.keys:
        if key not in history.readers:
            why = (
                answer.open if case.demands_final and case.final not in ("without seek", "partial") else answer.lenient
            )
            why.append(f"the log of key {key} was not read to its end")
    if case.cut == "named":
        answer.lenient.append("a client is called as the nemesis")
    if case.final != "complete" or case.cut:
        answer.lenient.append("the final polls may not have finished")
