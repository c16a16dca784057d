"""`--spark-master auto`: small histories are checked in this process, large ones on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checker.check import check_plain
from checker.tables import make_tables
from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadInput
from harness.run import choose_spark, spark
from harness.run.choose_spark import Work, decide, settled, work_of
from tests.bench import histories
from tests.bench.histories import Shape

OPTIONS = CheckOptions()


def written(folder: Path, ops: int = 300) -> Path:
    """A run folder with a generated history."""
    histories.write_log(histories.make(Shape(ops, 5)), folder)
    return folder


def huge(folder: Path) -> Path:
    """A run folder with the size of a history of 10 million operations, and no content."""
    (folder / "history").mkdir(parents=True)
    with (folder / "history" / "00000.jsonl").open("wb") as stream:
        stream.truncate(2_000_000_000)
    return folder


def test_the_start_of_a_session_must_be_regained() -> None:
    assert not decide(Work(shared_s=19), cores=2)
    assert decide(Work(shared_s=21), cores=2)
    assert decide(Work(shared_s=14), cores=8)


def test_spark_gains_nothing_on_one_core_or_for_work_that_it_cannot_distribute() -> None:
    assert not decide(Work(shared_s=1e6), cores=1)
    assert not decide(Work(single_s=1e6, shared_s=15), cores=2)


def test_the_size_of_a_history_without_tables_is_estimated(tmp_path: Path) -> None:
    work = work_of(huge(tmp_path / "run"))
    assert (work.bytes, work.ops, work.single_s) == (2_000_000_000, 10_000_000, 0.0)
    alone = work_of(tmp_path / "run" / "history" / "00000.jsonl")
    assert alone.ops == work.ops and alone.single_s > 0
    assert alone.single_s + alone.shared_s == pytest.approx(work.shared_s)


def test_tables_of_the_same_history_save_its_conversion(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    before = work_of(run)
    ops = check_plain(run, OPTIONS).statistics["ops"]
    work = work_of(run)
    assert work.ops == ops and work.bytes == before.bytes
    assert work.shared_s == ops * choose_spark.JUDGE_S_PER_OP < before.shared_s
    with (run / "history" / "00000.jsonl").open("ab") as stream:
        stream.write(b" \n")
    assert work_of(run).shared_s > before.shared_s  # the tables are outdated


@pytest.mark.parametrize("meta", [b"{", b"[]", b'{"schema": 99}'])
def test_damaged_tables_do_not_stop_the_decision(tmp_path: Path, meta: bytes) -> None:
    run = written(tmp_path / "run")
    (run / "tables").mkdir()
    (run / "tables" / make_tables.META).write_bytes(meta)
    assert settled("auto", [(run, OPTIONS)])[0] == "none"


def test_auto_chooses_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    small, large = written(tmp_path / "small"), huge(tmp_path / "large")
    master, why = settled("auto", [(small, OPTIONS)])
    assert master == "none" and "in this process" in why and "operations" in why
    master, why = settled("auto", [(small, OPTIONS), (large, OPTIONS)])
    assert master == "local[*]" and "on Spark" in why
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert settled("auto", [(large, OPTIONS)])[0] == "none"


def test_checks_of_pipelines_need_spark(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    master, why = settled("auto", [(run, CheckOptions(checks=("queue", "pipeline")))])
    assert (master, why) == ("local[*]", "checking on Spark: the check pipeline needs it")
    # Without a run folder the answer is `unknown` with Spark too.
    file = run / "history" / "00000.jsonl"
    assert settled("auto", [(file, CheckOptions(checks=("pipeline",)))])[0] == "none"


@pytest.mark.parametrize("master", ["none", "local[2]", "spark://host:7077", "nonsense"])
def test_other_masters_are_kept_without_a_word(tmp_path: Path, master: str) -> None:
    assert settled(master, [(tmp_path, OPTIONS)]) == (master, "")


def test_only_a_chosen_session_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, Any]] = []
    monkeypatch.setattr(spark, "session_now", lambda master, size, paths: started.append((master, size)))
    choose_spark.session_for("auto", [(huge(tmp_path / "run"), CheckOptions(checks=("pipeline",)))])
    assert started == [("local[*]", 2_000_000_000)]


def test_a_run_with_auto_starts_no_session_beside_the_cluster() -> None:
    session = spark.WarmSpark("auto")
    session.start()
    assert session.get() is None


def test_commands_that_need_spark_accept_auto() -> None:
    spark.require("auto", "harness offsets")
    with pytest.raises(BadInput):
        spark.require("none", "harness offsets")


def test_segments_hold_what_the_estimate_expects(tmp_path: Path) -> None:
    work = work_of(written(tmp_path / "run", 2_000))
    lines = (tmp_path / "run" / "history" / "00000.jsonl").read_bytes().splitlines()
    ops = sum(orjson.loads(line).get("type") == "invoke" for line in lines)
    assert ops / 2 < work.ops < ops * 2
