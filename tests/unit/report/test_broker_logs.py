"""Lines of server logs around a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.report.text import broker_logs
from harness.report.text.broker_logs import Wanted

WALL_NS = 1_767_323_045_000_000_000  # 2026-01-02T03:04:05Z
S = 1_000_000_000
PART = "run-1-2"


def line(at_s: float, text: str, level: str = "INFO", zone_h: float = 0) -> str:
    at = datetime.fromtimestamp(WALL_NS / S + at_s, UTC) + timedelta(hours=zone_h)
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] {level} {text} (kafka.Some)\n"


def logged(folder: Path, node: str, lines: list[str]) -> None:
    (folder / node).mkdir(parents=True, exist_ok=True)
    (folder / node / "server.log").write_text("".join(lines))


def around(logs: Path, *moments: tuple[float, float]) -> list[tuple[float, str, str]]:
    spans = [(int(a * S), int(b * S)) for a, b in moments]
    found = broker_logs.around(logs, WALL_NS, 60 * S, Wanted(spans, [PART]))
    return [(one.time_ns / S, one.node, one.text) for one in found]


SHRINKING = f"[Partition {PART} broker=1] Shrinking ISR from 1,2 to 1"
LOST = "Connection to node 2 could not be established"


def a_log(zone_h: float = 0) -> list[str]:
    """A log from before the run to its end, with a stack trace between its lines."""
    rows = [
        *((-20 + n / 10, "Loading", "INFO") for n in range(100)),
        (1, SHRINKING, "INFO"),
        (10, SHRINKING, "INFO"),
        (10.1, SHRINKING.replace(PART, f"{PART}1"), "INFO"),
        (10.2, LOST, "WARN"),
        (30, LOST, "WARN"),
        (40, f"[UnifiedLog partition={PART}, dir=/some/where] Truncating to offset 12", "INFO"),
        (59, "Bye", "INFO"),
    ]
    lines = [line(at_s, text, level, zone_h) for at_s, text, level in rows]
    return [*lines[:-3], "java.io.IOException: of no line\n\tat some.Where(Some.java:1)\n", *lines[-3:]]


@pytest.mark.parametrize("zone_h", [0, 1, -8, 5.75])
def test_what_bears_on_the_partition_or_is_a_warning_at_the_moment_in_any_time_zone(
    tmp_path: Path, zone_h: float
) -> None:
    logged(tmp_path, "n1", a_log(zone_h))
    assert around(tmp_path, (10, 10.5)) == [
        (10.0, "n1", f"INFO {SHRINKING}"),
        (10.2, "n1", f"WARN {LOST}"),
        (40.0, "n1", f"INFO [UnifiedLog partition={PART}] Truncating to offset 12"),
    ]


def test_lines_of_several_nodes_come_in_order_of_time_and_are_bounded(tmp_path: Path) -> None:
    for number in range(1, 4):
        truncations = [line(10 + n / 100 + number / 1000, f"{PART} Truncating to {n}") for n in range(50)]
        logged(tmp_path, f"n{number}", [line(0, "Starting"), *truncations, line(59, "Bye")])
    found = around(tmp_path, (10, 12))
    assert len(found) == broker_logs.SHOWN
    assert [at for at, _, _ in found] == sorted(at for at, _, _ in found)


def test_a_large_log_is_not_read_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line(n / 100, f"{PART} ISR {'x' * 300}") for n in range(5900)]
    logged(tmp_path, "n1", lines)
    monkeypatch.setattr(broker_logs, "SCAN_MAX", 20_000)
    found = around(tmp_path, (50, 50.1))
    assert found and all(48.4 <= at <= 49.2 for at, _, _ in found)
    assert all(len(text) <= broker_logs.TEXT_MAX for _, _, text in found)


def test_control_characters_and_foreign_files_do_no_harm(tmp_path: Path) -> None:
    logged(tmp_path, "n1", [line(0, "a"), line(10, f"{PART} Truncating to \x1b[31m1", "WARN"), line(59, "b")])
    logged(tmp_path, "n2", ["no stamps here\n"] * 100)
    (tmp_path / "n3").mkdir()
    (tmp_path / "n3" / "server.log").write_bytes(b"\xff\xfe\x00" * 1000)
    assert around(tmp_path, (10, 10)) == [(10.0, "n1", f"WARN {PART} Truncating to \\x1b[31m1")]


def test_no_logs_and_no_moments(tmp_path: Path) -> None:
    assert around(tmp_path / "none", (1, 2)) == []
    assert around(tmp_path) == []


def test_partitions_have_the_names_that_the_brokers_use() -> None:
    assert broker_logs.partition("run", 9, 4) == "run-2-1"
    assert broker_logs.partition("run", "k", 4) is None
