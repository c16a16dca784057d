"""Runs at a URI: uploading them, reading them from a temporary copy, and writing results back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson
import pytest

from checker.check import check_plain
from checker.tables import storage
from harness.history_writer import discard_unused, new_run, write_json
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.run import histories, uploads
from harness.stored import find_runs, staged_runs, uploaded_run
from tests.bench.histories import Shape, make, write_log

RUN = "20260101T000000-kill"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with several segments, and a result."""
    folder = tmp_path / "runs" / RUN
    write_log(make(Shape(600, 4)), folder, segment_bytes=20_000)
    (folder / "plan.yaml").write_text(f"run: {RUN}\nworkload: queue\n")
    write_json(folder / "results.json", to_data(Result("valid")))
    assert len(list((folder / "history").iterdir())) > 3
    return folder


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


def uploaded(run: Path, uri: str) -> list[str]:
    lines: list[str] = []
    uploads.upload(run.parent, run.name, uri, lines.append)
    return lines


def manifest(run: Path, uri: str) -> uploaded_run.Manifest:
    found = uploaded_run.manifest_of(storage.open_store(f"{uri}/{run.name}"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("s3://bucket/runs/", "s3://bucket/runs"),
        (Path("s3://bucket/runs"), "s3://bucket/runs"),
        ("file:///mnt/runs", "file:///mnt/runs"),
        (Path("file:///mnt/runs"), "file:///mnt/runs"),
        ("hdfs:///runs", "hdfs:///runs"),
        (Path("hdfs://host:8020/runs"), "hdfs://host:8020/runs"),
        ("abfs://box@account.dfs.core.windows.net/runs", "abfs://box@account.dfs.core.windows.net/runs"),
        ("runs/20260101", None),
        ("http://host/runs", None),
        (Path("s3/runs"), None),
    ],
)
def test_what_is_a_uri(place: str | Path, expected: str | None) -> None:
    assert storage.uri_of(place) == expected


def test_a_uri_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(BadInput) as caught:
        storage.uri_of("s3://key:hunter22@bucket/runs")
    assert "hunter22" not in str(caught.value)


def test_an_upload_can_be_repeated_and_copies_only_what_changed(run: Path, uri: str) -> None:
    first = uploaded(run, uri)
    count = len(uploaded_run.files_of(run))
    assert f"{count} files uploaded" in first[-1] and "0 were there already" in first[-1]
    assert "0 files uploaded (0 bytes)" in uploaded(run, f"{uri}/{run.name}")[-1]
    (run / "results.json").write_text("{}")
    assert "1 files uploaded (2 bytes)" in uploaded(run, uri)[-1]
    (run / "results.json").unlink()
    uploaded(run, uri)
    assert "results.json" not in manifest(run, uri).files
    assert storage.open_store(f"{uri}/{run.name}").read("results.json") is None


def test_an_upload_that_ended_early_is_continued(run: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_run, "BATCH_FILES", 2)
    real, left = storage.Store.upload, [3]

    def fails(store: storage.Store, file: Path, name: str, size: int) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise Missing("the store is overloaded")
        return real(store, file, name, size)

    with monkeypatch.context() as broken:
        broken.setattr(storage.Store, "upload", fails)
        with pytest.raises(Missing, match="overloaded"):
            uploaded(run, uri)
    partial = manifest(run, uri)
    assert not partial.complete and len(partial.files) == 2
    assert "2 were there already" in uploaded(run, uri)[-1]
    assert manifest(run, uri).complete


def test_a_check_at_a_uri_gives_the_local_result_and_stores_it(run: Path, uri: str) -> None:
    expected = check_plain(run, CheckOptions())
    uploaded(run, uri)
    for name in ("results.json", "tables/_schema.json"):
        (run.parent.parent / "store" / run.name / name).unlink()
    copy = histories.find(Path("runs"), f"{uri}/{run.name}")
    ((path, result, wrong),) = histories.judge([(copy, CheckOptions())], None, lambda text: None)
    assert (result, wrong) == (expected, "")
    assert "written" in (staged_runs.publish(path) or "")
    assert manifest(run, uri).complete
    assert find_runs.result_of(find_runs.resolve(Path(uri), run.name)) == expected
    assert find_runs.rows(Path(uri))[0].verdict == expected.valid
    assert staged_runs.publish(path) is None
    assert staged_runs.with_uris(f"{path}/report.html") == f"{uri}/{run.name}/report.html"


