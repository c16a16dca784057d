"""Listing runs, and finding the run that a name refers to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.history_writer import write_json
from harness.model.check_result import AnomalyFound, Result, to_data
from harness.model.errors_and_exit_codes import BadInput
from harness.stored import find_runs
from tests.unit.report.folders import recorded

BAD = Result("invalid", True, (), (AnomalyFound("lost-write", "", 1234, True, True),), {"ops": 3})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs: a valid one, an invalid one, and one without results."""
    folder = tmp_path / "runs"
    recorded(folder, "20260101T000000-kill", [], started="2026-01-01T00:00:00Z")
    recorded(folder, "20260102T000000-kill", [], started="2026-01-02T00:00:00Z", nemesis=[], acks="1")
    recorded(folder, "20260102T000001-pause", [], started="2026-01-02T00:00:01Z")
    write_json(folder / "20260101T000000-kill" / "results.json", to_data(Result("valid")))
    write_json(folder / "20260102T000000-kill" / "results.json", to_data(BAD))
    (folder / "latest").symlink_to("20260102T000001-pause")
    return folder


def refused(runs: Path, name: str) -> str:
    with pytest.raises(BadInput) as caught:
        find_runs.resolve(runs, name)
    return str(caught.value)


def test_the_newest_comes_first_and_latest_is_not_counted_twice(runs: Path) -> None:
    found = find_runs.rows(runs)
    assert [row.id for row in found] == [
        "20260102T000001-pause",
        "20260102T000000-kill",
        "20260101T000000-kill",
    ]
    assert [row.verdict for row in found] == ["not judged", "invalid", "valid"]
    assert found[1].anomalies == (("lost-write", 1234),)
    assert (found[2].workload, found[2].nemesis, found[2].acks, found[2].seconds) == (
        "queue",
        ("kill:leader",),
        "all",
        30.0,
    )


def test_a_folder_with_nothing_but_a_history_or_with_damaged_files_is_listed(runs: Path) -> None:
    (runs / "bare" / "history").mkdir(parents=True)
    broken = recorded(runs, "broken", [])
    (broken / "plan.yaml").write_bytes(b"\x00 [ : {")
    (broken / "results.json").write_text('{"valid": tr')
    (runs / "unrelated").mkdir()
    (runs / "file").write_text("")
    by_id = {row.id: row for row in find_runs.rows(runs)}
    assert by_id["bare"].verdict == "not judged"
    assert by_id["broken"].verdict == "unreadable"
    assert by_id["bare"].seconds is None
    assert "unrelated" not in by_id and "file" not in by_id
    assert re.search(r"^broken +unreadable +- +-", find_runs.table(find_runs.rows(runs)), re.MULTILINE)


def test_no_runs_at_all(tmp_path: Path) -> None:
    assert find_runs.rows(tmp_path / "nowhere") == []
    assert "harness run" in find_runs.table([])


def test_the_table_has_columns_and_a_limit(runs: Path) -> None:
    lines = find_runs.table(find_runs.rows(runs), 2).splitlines()
    assert lines[0].split() == list(find_runs.HEAD)
    assert lines[2].split("  ")[-1].strip() == "lost-write 1,234"
    assert lines[3].startswith("... and 1 older")
    assert {line.index("queue") for line in lines[1:3]} == {lines[0].index("workload")}


@pytest.mark.parametrize("name", ["20260101T000000-kill", "20260101", "{runs}/20260101T000000-kill"])
def test_an_id_a_prefix_and_a_path_name_a_run(runs: Path, name: str) -> None:
    assert find_runs.resolve(runs, name.format(runs=runs)) == runs / "20260101T000000-kill"


def test_latest_is_named_by_its_id(runs: Path) -> None:
    assert find_runs.resolve(runs, "latest") == runs / "20260102T000001-pause"
    assert find_runs.resolve(runs, f"{runs}/latest").name == "20260102T000001-pause"


def test_latest_without_its_link_is_the_newest(runs: Path) -> None:
    (runs / "latest").unlink()
    assert find_runs.resolve(runs, "latest").name == "20260102T000001-pause"
    (runs / "latest").symlink_to("removed")
    assert find_runs.resolve(runs, "latest").name == "20260102T000001-pause"


def test_an_ambiguous_prefix_lists_the_candidates(runs: Path) -> None:
    message = refused(runs, "20260102")
    assert "20260102T000000-kill, 20260102T000001-pause" in message


def test_what_is_no_run_is_refused_with_what_to_do(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert "harness list" in refused(runs, "1999")
    assert "neither plan.yaml nor history/" in refused(runs, str(tmp_path / "empty"))
    assert str(runs / "latest") in refused(tmp_path, str(runs))
    assert "a file" in refused(runs, str(tmp_path / "file"))
    assert "no such file or folder" in refused(runs, str(tmp_path / "nowhere"))
    for file in ("nosuch.edn", "nosuch.edn.gz", "nosuch.jsonl"):
        assert f"{file}: no such file; " in refused(runs, file) == refused(tmp_path / "none", file)
    assert "name of the run is empty" in refused(runs, " ")
    assert "no runs yet" in refused(tmp_path / "nowhere", "latest")
    assert "there are no runs" in refused(tmp_path / "nowhere", "2026")


def test_a_run_that_goes_on_has_no_result_yet(runs: Path) -> None:
    folder = runs / "20260102T000001-pause"
    with pytest.raises(BadInput, match="not judged yet"):
        find_runs.require_result(folder)
    (folder / find_runs.OWNER).write_text("1 2")
    with pytest.raises(BadInput, match="the run is in progress, or was interrupted; to watch it: harness serve"):
        find_runs.require_result(folder)


def test_a_result_is_read_back(runs: Path) -> None:
    assert find_runs.result_of(runs / "20260102T000000-kill") == BAD
    assert find_runs.result_of(runs / "20260102T000001-pause") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not a valid result"),
        ('{"valid": 7}', "not a valid result"),
        ('{"schema": 9}', "newer"),
    ],
)
def test_a_result_that_cannot_be_used_says_to_check_again(runs: Path, content: str, says: str) -> None:
    folder = runs / "20260102T000001-pause"
    (folder / "results.json").write_text(content)
    with pytest.raises(BadInput, match=says) as caught:
        find_runs.result_of(folder)
    assert f"harness check {folder}" in str(caught.value)
