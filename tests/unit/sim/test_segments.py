"""The log model's segments, retention and tiers, by the examples that its rules come from."""

from __future__ import annotations

import pytest

from harness.sim.log_model.action_types import Action
from harness.sim.log_model.actions_as_text import parse
from harness.sim.log_model.model import SimulatedLog
from workloads.log_model.session import Session


def done(text: str) -> SimulatedLog:
    """The model after a program, which must show no divergence."""
    settings, actions = parse(text, "test")
    log = SimulatedLog(settings)
    session = Session(settings, log)
    for action in actions:
        assert session.step(action) is None
    return log


def spans(log: SimulatedLog) -> list[tuple[int, int]]:
    return [(one.base, one.end) for one in log.views()[0].local]


def record(age: int = 0, value: str | None = "v", key: str = "k") -> str:
    value_text = "null" if value is None else f'"{value}"'
    return f'append records=[["{key}",{value_text},{age}]]'


def test_a_segment_is_rolled_by_bytes_before_the_append() -> None:
    big = record(value="x" * 100)
    assert spans(done(f"settings segment_bytes=400\n{big}\n{big}\n{big}")) == [(0, 2), (2, 3)]


def test_a_segment_is_rolled_by_the_timestamps_of_records() -> None:
    text = f"settings segment_ms=1000\n{record(5000)}\n{record(4000)}\n{record(3999)}"
    assert spans(done(text)) == [(0, 2), (2, 3)]


def test_records_without_timestamps_roll_by_the_brokers_clock() -> None:
    timeless = 'append magic=0 records=[["k","v",0]]'
    text = f"settings segment_ms=1000\n{timeless}\ntick ms=1001\n{timeless}"
    assert spans(done(text)) == [(0, 1), (1, 2)]


def test_an_empty_segment_is_not_rolled() -> None:
    assert spans(done(f"settings\nroll\n{record()}\nroll\nroll")) == [(0, 1), (1, 1)]


def test_a_segment_that_is_not_due_blocks_those_after_it() -> None:
    text = f'settings retention_ms=1000\n{record()}\nroll\n{record(9000)}\nroll\nadvance at="end"\ncheck'
    assert spans(done(text)) == [(0, 1), (1, 2), (2, 2)]
    assert spans(done(f'{text}\ndelete-records at="second"\ncheck')) == [(2, 2)]


def test_the_active_segment_goes_by_time_and_the_next_begins_at_log_end() -> None:
    log = done(f'settings retention_ms=1000\n{record(9000)}\nadvance at="end"\ncheck')
    assert spans(log) == [(1, 1)] and log.views()[0].start == 1


def test_nothing_goes_above_the_high_watermark() -> None:
    assert spans(done(f"settings retention_ms=1000\n{record(9000)}\ncheck")) == [(0, 1)]


@pytest.mark.parametrize(("limit", "first"), [(-1, 0), (0, 3), (69, 2), (70, 2), (71, 1), (210, 0)])
def test_size_takes_segments_while_what_is_left_is_not_below_the_limit(limit: int, first: int) -> None:
    text = f"settings retention_bytes={limit}\n" + f"{record()}\nroll\n" * 3
    assert [one.size for one in done(text).views()[0].local] == [70, 70, 70, 0]
    assert spans(done(f'{text}advance at="end"\ncheck'))[0][0] == first


def test_records_are_deleted_up_to_the_high_watermark_and_never_come_back() -> None:
    text = f"settings\n{record()}\n{record()}\n{record()}\nadvance at=2\n"
    log = done(text)
    assert log.apply(Action("delete-records", {"at": 3})).error == "OFFSET_OUT_OF_RANGE"
    assert log.apply(Action("delete-records", {"at": -1})).value == 2
    assert log.apply(Action("delete-records", {"at": 1})).value == 2
    assert log.apply(Action("read", {"at": 1})).error == "OFFSET_OUT_OF_RANGE"
    compacted = done(f'{text}set name="cleanup" value="compact"')
    assert compacted.apply(Action("delete-records", {"at": 1})).error == "POLICY_VIOLATION"


TIERED = f'settings tiered=true local_retention_bytes=0\n{record()}\nroll\n{record()}\nadvance at="end"\n'


def test_a_tiered_segment_stays_until_its_copy_is_committed_and_is_read_from_there() -> None:
    assert spans(done(f"{TIERED}check\nupload\ncheck")) == [(0, 1), (1, 2)]
    log = done(f'{TIERED}upload\ncommit-tier\ncheck\nread at=0\nread-all\nlist what="latest-tiered"')
    view = log.views()[0]
    assert spans(log) == [(1, 2), (2, 2)] and (view.start, view.local_start) == (0, 1)
    assert log.apply(Action("read", {"at": 0})).value == [[[0, 1_000_000, "k", "v"]], 1]


def test_only_what_is_below_the_last_stable_offset_is_copied() -> None:
    open_ = 'append producer=2 txn=true records=[["k","v",0]]'
    log = done(f'settings tiered=true\n{open_}\nroll\nadvance at="end"\nupload')
    assert log.views()[0].uploading == ()
    assert log.apply(Action("commit", {"producer": 2})).value == {0: 1}
    assert log.apply(Action("upload")).value is None  # the marker is not below the high watermark
    log.apply(Action("advance", {"at": 2}))
    assert log.apply(Action("upload")).value == (0, 1)


def test_remote_retention_moves_log_start() -> None:
    text = f'{TIERED}upload\ncommit-tier\ncheck\nset name="retention_ms" value=1000\ntick ms=1001\ncheck-tier'
    view = done(text).views()[0]
    assert (view.start, view.remote) == (1, ())


def test_a_loss_of_power_leaves_what_was_flushed_and_a_kill_everything() -> None:
    text = f'settings\n{record()}\nroll\n{record()}\nadvance at="end"\n'
    for how, end, high in [("clean", 2, 2), ("kill", 2, 0), ("power", 1, 0)]:
        view = done(f'{text}restart how="{how}"').views()[0]
        assert (view.end, view.high_watermark) == (end, high), how
    assert done(f'{text}flush\nrestart how="power"').views()[0].end == 2


def test_a_log_start_that_was_not_checkpointed_goes_back_after_a_kill() -> None:
    text = f'settings\n{record()}\n{record()}\nadvance at="end"\ndelete-records at=1\n'
    for how, start in [("clean", 1), ("kill", 0), ("power", 0)]:
        assert done(f'{text}restart how="{how}"').views()[0].start == start
    assert done(f'{text}checkpoint\nrestart how="kill"').views()[0].start == 1