def test_tables_that_were_damaged_in_the_store_are_made_again(run: Path, uri: str) -> None:
    expected = check_plain(run, CheckOptions())
    uploaded(run, uri)
    table = run.parent.parent / "store" / run.name / "tables" / "ends.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    copy = histories.find(Path("runs"), f"{uri}/{run.name}")
    assert check_plain(copy, CheckOptions()) == expected
    staged_runs.publish(copy)
    assert table.read_bytes()[-4:] == b"PAR1"


@pytest.mark.parametrize("damage", ["missing", "shorter", "changed"])
def test_a_history_that_differs_from_the_manifest_is_never_judged(run: Path, uri: str, damage: str) -> None:
    uploaded(run, uri)
    segment = run.parent.parent / "store" / run.name / "history" / "00001.jsonl"
    content = segment.read_bytes()
    if damage == "missing":
        segment.unlink()
    else:
        segment.write_bytes(content[:-200] if damage == "shorter" else content[:-2] + b" \n")
    with pytest.raises(BadInput, match=r"history/00001\.jsonl: its? .*upload the run again"):
        histories.find(Path("runs"), f"{uri}/{run.name}")
    if damage == "changed":  # which only reading it shows, so the message says to remove it
        segment.unlink()
    uploaded(run, uri)
    assert segment.read_bytes() == content


