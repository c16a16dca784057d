"""The lives of records in share groups, from the tables of deliveries and acknowledgements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from checker.tables.schema import ACKNOWLEDGEMENTS, DELIVERIES
from harness.model.check_result import AnomalyFound, Result
from harness.report.page import record_lives
from harness.stored.operations_and_records import CODE_BASE

GROUP, FIRST, SECOND = CODE_BASE, CODE_BASE + 1, CODE_BASE + 2
PLAN = {"share_lock_s": 3.0}


def delivery(offset: int, at_s: float, member: int, count: int, renewed: bool = False) -> dict[str, Any]:
    times = {"invoke_ns": int(at_s * 1e9), "complete_ns": int(at_s * 1e9)}
    more = {"place": 0, "renewed": renewed, "op": 0, "group": GROUP, "member": member, "final": False}
    return {"key": 1, "offset": offset, "value": 5, "count": count, **more, **times}


def ack(offset: int, at_s: float, member: int, kind: int, type_: int = 0, error: int = 0) -> dict[str, Any]:
    times = {"invoke_ns": int(at_s * 1e9), "complete_ns": int(at_s * 1e9)}
    more = {"place": 0, "kind": kind, "type": type_, "error": error, "by_poll": False, "op": 0}
    return {"key": 1, "offset": offset, **more, "group": GROUP, "member": member, **times}


def stored(run: Path, deliveries: list[dict[str, Any]], acks: list[dict[str, Any]]) -> Path:
    for name, schema, rows in (
        ("deliveries", DELIVERIES, deliveries),
        ("acknowledgements", ACKNOWLEDGEMENTS, acks),
    ):
        folder = run / "tables" / name / "00000"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "0.parquet")
    (run / "tables" / "_dictionary.json").write_bytes(orjson.dumps(['"g0"', '"3.0"', '"4.0"']))
    return run


def test_each_delivery_says_how_it_ended(tmp_path: Path) -> None:
    from checker.tables.schema import FAIL, OK

    given = [delivery(7, 1.0, FIRST, 1), delivery(7, 4.5, SECOND, 2), delivery(7, 5.0, SECOND, 3)]
    acks = [ack(7, 4.6, SECOND, 1, OK), ack(7, 5.1, SECOND, 0, OK), ack(8, 6.0, FIRST, 2, FAIL, 1)]
    run = stored(tmp_path, [*given, delivery(8, 2.0, FIRST, 1)], acks)
    lives = record_lives.of_run(run, PLAN, None)
    assert [[part.ended for part in life.parts] for life in lives.lives] == [
        ["expired", "released", "accepted"],
        ["refused"],
    ]
    assert lives.lives[0].name == "g0, key 1, offset 7"
    assert lives.lives[0].parts[0].text == "1.000 s: delivery 1 to member 3.0; not acknowledged"
    assert lives.lives[0].parts[0].width == 600.0  # the lock of 3 of 5 seconds
    assert lives.lives[0].parts[2].text == "5.000 s: delivery 3 to member 4.0; accepted at 5.100 s"


def test_a_renewal_makes_a_delivery_longer(tmp_path: Path) -> None:
    from checker.tables.schema import OK

    given = [delivery(7, 1.0, FIRST, 1), delivery(7, 2.1, FIRST, 1, renewed=True)]
    run = stored(tmp_path, given, [ack(7, 2.0, FIRST, 3, OK)])
    (life,) = record_lives.of_run(run, PLAN, None).lives
    assert [part.text for part in life.parts] == [
        "1.000 s: delivery 1 to member 3.0, lock renewed; not acknowledged",
    ]
    assert (record_lives.of_run(run, PLAN, None).begin_s, record_lives.of_run(run, PLAN, None).end_s) == (1.0, 5.0)


def test_records_of_witnesses_come_first(tmp_path: Path) -> None:
    given = [delivery(offset, 1.0 + n, FIRST, n + 1) for offset in range(30) for n in range(2)]
    run = stored(tmp_path, [*given, delivery(99, 1.0, FIRST, 1)], [])
    anomaly = AnomalyFound("share-lost", "", 1, True, True, ({"group": "g0", "key": 1, "offset": 99},))
    lives = record_lives.of_run(run, PLAN, Result("invalid", True, (), (anomaly,), {}, "0")).lives
    assert (lives[0].name, lives[0].witness, len(lives)) == ("g0, key 1, offset 99", True, record_lives.LIVES_MAX)


def test_a_run_without_share_groups_has_no_lives(tmp_path: Path) -> None:
    assert record_lives.of_run(tmp_path, {}, None).lives == ()
