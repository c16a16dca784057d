"""Foreign histories: check many at once, import, export, and check exported ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.distribution import java
from harness.model.errors_and_exit_codes import HarnessError
from tests.conftest import absent
from tests.e2e.harness_command import harness
from tests.unit.checker import jepsen

OWN = ("schema", "promised", "reasons", "anomalies", "statistics", "checker_version")


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        java.find()
    except HarnessError as error:
        absent(str(error))


def _bag(errors: Any) -> Any:
    return Counter(json.dumps(error, sort_keys=True) for error in errors)


TYPES = ("error_types", "bad_error_types")


def _agrees(line: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Differences of a line from Jepsen's result: types, and each witness."""
    if "jepsen_crashes_with" in row:
        return []
    types = {name: [kind for kind in row[name] if kind != jepsen.EMPTY_GRAPH] for name in TYPES}
    wrong = [name for name, expected in types.items() if line[name] != expected]
    if line["valid"] is not (not types["bad_error_types"]):
        wrong.append("valid")
    for name, theirs in row["errors"].items():
        ours = line["errors"].get(name)
        if ours is None:
            continue
        if name == "unseen":
            messages = {key: sorted(values) for key, values in theirs["messages"].items()}
            same = ours == {**theirs, "messages": messages}
        else:
            same = ours["count"] == theirs["count"] and _bag(ours["errs"]) == _bag(theirs["errs"])
        if not same:
            wrong.append(name)
    return wrong


@pytest.mark.spark
def test_all_of_jepsens_histories_in_one_command() -> None:
    rows = {row["history"]: row for row in jepsen.rows() if row["ww_deps"] and row["sub_via"] == "subscribe"}
    paths = [str(jepsen.FOLDER / f"{name}.edn.gz") for name in rows]
    done = harness(
        "check", *paths, "--jepsen-compatible", "--sub-via", "subscribe", "--json",
        "--spark-master", "local[2]",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["history"] for line in lines] == list(rows)
    assert {tuple(line) for line in lines} == {("history", "valid", "error_types", "bad_error_types", "errors", *OWN)}
    wrong = {line["history"]: found for line in lines if (found := _agrees(line, rows[line["history"]]))}
    assert wrong == {}


@pytest.mark.long
@pytest.mark.spark
def test_import_export_and_check_of_every_form(tmp_path: Path) -> None:
    edn = jepsen.FOLDER / "c125.subscribe.edn.gz"
    runs = ("--runs", str(tmp_path / "runs"))
    made = harness("import", str(edn), *runs)
    assert (made.returncode, made.stderr) == (0, "")
    run = (tmp_path / "runs" / "latest").resolve()
    assert f"next: harness check {tmp_path / 'runs' / run.name}" in made.stdout
    outs = [str(tmp_path / name) for name in ("h.edn.gz", "h.jsonl", "tables")]
    for out, form in zip(outs, ("edn", "jsonl", "parquet"), strict=True):
        done = harness("export", "latest", "--format", form, "--out", out, *runs)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        again = harness("export", "latest", "--format", form, "--out", out, *runs)
        assert again.returncode == 254
        assert f"{out}: exists already" in again.stderr
    done = harness("check", str(edn), run.name, *outs, "--json", *runs, "--spark-master", "local[2]")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.pop("history") for line in lines] == ["c125.subscribe", run.name, "h", "h.jsonl", "tables"]
    assert [line for line in lines if line != lines[0]] == []
    assert done.returncode == {True: 0, False: 1, "unknown": 2}[lines[0]["valid"]]
    assert (run / "results.json").is_file()
    shown = harness("show", "latest", *runs)
    assert (shown.returncode, run.name in harness("list", *runs).stdout) == (0, True)


@pytest.mark.long
def test_what_cannot_be_imported_or_exported(tmp_path: Path) -> None:
    runs = ("--runs", str(tmp_path / "runs"))
    (tmp_path / "bad.edn").write_text("{:index 0, :time 1, :type :invoke\n  :process 0\n")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "_schema.json").write_text("{}")
    for arguments, code, says in (
        (("import", "bad.edn"), 2, "bad.edn, line 1, column 34: not EDN (the text ends too early)"),
        (("import", "nothing.edn"), 254, "nothing.edn: no such file"),
        (("export", "nothing"), 254, "nothing: there are no runs"),
        (("export", "bad.edn", "--format", "xml"), 254, "--format xml: no such format; use one of edn, jsonl, parquet"),
        (("export", "bad.edn", "--out", "gone/h.edn"), 254, "gone: no such folder"),
        (("export", "bad.edn", "--out", "h.edn"), 2, "line 1, column 34"),
        (("export", "tables"), 254, "tables: tables contain only part of a history"),
    ):
        named = [str(tmp_path / part) if part.endswith((".edn", "tables")) else part for part in arguments]
        done = harness(*named, *runs)
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []
    assert not (tmp_path / "h.edn").exists()
