"""A run that tasks read from a store and write to: the results of the local check, and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checker.cycles import windows
from checker.tables import join_segments, remote_run, storage
from harness.history_writer import write_json
from harness.model import op_json
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result, to_data
from harness.model.errors_and_exit_codes import BadInput
from harness.run import histories
from harness.sim.queue.run import simulate
from harness.stored import staged_runs, uploaded_run

RUN = "20260101T000000-kill"
BUGS = frozenset(
    {"aborted-visible", "duplicate-on-retry", "int-skip-poll", "lose-acked", "reorder", "torn-transaction"}
)
SETTINGS = Settings(acks="all", txn=True, isolation_level="read_committed", replication=3)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with anomalies of most kinds, in four segments."""
    folder = tmp_path / "runs" / RUN
    (folder / "history").mkdir(parents=True)
    ops = simulate(5, ops=400, keys=9, bugs=BUGS)
    size = len(ops) // 4 + 1
    for number in range(4):
        lines = [op_json.header(RUN, number, 0, 0), *map(op_json.encode, ops[number * size : (number + 1) * size])]
        (folder / "history" / f"{number:05d}.jsonl").write_bytes(b"".join(lines))
    (folder / "plan.yaml").write_text(f"run: {RUN}\nworkload: queue\n")
    write_json(folder / "results.json", to_data(Result("valid")))
    return folder


@pytest.fixture
def uri(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(join_segments, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(windows, "INLINE", 0)  # every edge goes through the store
    uri = f"file://{tmp_path}/store/{RUN}"
    uploaded_run.upload(run, storage.open_store(uri), lambda text: None)
    return uri


def judged(path: Path, stored: dict[Path, remote_run.RemoteRun]) -> Any:
    options = CheckOptions(settings=SETTINGS, buckets=3)
    ((_, result, wrong),) = histories.judge([(path, options)], None, lambda text: None, stored)
    assert not wrong, wrong
    data = to_data(result)
    assert data["anomalies"]
    return json.loads(json.dumps(data, default=str))


def judged_in_store(uri: str) -> tuple[Any, Path]:
    path = staged_runs.stage(uri, staged_runs.beside_tasks)
    assert not any(path.glob("history/*"))
    with staged_runs.for_tasks([path]) as stored:
        found = judged(path, stored)
        staged_runs.publish(path, stored[path])
    return found, path


def test_the_results_are_those_of_the_local_check(tmp_path: Path, run: Path, uri: str) -> None:
    found, _ = judged_in_store(uri)
    local = judged(run, {})
    assert found == local
    stored = Path(uri.removeprefix("file://"))
    assert [file for file in stored.rglob("*.*") if file.is_file() and "/." in str(file)] == []
    copy = staged_runs.stage(uri)
    for name in ("results.json", "results/unseen.parquet", "results/realtime_lag.parquet"):
        assert (copy / name).read_bytes() == (run / name).read_bytes()
    names = [file.name for file in sorted((run / "results" / "witnesses").iterdir())]
    assert names == [file.name for file in sorted((copy / "results" / "witnesses").iterdir())] and len(names) > 4
    again, _ = judged_in_store_without_changes(uri)
    assert again == local
    assert judged(copy, {}) == local  # with the tables that the tasks made


def judged_in_store_without_changes(uri: str) -> tuple[Any, Path]:
    """The tables are not made again."""
    before = tables_in(uri)
    found, path = judged_in_store(uri)
    assert before == tables_in(uri) and len(before) > 10
    return found, path


def tables_in(uri: str) -> set[str]:
    manifest = uploaded_run.manifest_of(storage.open_store(uri))
    assert manifest is not None
    return {name for name in manifest.files if name.startswith("tables/")}


def test_attempts_that_were_not_accepted_change_nothing(run: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    once = remote_run._attempt

    def twice(*arguments: Any, **named: Any) -> Any:
        once(*arguments, **named)  # as if its executor was lost, or another attempt was faster
        return once(*arguments, **named)

    monkeypatch.setattr(remote_run, "_attempt", twice)
    found, _ = judged_in_store(uri)
    assert found == judged(run, {})
    assert judged(staged_runs.stage(uri), {}) == judged(run, {})


@pytest.mark.parametrize("damage", ["tables/sends", "tables/ops", "tables/_schema.json", "tables/_dictionary.json"])
def test_damaged_tables_are_made_again(run: Path, uri: str, damage: str) -> None:
    judged_in_store(uri)
    place = Path(uri.removeprefix("file://")) / damage
    file = place if place.is_file() else next(place.rglob("*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    found, _ = judged_in_store(uri)
    assert found == judged(run, {})


def test_a_lost_or_changed_segment_is_an_error(uri: str) -> None:
    segment = Path(uri.removeprefix("file://")) / "history" / "00002.jsonl"
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b'"ok"', b'"no"', 1))
    with pytest.raises(BadInput, match=r"history/00002.jsonl: its content is wrong, so the upload is incomplete"):
        judged_in_store(uri)
    segment.write_bytes(content[:-1])
    with pytest.raises(BadInput, match=r"history/00002.jsonl: its size is wrong"):
        judged_in_store(uri)
    segment.unlink()
    with pytest.raises(BadInput, match=r"history/00002.jsonl: it is missing"):
        judged_in_store(uri)
    segment.write_bytes(content)
    judged_in_store(uri)
    segment.write_bytes(content.replace(b'"ok"', b'"no"', 1))  # now there are tables
    with pytest.raises(BadInput, match=r"history/00002.jsonl: its content is wrong"):
        judged_in_store(uri)


def test_a_run_without_a_manifest_and_checks_that_need_local_files_are_refused(uri: str) -> None:
    path = staged_runs.stage(uri, staged_runs.beside_tasks)
    with staged_runs.for_tasks([path]) as stored, pytest.raises(BadInput, match="the check 'pipeline' cannot read"):
        next(histories.judge([(path, CheckOptions(checks=("pipeline",)))], None, lambda text: None, stored))
    (Path(uri.removeprefix("file://")) / "upload.json").unlink()
    path = staged_runs.stage(uri, staged_runs.beside_tasks)
    with pytest.raises(BadInput, match=r"it has no upload\.json"), staged_runs.for_tasks([path]):
        pass


def test_history_in_a_form_that_only_one_process_can_convert(run: Path, uri: str) -> None:
    segment = run / "history" / "00001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'{"index":', b'{ "index":', 3))
    uploaded_run.upload(run, storage.open_store(uri), lambda text: None)
    found, path = judged_in_store(uri)
    assert found == judged(run, {})
    shutil.rmtree(path)
