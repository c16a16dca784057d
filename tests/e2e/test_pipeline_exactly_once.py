"""The pipeline on real brokers: exactly once under kills and rebalances, in a group of both libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness_command import run

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PIPELINE = (
    "--workload",
    "pipeline",
    "--instances",
    "3",
    "--partitions",
    "6",
    "--rate",
    "60",
    "--send-batch",
    "20",
)


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]


def outputs(folder: Path) -> tuple[set[int], list[int]]:
    """Ids of the input that was committed, and of each committed output."""
    offsets = json.loads((folder / "pipeline" / "committed.json").read_text())["offsets"]
    rows = [row for row in lines(folder, "pipeline/read-*.jsonl") if "end" not in row]
    given = {
        row["id"]
        for row in rows
        if row["side"] == "input" and row["offset"] < offsets.get(f"{row['topic']}/{row['partition']}", 0)
    }
    return given, [row["id"] for row in rows if row["side"] == "output" and row["committed"]]


@pytest.mark.repeat(1, 20)
@pytest.mark.timeout(500)
def test_exactly_once(tmp_path: Path, repetition: int) -> None:
    ran = run(
        tmp_path, *PIPELINE, "--client", "confluent,java", "--time-limit", "20", "--churn-interval", "5",
        "--nemesis", "kill:client", "--nemesis-interval", "8", "--nemesis-first", "6", timeout_s=400,
    )  # fmt: skip
    given, made = outputs(ran.folder)
    assert len(made) == len(set(made)), "an output twice"
    assert given, ran.out
    assert given == set(made)
    assert ran.code == 0, ran.out + ran.err
    sent = {row["id"] for row in lines(ran.folder, "pipeline/sent-*.jsonl") if row["outcome"] == "ok"}
    assert sent <= given
    events = lines(ran.folder, "events/instance-*.jsonl")
    assert {"assigned", "revoked", "polled", "produced", "committed", "position"} <= {e["event"] for e in events}
    kills = [op["value"] for op in ran.nemesis if op["f"] == "kill" and op["extra"]["phase"] == "complete"]
    assert any(kill["took_effect"] for kill in kills), kills
