"""What servers of 3.9, 4.1 and 4.3 say of recovery, read from their own lines."""

from __future__ import annotations

import pytest

from nemesis.recovery.log_lines import DAMAGE_MESSAGES, read

LINES = [
    "[10:00:00,000] INFO Recovering 3 logs from /d/data since no clean shutdown file was found (kafka.log.LogManager)",
    "[10:00:00,001] INFO [LogLoader partition=r-0-0, dir=/d/data] Recovering unflushed segment 156. "
    "0 recovered for r-0-0. (o.a.k.s.i.log.LogLoader)",
    "[10:00:00,002] INFO [LogLoader partition=r-0-0, dir=/d/data] Recovering unflushed segment 208. "
    "1/2 recovered for r-0-0. (o.a.k.s.i.log.LogLoader)",
    "[10:00:00,002] INFO [LogLoader partition=x-0, dir=/d/data] Recovering unflushed segment 0. "
    "0 recovered for x-0. (o.a.k.s.i.log.LogLoader)",
    "[10:00:00,003] WARN [LogLoader partition=r-0-0, dir=/d/data] Corruption found in segment 208, "
    "truncating to offset 211 (o.a.k.s.i.log.LogLoader)",
    "[10:00:00,004] INFO Completed load of Log(dir=/d/data/r-0-0, topic=r-0, partition=0, "
    "highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=211) with 5 segments, "
    "local-log-start-offset 0 and log-end-offset 211 in 54ms (1/3 completed in /d/data) (k.l.LogManager)",
    "[10:00:00,005] INFO Loaded 3 logs in 87ms (unclean log dirs = ArrayBuffer(/d/data)) (kafka.log.LogManager)",
    "[10:00:00,006] INFO [KafkaRaftServer nodeId=3] Kafka Server started (kafka.server.KafkaRaftServer)",
]


def test_a_start_after_a_kill_in_figures() -> None:
    found = read(LINES, "r-")
    assert found["unclean"] == 3 and found["clean"] == 0
    assert found["segments"] == {"r-0-0": [156, 208]} and found["others"] == 1
    assert found["load_ms"] == {"r-0-0": 54} and found["all_ms"] == 87
    assert list(found["said"]) == ["corrupt"] and found["started"]


def test_a_clean_start_recovers_nothing() -> None:
    line = "INFO Skipping recovery of 3 logs from /d/data since clean shutdown file was found (LogManager)"
    found = read([line], "r-")
    assert found["clean"] == 3 and found["segments"] == {} and not found["started"]


@pytest.mark.parametrize("name", DAMAGE_MESSAGES)
def test_sayings_are_counted_up_to_a_bound(name: str) -> None:
    found = read([f"WARN before {DAMAGE_MESSAGES[name]} behind"] * 100, "r-")
    assert len(found["said"][name]) == 5