def test_a_check_that_ends_while_it_stores_its_result_leaves_a_complete_run(
    run: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = check_plain(run, CheckOptions())
    write_json(run / "results.json", to_data(expected))
    uploaded(run, uri)
    copy = histories.find(Path("runs"), f"{uri}/{run.name}")
    write_json(copy / "results.json", to_data(Result("invalid")))
    (copy / "results" / "unseen.parquet").unlink()

    def fails(*_: object) -> None:
        raise Missing("the store is overloaded")

    with monkeypatch.context() as broken:
        broken.setattr(storage.Store, "upload", fails)
        with pytest.raises(Missing):
            staged_runs.publish(copy)
    assert manifest(run, uri).complete
    again = histories.find(Path("runs"), f"{uri}/{run.name}")
    assert find_runs.result_of(again) is None and not (again / "results" / "unseen.parquet").exists()
    assert check_plain(again, CheckOptions()) == expected


def test_an_unfinished_upload_is_judged_up_to_its_last_segment_and_no_result_is_stored(run: Path, uri: str) -> None:
    store = storage.open_store(f"{uri}/{run.name}")
    started = uploaded_run.Manifest(run.name, False)
    names = ["plan.yaml", "history/00000.jsonl", "history/00001.jsonl"]
    uploaded_run.commit(run, store, started, names, [], complete=False)
    store.upload(run / "history" / "00002.jsonl", "history/00002.jsonl", 100)  # killed before it was noted
    copy = histories.find(Path("runs"), f"{uri}/{run.name}")
    ((path, result, _),) = histories.judge([(copy, CheckOptions())], None, lambda text: None)
    assert result.valid == "unknown"
    assert any("ends with the segment 00001.jsonl" in reason for reason in result.reasons)
    assert "upload is incomplete" in (staged_runs.publish(path) or "")
    assert store.read("results.json") is None
    uploaded(run, uri)
    whole = histories.find(Path("runs"), f"{uri}/{run.name}")
    assert check_plain(whole, CheckOptions()) == check_plain(run, CheckOptions())


def test_an_upload_without_a_segment_cannot_be_judged(run: Path, uri: str) -> None:
    store = storage.open_store(f"{uri}/{run.name}")
    uploaded_run.commit(run, store, uploaded_run.Manifest(run.name, False), ["plan.yaml"], [], complete=False)
    with pytest.raises(BadInput, match="no segment of the history has been uploaded yet"):
        histories.find(Path("runs"), f"{uri}/{run.name}")


def test_a_newer_manifest_and_a_damaged_one_are_refused(run: Path, uri: str) -> None:
    uploaded(run, uri)
    store = storage.open_store(f"{uri}/{run.name}")
    for content, message in (
        (b'{"schema": 9}', "schema 9; this version reads schemas up to 1; upgrade the harness"),
        (b"{", "damaged"),
        (orjson.dumps({"schema": 1, "run": "x", "complete": True, "files": {"../x": [1, 2]}}), "leads out"),
    ):
        store.write("upload.json", content)
        with pytest.raises(BadInput, match=message):
            find_runs.resolve(Path("runs"), f"{uri}/{run.name}")


def test_a_run_that_another_tool_copied_is_read_without_a_manifest(run: Path, uri: str) -> None:
    uploaded(run, uri)
    (run.parent.parent / "store" / run.name / "upload.json").unlink()
    copy = histories.find(Path("runs"), f"{uri}/{run.name}")
    histories.judge([(copy, CheckOptions())], None, lambda text: None)
    assert check_plain(copy, CheckOptions()) == check_plain(run, CheckOptions())
    assert "written" in (staged_runs.publish(copy) or "")


def test_names_of_runs_at_a_uri(run: Path, uri: str) -> None:
    uploaded(run, uri)
    for name in (run.name, run.name[:10], "latest"):
        assert find_runs.resolve(Path(uri), name).name == run.name
    for name, message in (("2027", "no run at"), ("", "is empty")):
        with pytest.raises(BadInput, match=message):
            find_runs.resolve(Path(uri), name)
    with pytest.raises(BadInput, match="there is no run"):
        find_runs.resolve(Path("runs"), f"{uri}/other")
    with pytest.raises(BadInput, match="there are no runs"):
        find_runs.resolve(Path(f"{uri}/other"), "latest")
    with pytest.raises(BadInput, match="in a local folder only"):
        new_run(Path(uri), "x")


def test_a_run_in_progress_and_a_place_that_is_no_uri_are_refused(run: Path, uri: str) -> None:
    from harness.cluster.local import process_owner

    (run / "owner").write_text(process_owner.owner(os.getpid()))
    with pytest.raises(BadInput, match="in progress"):
        uploaded(run, uri)
    (run / "owner").write_text("gone/1/1")
    uploaded(run, uri)
    assert "owner" not in manifest(run, uri).files
    with pytest.raises(BadInput, match="not a URI"):
        uploaded(run, "store")
    with pytest.raises(BadInput, match="this is run"):
        other = run.rename(run.with_name("other"))
        uploaded_run.upload(other, storage.open_store(f"{uri}/{RUN}"), lambda text: None)


def test_segments_are_uploaded_while_the_run_goes_on(
    run: Path, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "INTERVAL_S", 0.05)
    going = tmp_path / "going" / run.name
    for part in ("history", "events"):
        (going / part).mkdir(parents=True)
    (going / "plan.yaml").write_text("run: x\n")
    live = uploads.LiveUpload(uri)
    live.begin(going)
    assert {*manifest(run, uri).files} == {"plan.yaml"}
    segments = sorted((run / "history").iterdir())
    for segment in segments[:3]:
        (going / "history" / segment.name).write_bytes(segment.read_bytes())
    deadline = time.monotonic() + 30
    while len(manifest(run, uri).files) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    uploaded_now = manifest(run, uri)
    assert {*uploaded_now.files} == {"plan.yaml", "history/00000.jsonl", "history/00001.jsonl"}
    assert not uploaded_now.complete
    lines: list[str] = []
    live.finish(lines.append)
    assert manifest(run, uri).complete and "history/00002.jsonl" in manifest(run, uri).files
    assert "3 were there already" in lines[-1]


def test_the_upload_of_a_run_that_was_refused_is_removed(uri: str, tmp_path: Path) -> None:
    going = tmp_path / "going" / RUN
    (going / "history").mkdir(parents=True)
    (going / "plan.yaml").write_text("run: x\n")
    live = uploads.LiveUpload(uri)
    live.begin(going)
    discard_unused(going)
    live.finish(print)
    assert storage.open_store(uri).sizes() == {}


def test_a_store_that_fails_in_the_end_leaves_the_run_and_says_how_to_go_on(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = tmp_path / "going" / RUN
    (going / "history").mkdir(parents=True)
    (going / "plan.yaml").write_text("run: x\n")
    live = uploads.LiveUpload(uri)
    live.begin(going)

    def fails(*_: object) -> None:
        raise Missing("the store is overloaded")

    monkeypatch.setattr(storage.Store, "sizes", fails)
    lines: list[str] = []
    live.finish(lines.append)
    assert not live.complete
    assert "overloaded" in lines[-1] and f"harness upload {going} {uri}/{RUN}" in lines[-1]


def test_the_working_files_of_brokers_are_not_uploaded(run: Path, uri: str) -> None:
    before = {*uploaded_run.files_of(run)}
    for name in ("cluster/n1/server.properties", "tables/.segments/00000/x", "history/00001.jsonl.part"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("x")
    (run / "link").symlink_to("/etc/passwd")
    assert {*uploaded_run.files_of(run)} == before


def test_messages_of_libraries_lose_the_credentials_that_they_contain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0123456789abcdef")

    def fails(uri: str) -> None:
        raise OSError(f"request to {uri} signed\nwith 0123456789abcdef failed")

    monkeypatch.setattr(storage, "_s3", fails)
    with pytest.raises(Missing) as caught:
        storage.open_store("s3://bucket/runs")
    assert str(caught.value) == "s3://bucket/runs: the store failed (request to bucket/runs signed with ... failed)"
