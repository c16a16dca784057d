"""Former bugs of the checker, simulated: each makes today's checker believe what an old version assumed.

Such a lie changes the checker's input, as if it had read, remembered or concluded less than it does: the history,
the settings, or the text of a witness. The oracle gets the true input, and must detect the difference in one of the
runs that the lie is about. Where the bug was in what the checker did with files, a function of it is replaced instead
(`Patch`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checker.pipeline import outputs, witnesses
from checker.tables import make_tables
from harness.model.check_options import CheckOptions
from harness.model.op import INFO, NEMESIS, OK, Op
from tests.oracle.case import Case

FAR = 1 << 40
ORIGINAL_MISSING, ORIGINAL_STILL_PROMISED = outputs._missing, witnesses.still_promised
Given = tuple[list[Op], CheckOptions]


@dataclass(frozen=True, slots=True)
class Lie:
    """One former bug.

    about    whether a case can show it
    deceive  replaces the checker's input (case, history, options)
    text     replaces the text of a witness
    shape    changes a case so that it shows the bug more often
    """

    name: str
    about: Callable[[Case], bool]
    deceive: Callable[[Case, list[Op], CheckOptions], Given]
    text: Callable[[str], str] | None = None
    shape: Callable[[Case], Case] = lambda case: case


def _settings(options: CheckOptions, **changes: Any) -> CheckOptions:
    return replace(options, settings=replace(options.settings, **changes))


def _values(ops: Sequence[Op], change: Callable[[Op], Any]) -> list[Op]:
    return [op.with_(value=change(op)) for op in ops]


def _compaction_excuses_all(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    def change(op: Op) -> Any:
        if op.f != "config-back" or op.extra.get("fault") != "config-change:compact" or op.extra["phase"] != "complete":
            return op.value
        return {**op.value, "cleaned": [[key, FAR] for key in range(case.keys)]}

    return _values(ops, change), options


def _retention_explains_any_start(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    return ops, _settings(options, broker={**options.settings.broker, "log.retention.ms": "0"})


def _one_deletion_excuses_every_key(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    def change(op: Op) -> Any:
        if op.process != NEMESIS or not isinstance(op.value, dict) or not op.value.get("deleted"):
            return op.value
        most = max(offset for _, offset in op.value["deleted"])
        return {**op.value, "deleted": [[key, most] for key in range(case.keys)]}

    return _values(ops, change), options


def _nothing_is_owed_in_doubt(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    def change(op: Op) -> Any:
        if op.type != INFO or op.f != "send":
            return op.value
        return [[mop[0], mop[1], mop[2][1]] if isinstance(mop[2], list) else mop for mop in op.value]

    return _values(ops, change), options


def _doubtful_deletion_is_done(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    """Assumes that an indeterminate deletion was executed, whatever log start was reported."""
    starts: dict[int, int] = {}
    for op in ops:
        if op.f == "delete-records" and op.type == INFO and op.process != NEMESIS:
            starts |= {key: max(offset, starts.get(key, 0)) for key, offset in op.value}
    changed = []
    for op in ops:
        if op.f == "debug-topic-partitions" and op.type == OK:
            value = [[key, {**row, "start": max(row["start"], starts.get(key, 0))}] for key, row in op.value]
            op = op.with_(value=value)
        if op.extra.get("ends"):
            ends = [[key, max(start, starts.get(key, 0)), end] for key, start, end in op.extra["ends"]]
            op = op.with_(extra={**op.extra, "ends": ends})
        changed.append(op)
    return changed, options


def _everything_is_deleted(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    def change(op: Op) -> Any:
        if op.f != "delete-records" or op.process == NEMESIS:
            return op.value
        asked = any(offset < 0 for _, offset in op.value)
        return [[key, FAR] for key, _ in op.value] if asked or op.type == OK else op.value

    return _values(ops, change), options


def _ends_say_nothing(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    kept = []
    for op in ops:
        if op.f == "debug-topic-partitions":
            continue
        extra = {name: value for name, value in op.extra.items() if name not in ("ends", "positions")}
        kept.append(op.with_(extra=extra))
    return [op.with_(index=index) for index, op in enumerate(kept)], options


def _polls_in_doubt_say_nothing(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    def change(op: Op) -> Any:
        if op.type != INFO or op.f not in ("poll", "txn") or not isinstance(op.value, list):
            return op.value
        return [["poll"] if mop[0] == "poll" else mop for mop in op.value]

    return _values(ops, change), options


def _named_clients_are_left_out(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    kept = [op for op in ops if op.process != NEMESIS or "fault" in op.extra]
    return [op.with_(index=index) for index, op in enumerate(kept)], options


def _copies_last_for_ever(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    return ops, _settings(options, unclean_election=False, damaged_copies=0, unsynced_copies=0)


def _settings_as_they_are_written(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    unclean = case.broker.get("unclean.leader.election.enable") == "true"
    return ops, _settings(options, unclean_election=unclean, acks=str(case.producer.get("acks", case.acks)))


def _read_is_committed(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    return ops, _settings(options, isolation_level="read_committed")


def _always_earliest(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    return ops, _settings(options, auto_offset_reset="earliest")


def _no_line_is_missing(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    return [op.with_(index=index) for index, op in enumerate(ops)], options


def _as_given(case: Case, ops: list[Op], options: CheckOptions) -> Given:
    return ops, options


def _compacts(case: Case) -> bool:
    return "config-change:compact" in case.faults and bool({"lose-record", "lose-tail", "overwritten"} & case.lies)


def _loses_copies(case: Case) -> bool:
    faults = {"elect-unclean:leader", "power-loss:all", "truncate-tail:leader"}
    return not case.plain and bool(faults & set(case.faults)) and bool(case.lies)


def _deletes_in_doubt(case: Case) -> Case:
    """A log that loses a record, and from which clients may have deleted records."""
    return replace(
        case,
        ops=30,
        keys=1,
        faults=(),
        broker={},
        lies=frozenset({"lose-record"}),
        reset="earliest",
        trouble=0.0,
        cut="",
        final="complete",
    )


def _reads_in_doubt(case: Case) -> Case:
    """A short run with many indeterminate operations, over a log that returns records before they are sent."""
    return replace(
        case,
        ops=14,
        txn=False,
        mixed=True,
        faults=(),
        lies=frozenset({"early-read"}),
        reset="earliest",
        sub_via=("assign",),
        trouble=0.3,
        cut="",
        final="complete",
    )


LIES = (
    Lie("a compacting policy excuses all", _compacts, _compaction_excuses_all),
    Lie(
        "any retention explains any log start",
        lambda case: "lose-head" in case.lies and case.retention_ms is not None and not case.plain,
        _retention_explains_any_start,
    ),
    Lie(
        "the deletion of one key excuses another",
        lambda case: "delete-records:some" in case.faults and case.keys > 1 and bool(case.lies),
        _one_deletion_excuses_every_key,
    ),
    Lie(
        "no record of an operation in doubt is owed",
        lambda case: not case.txn and not case.plain and not case.demands_final and case.trouble > 0.1,
        _nothing_is_owed_in_doubt,
    ),
    Lie(
        "a deletion in doubt was done",
        lambda case: case.client_deletes and not case.plain,
        _doubtful_deletion_is_done,
        shape=_deletes_in_doubt,
    ),
    Lie(
        "a deletion up to the end reaches beyond it",
        lambda case: case.client_deletes and bool({"lose-record", "lose-tail"} & case.lies),
        _everything_is_deleted,
    ),
    Lie(
        "where a log ends says nothing",
        lambda case: "lose-tail" in case.lies and not case.demands_final,
        _ends_say_nothing,
    ),
    Lie(
        "polls of operations in doubt say nothing",
        lambda case: case.keys == 1 and not case.plain,
        _polls_in_doubt_say_nothing,
        shape=_reads_in_doubt,
    ),
    Lie("clients called as the nemesis are left out", lambda case: case.cut == "named", _named_clients_are_left_out),
    Lie("copies last for ever", _loses_copies, _copies_last_for_ever),
    Lie(
        "settings are read as they are written",
        lambda case: not case.plain and ("acks" in case.producer or case.unclean_enabled) and bool(case.lies),
        _settings_as_they_are_written,
    ),
    Lie(
        "what was read was committed",
        lambda case: case.txn and case.isolation == "read_uncommitted" and not case.plain,
        _read_is_committed,
    ),
    Lie(
        "consumers never go on at the end",
        lambda case: case.reset == "latest" and (case.client_deletes or bool(case.faults)) and not case.plain,
        _always_earliest,
    ),
    Lie("no line is missing", lambda case: case.cut == "lines", _no_line_is_missing),
    Lie(
        "every lost record was acknowledged",
        lambda case: not case.plain and case.true_acks == "0" and bool({"lose-tail", "lose-record"} & case.lies),
        _as_given,
        lambda text: f"an acknowledged record: {text}",
    ),
)


@dataclass(frozen=True, slots=True)
class Patch:
    """A function as it once was: module, name, and what stood there."""

    name: str
    module: Any
    function: str
    earlier: Callable[..., Any]


def _one_output_is_enough(inputs: Any, matched: Any) -> Any:
    return ORIGINAL_MISSING(inputs, matched).where("copies = 0")


def _only_lost_input_is_weakened(one: Any, settings: Any) -> bool | None:
    kept = ORIGINAL_STILL_PROMISED(one, settings)
    return kept if one.name == "lost-input" else one.promised


def _the_same_by_name_and_size(files: Sequence[Any], identities: Any) -> bool:
    return [[file.name, file.stat().st_size] for file in files] == [[name, size] for name, size, _ in identities]


TABLES_ARE_KNOWN_BY_SIZE = Patch(
    "tables are of this history if its files have the same names and sizes",
    make_tables,
    "same_content",
    _the_same_by_name_and_size,
)
PIPELINE_LIES = (
    Patch("one output is enough for all copies of an input record", outputs, "_missing", _one_output_is_enough),
    Patch(
        "what a pipeline is promised hangs on its mode alone", witnesses, "still_promised", _only_lost_input_is_weakened
    ),
)
