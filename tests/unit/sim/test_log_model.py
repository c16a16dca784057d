"""The log model's producers, transactions, reads and compaction, by example; and programs as text."""

from __future__ import annotations

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.sim.log_model.action_types import Action, Outcome
from harness.sim.log_model.actions_as_text import parse, program
from harness.sim.log_model.model import SimulatedLog
from harness.sim.log_model.records import LogSettings

NOW = 1_000_000


def append(*keys: str, **args: object) -> Action:
    return Action("append", {"records": [[key, f"v-{key}", 0] for key in keys], **args})


def outcomes(log: SimulatedLog, *actions: Action) -> list[object]:
    done = [log.apply(action) for action in actions]
    return [one.error or one.value for one in done]


def values(log: SimulatedLog, isolation: str = "read_uncommitted") -> list[tuple[int, str]]:
    records, _ = log.apply(Action("read-all", {"isolation": isolation})).value
    return [(offset, value) for offset, _, _, value in records]


END = Action("advance", {"at": 10**9})
ROLL = Action("roll")


def test_a_retry_gets_the_first_ones_offsets_as_long_as_five_batches_are_remembered() -> None:
    log = SimulatedLog(LogSettings(segment_bytes=5000))
    outcomes(log, *[append("a", "b", producer=1) for _ in range(6)])
    again = [log.apply(Action("retry", {"producer": 1, "back": back})) for back in (0, 4, 5, 6)]
    assert again == [
        Outcome(value=[10, 12]),
        Outcome(value=[2, 4]),
        Outcome("OUT_OF_ORDER_SEQUENCE_NUMBER"),
        Outcome(),
    ]
    assert log.apply(Action("gap", {"producer": 1})).error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert outcomes(log, Action("init", {"producer": 1}), append("c", producer=1)) == [1, [12, 13]]


def test_the_last_stable_offset_waits_for_the_marker_to_be_replicated() -> None:
    log = SimulatedLog(LogSettings())
    outcomes(log, append("a"), append("b", producer=2, txn=True), append("c"), END)
    assert log.views()[0].last_stable == 1 and values(log, "read_committed") == [(0, "v-a")]
    assert log.apply(Action("abort", {"producer": 2})).value == {0: 3}
    assert log.views()[0].last_stable == 1
    log.apply(END)
    assert log.views()[0].last_stable == 4
    assert values(log, "read_committed") == [(0, "v-a"), (2, "v-c")]
    assert values(log) == [(0, "v-a"), (1, "v-b"), (2, "v-c")]
    assert log.apply(Action("abort", {"producer": 2})).error == "INVALID_TXN_STATE"


def test_a_new_epoch_aborts_the_open_transaction_and_fences() -> None:
    log = SimulatedLog(LogSettings(partitions=2))
    assert log.apply(Action("zombie", {"producer": 2})) == Outcome()
    outcomes(log, append("a", producer=2, txn=True), append("b", producer=2, txn=True, partition=1))
    assert outcomes(log, Action("init", {"producer": 2}), Action("zombie", {"producer": 2}), END) == [
        1,
        "INVALID_PRODUCER_EPOCH",
        2,
    ]
    assert [view.end for view in log.views()] == [2, 2] and values(log, "read_committed") == []


def test_one_batch_comes_back_however_small_the_limit_and_none_in_part() -> None:
    log = SimulatedLog(LogSettings())
    outcomes(log, append("a", "b"), append("c"), Action("advance", {"at": 3}))
    read = [log.apply(Action("read", {"at": at, "max_bytes": 1})).value for at in (0, 1, 2, 3)]
    assert [([one[0] for one in records], after) for records, after in read] == [
        ([0, 1], 2),
        ([1], 2),
        ([2], 3),
        ([], 3),
    ]
    assert log.apply(Action("read", {"at": 4})).error == "OFFSET_OUT_OF_RANGE"


def test_a_batch_that_the_high_watermark_cuts_is_not_served() -> None:
    log = SimulatedLog(LogSettings())
    outcomes(log, append("a"), append("b", "c"), Action("advance", {"at": 2}))
    assert values(log) == [(0, "v-a")]
    assert log.apply(Action("read", {"at": 2})).value == [[], 2]


