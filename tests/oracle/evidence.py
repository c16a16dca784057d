"""What can be concluded from a recorded history and the settings, without knowing the truth.

A record must be in the log if the history contains its acknowledgement, or a read that proves that its transaction
committed. It is missing if a consumer that started at the beginning read the log to its end, and no consumer ever
polled the record. It may be missing legitimately only if the history and the settings permit its deletion; each
such reason is examined separately. If the history is consistent with both a correct and an incorrect system, the
answer is `unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model.op import FAIL, INFO, OK, Op
from tests.oracle.case import Case
from tests.oracle.history import (
    MAYBE,
    NO,
    UNKNOWABLE,
    YES,
    Asked,
    History,
    Reader,
    Record,
    case_deletes,
)

WITHOUT_SUCCESS = ("crash", "debug-topic-partitions")


@dataclass(slots=True)
class Known:
    """What a history shows.

    shown    by anomaly: records, keys or ops that certainly show it
    maybe    those that show it, but that the checker need not report
    open     why the verdict cannot be `valid`
    lenient  why both `valid` and `unknown` are right
    """

    shown: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    maybe: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    open: list[str] = field(default_factory=list)
    lenient: list[str] = field(default_factory=list)


def known(case: Case, ops: Sequence[Op]) -> Known:
    """Evaluates a history."""
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


# --- what was read ---


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
    """Whether the operation polled a record in a micro-op before the one that sent it."""
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
    """Finds records in another order than they were sent, for operations where each has one known offset."""
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
    """Finds consumers that went back or skipped records without a legitimate reason."""
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
                if excused and history.case.plain:
                    answer.lenient.append(f"key {key} was passed over, and how consumers reset is not known")


# --- what is missing ---


def _missing(history: History, answer: Known) -> None:
    case = history.case
    committed_txns = set()
    for asked in history.asked:
        if asked.type == INFO and any((key, value) in history.polled_ok for key, _, value in asked.sends):
            committed_txns.add(id(asked))
    for record, writer in history.writer.items():
        key, _value = record
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
            if case.txn and case.isolation == "read_uncommitted" and offset is not None:
                # It was in the log, and read_uncommitted consumers should see it, aborted or not.
                answer.lenient.append(f"record {record} of a transaction in doubt")
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
    """Judges a record that must be in the log and was never polled."""
    key = record[0]
    if history.missing_lines:
        answer.open.append("lines are missing")
        answer.maybe["lost"].add(record)
        return
    if offset is not None and writer.done is not None and history.surely_deleted(key, offset, writer.done.index):
        return
    cleaned = history.cleaned(key)
    if cleaned is None or (offset is not None and offset < cleaned):
        answer.lenient.append(f"record {record} may have been compacted")
        answer.maybe["lost"].add(record)
        if cleaned is not None:
            return
    elif offset is not None and writer.done is not None and _end_below(history, key, offset, writer.done.index):
        answer.shown["lost"].add(record)
        return
    readers = history.readers.get(key)
    until, _ = history.deleted_on_request(key)
    if not readers and offset is not None and (offset < until or cleaned is None):
        answer.lenient.append(f"record {record} may have been deleted")
        return
    beyond = [look for look in history.looks(key) if offset is not None and look.start > offset]
    if not readers and any(history.explained(key, look) == YES for look in beyond):
        answer.lenient.append(f"record {record} may have been deleted")
        return
    if not readers and history.case.final == "without seek" and history.case.reset == "earliest":
        answer.lenient.append(f"record {record} is owed, and the last consumers may have begun at the beginning")
        answer.maybe["lost"].add(record)
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
    """Whether final polls after the acknowledgement reported an end of the log at or before the offset."""
    for asked in history.asked:
        done = asked.done
        if done is None or asked.type != OK or asked.invoked.index < after or not done.extra.get("final"):
            continue
        if any(other == key and end <= offset for other, _, end in done.extra.get("ends", ())):
            return True
    return False


def _why_missing(history: History, key: int, offset: int | None, reader: Reader, writer: Asked) -> str:
    """YES: it was deleted legitimately; NO: there is no such reason; otherwise it cannot be known."""
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
    sudden = history.case.reset != "earliest" and reader.start > 0 and history.explained(key, reader) != YES
    if reader.doubtful or sudden:
        return UNKNOWABLE
    if reader.at.get(offset):  # another record has its offset
        return NO
    return NO if cleaned is not None else UNKNOWABLE


def _gone_after_read(history: History, answer: Known, record: Record) -> None:
    """Finds an acknowledged record that was polled once, and is not in the log at the end."""
    key, value = record
    writer, offset = history.writer[record], history.acked.get(record)
    if history.missing_lines or offset is None or writer.done is None:
        return
    if history.surely_deleted(key, offset, writer.done.index):
        return
    for reader in history.readers.get(key, ()):
        if value in reader.values:
            continue
        why = _why_missing(history, key, offset, reader, writer)
        if why == NO:
            answer.maybe["gone"].add(record)
        elif why != YES:
            answer.lenient.append(f"record {record} may have been lost after it was read")


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
