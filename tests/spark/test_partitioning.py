"""The result does not depend on how a history is spread over buckets, files and machines."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checker.check import check, check_plain
from checker.tables import make_tables
from harness.model import op_json
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result, to_data
from harness.sim.queue.run import simulate
from tests.spark.standalone_cluster import environment, standalone

pytestmark = pytest.mark.spark

SETTINGS = Settings(acks="all", txn=True, isolation_level="read_committed", replication=3)
EVERYTHING = frozenset(
    {"aborted-visible", "dirty-read", "diverge", "duplicate-on-retry", "int-skip-poll", "lose-acked"}
    | {"phantom", "repeat-poll", "reorder", "stale-order", "torn-transaction"}
)


def _options(compatible: bool, buckets: int | None) -> CheckOptions:
    return CheckOptions(settings=SETTINGS, jepsen_compatible=compatible, buckets=buckets)


def _run(folder: Path, bugs: frozenset[str] = EVERYTHING, keys: int = 9) -> Path:
    """A run folder with a simulated history in two segments."""
    ops = simulate(5, ops=400, keys=keys, bugs=bugs)
    (folder / "history").mkdir(parents=True)
    for number, some in enumerate((ops[: len(ops) // 2], ops[len(ops) // 2 :])):
        lines = [op_json.header("sim", number, 0, 0), *map(op_json.encode, some)]
        (folder / "history" / f"{number:05d}.jsonl").write_bytes(b"".join(lines))
    return folder


def comparable(result: Result) -> Any:
    """Without the order of witnesses, and without statistics that pick a few out of many equal ones."""
    data = to_data(result)
    for anomaly in data["anomalies"]:
        anomaly["witnesses"] = sorted(json.dumps(witness, sort_keys=True) for witness in anomaly["witnesses"])
    data["statistics"]["consume_counts"]["more_than_once"] = None
    return data


def witnesses(run: Path) -> dict[str, list[str]]:
    """All files below results/, with their lines in one order."""
    found = {}
    for file in sorted((run / "results" / "witnesses").glob("*.parquet")):
        texts = [json.loads(text) for text in pq.read_table(file).column("witness").to_pylist()]
        found[file.stem] = sorted(json.dumps(text, sort_keys=True) for text in texts)
    return found


@pytest.mark.parametrize("compatible", [False, True])
def test_number_of_buckets(spark: Any, tmp_path: Path, compatible: bool) -> None:
    answers, complete = [], []
    for buckets in (1, 4, 16):
        run = _run(tmp_path / str(buckets))
        answers.append(check(spark, run, _options(compatible, buckets), progress=lambda text: None))
        complete.append(witnesses(run))
    plain = check_plain(run, _options(compatible, 16))
    assert {anomaly.name for anomaly in plain.anomalies} >= {"G0", "duplicate", "lost-write", "poll-skip"}
    _same_types(answers)
    assert complete == [complete[0]] * 3
    assert comparable(plain) == comparable(answers[2])


def _same_types(answers: list[Result]) -> None:
    """Compares verdict, counts and statistics; which of equally severe witnesses come first is not specified."""
    shapes = []
    for answer in answers:
        data = comparable(answer)
        for anomaly in data["anomalies"]:
            anomaly["witnesses"] = len(anomaly["witnesses"])
        shapes.append(data)
    assert shapes == [shapes[0]] * len(shapes)


def _shuffled(table: pa.Table, draw: random.Random) -> pa.Table:
    """Shuffles the ops; the rows of one op keep their order, which tells what was read first."""
    if "op" not in table.column_names:
        rows = list(range(table.num_rows))
        draw.shuffle(rows)
        return table.take(pa.array(rows, pa.int64()))
    op = table.column("op").to_numpy()
    place = {one: draw.random() for one in sorted(set(op.tolist()))}
    return table.take(pa.array(np.argsort([place[one] for one in op.tolist()], kind="stable")))


def _mix(tables: Path, seed: int) -> None:
    """Rewrites every file of the tables with its rows shuffled; those of buckets as two files."""
    draw = random.Random(seed)
    meta = orjson.loads((tables / make_tables.META).read_bytes())
    files = {}
    for file in sorted(tables.rglob("*.parquet")):
        table = _shuffled(pq.ParquetFile(file).read(), draw)
        parts = [table]
        if file.parent != tables and table.num_rows > 1:
            op = table.column("op" if "op" in table.column_names else "index").to_numpy()
            half = set(sorted(set(op.tolist()))[::2])
            first = np.isin(op, list(half))
            parts = [table.filter(pa.array(first)), table.filter(pa.array(~first))]
        for number, part in enumerate(parts):
            name = file.with_name(f"{file.stem}-{number}.parquet") if len(parts) > 1 else file
            pq.write_table(part, name, write_page_checksum=True)
            files[str(name.relative_to(tables))] = name.stat().st_size
        if len(parts) > 1:
            file.unlink()
    files |= {name: size for name, size in meta["files"].items() if not name.endswith(".parquet")}
    (tables / make_tables.META).write_bytes(orjson.dumps({**meta, "files": files}))


@pytest.mark.parametrize("compatible", [False, True])
def test_order_of_rows(spark: Any, tmp_path: Path, compatible: bool) -> None:
    run = _run(tmp_path / "run")
    options = _options(compatible, 4)
    before = comparable(check(spark, run, options, progress=lambda text: None)), witnesses(run)
    for seed in range(2):
        _mix(run / "tables", seed)
        made: list[str] = []
        after = comparable(check(spark, run, options, progress=made.append)), witnesses(run)
        assert made == [], "the tables were made again"
        assert after == before


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_workers_of_a_standalone_cluster(tmp_path: Path) -> None:
    """Started as a user would; the result is the same as in one process."""
    run, here = _run(tmp_path / "run"), _run(tmp_path / "here")
    plain = to_data(check_plain(here, CheckOptions()))
    cluster = tmp_path / "spark"
    cluster.mkdir()
    # Six buckets, so that both workers get some.
    make_tables.make(run, run / "tables", 6)
    with standalone(cluster, workers=2) as url:
        checked = _harness("check", str(run), "--spark-master", url, "--json")
    assert checked.returncode == 1, checked.stderr
    answer = json.loads(checked.stdout)
    assert (answer["valid"], answer["reasons"]) == (plain["valid"], plain["reasons"])
    shapes = [
        [(anomaly["name"], anomaly["count"], anomaly["bad"]) for anomaly in data["anomalies"]]
        for data in (answer, plain)
    ]
    assert shapes[0] == shapes[1]
    assert witnesses(run) == witnesses(here)
    used = [folder for folder in cluster.glob("work*") if any(folder.glob("app-*"))]
    assert len(used) == 2, "each worker had an executor"


def _harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("harness")), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