def test_offsets_by_time_are_of_the_first_segment_that_reaches_it() -> None:
    log = SimulatedLog(LogSettings())
    for age in (500, 300, 100):
        outcomes(log, Action("append", {"records": [["k", "v", age]]}), ROLL)
    log.apply(Action("advance", {"at": 2}))
    found = [log.apply(Action("list", {"what": "time", "age": age})).value for age in (600, 400, 300, 200, 0)]
    assert found == [0, 1, 1, -1, -1]  # the third is above the high watermark


def test_compaction_keeps_the_last_of_each_key_and_tombstones_for_a_while() -> None:
    log = SimulatedLog(LogSettings(cleanup="compact", delete_retention_ms=1000))
    gone = Action("append", {"records": [["b", None, 0]]})
    outcomes(log, append("a", "b"), append("a"), gone, ROLL, append("a"), END)
    assert log.apply(Action("clean")).value == [2]
    assert values(log) == [(2, "v-a"), (3, None), (4, "v-a")]
    outcomes(log, Action("tick", {"ms": 1000}), ROLL)
    assert log.apply(Action("clean")).value == [2]
    assert values(log) == [(4, "v-a")] and log.views()[0].start == 0
    assert outcomes(log, Action("append", {"records": [[None, "v", 0]]})) == ["INVALID_RECORD"]


def test_aborted_records_go_and_hide_nothing() -> None:
    log = SimulatedLog(LogSettings(cleanup="compact"))
    outcomes(log, append("a"), append("a", producer=2, txn=True), Action("abort", {"producer": 2}), ROLL, END)
    assert log.apply(Action("clean")).value == [1]
    assert values(log, "read_committed") == values(log) == [(0, "v-a")]


def test_a_new_leader_may_lack_what_was_not_replicated_and_markers_come_again() -> None:
    log = SimulatedLog(LogSettings())
    outcomes(log, append("a", producer=2, txn=True), Action("advance", {"at": 1}))
    outcomes(log, Action("commit", {"producer": 2}), append("b"))
    assert log.apply(Action("elect", {"at": 0})).value == 1
    log.apply(END)
    assert log.views()[0].end == 2 and values(log, "read_committed") == [(0, "v-a")]
    assert log.apply(Action("retry", {"producer": 2})).value == [0, 1]


def test_a_program_is_read_as_it_was_written() -> None:
    settings = LogSettings(partitions=2, cleanup="compact", segment_ms=5)
    actions = [
        append("a b", partition=1, producer=2, txn=True, codec="gzip"),
        Action("append", {"records": [[None, None, -5]]}),
        Action("read", {"at": "hw-1", "isolation": "read_committed"}),
        Action("set", {"name": "cleanup", "value": "compact,delete"}),
        Action("restart", {"how": "power"}),
    ]
    text = program(settings, actions)
    assert parse(f"# a comment\n\n{text}", "here") == (settings, actions)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("explode", "unknown action 'explode'"),
        ("read", 'read: at must be a position, such as 17, "37%" or "hw-1"; it is missing'),
        ("read at=1 at_once=true", "read takes no argument at_once"),
        ('read at="behind"', 'read: at must be a position, such as 17, "37%" or "hw-1"; not "behind"'),
        ("read at=" + "[" * 5000, "write name=value"),
        ("roll partition=1", "no partition 1; the topic has 1"),
        ('append records=[["k",1,0]]', "append: records must be a list of [key, value, age]; not [["),
        ('restart how="softly"', 'restart: how must be one of clean, kill, power; not "softly"'),
        ('set name="tiered" value=true', "tiered cannot be set"),
        ('set name="cleanup" value="burn"', 'cleanup must be one of delete, compact, compact,delete, not "burn"'),
        ('set name="retention_ms" value="x"', 'retention_ms must be a whole number, not "x"'),
        ('settings tiered=true cleanup="compact"', "with tiered=true, only delete"),
        ("settings partitions=0", "from 1 to 16"),
        ("settings color=1", "color=1: unknown setting"),
    ],
)
def test_errors_in_a_program_name_the_line(line: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(f"roll\n{line}\n", "file.log")
    assert str(caught.value).startswith("file.log:2: ") and message in str(caught.value)
