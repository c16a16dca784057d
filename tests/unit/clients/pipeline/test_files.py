"""Mode `files`: what is written, referred to, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.clients.pipeline import files
from harness.clients.pipeline.config import PipelineConfig, parse_pipeline_config
from harness.pipeline_app.ports import Mark, Partition, Source
from harness.plan.make_plan import make
from harness.plan.resolve import workload_of
from harness.run.start_workers import client_config


class Inner:
    """The sink that takes the references."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, bytes, bytes]] = []

    def begin(self) -> None: ...
    def send_rows(self, rows: Sequence[tuple[str, int, bytes, bytes]]) -> None:
        self.rows += rows

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None: ...
    def commit(self) -> None: ...


def config(folder: Path, **options: Any) -> PipelineConfig:

    plan = make({"workload": "pipeline", "run": "r", **options}).model_copy(update={"run": "r"})
    logic_options = workload_of(plan).client_options
    return parse_pipeline_config(
        {**client_config(plan, "h:1"), "process": 8, "logic_options": logic_options, "folder": str(folder)}
    )


def test_a_flush_is_a_file_and_its_reference(tmp_path: Path) -> None:
    inner = Inner()
    sink = files.FilesSink(config(tmp_path, pipeline_mode="files"), inner)
    outputs = [(5, 1, 0), (7, 3, 0), (7, 3, 1)]
    sink.begin()
    sink.send(outputs, generation=4)
    sink.commit()
    (topic, _, _, value) = inner.rows[0]
    assert topic == "r-1"
    reference = orjson.loads(value)
    rows = files.rows_of(tmp_path, reference)
    assert [(row["id"], row["key"], row["n"]) for row in rows] == outputs
    assert {(row["instance"], row["incarnation"], row["generation"]) for row in rows} == {(2, 8, 4)}
    assert sink.report() == {"files": 1, "lost": []}


def test_the_self_check_says_what_a_file_has_lost(tmp_path: Path) -> None:
    sink = files.FilesSink(config(tmp_path, pipeline_mode="files"), Inner())
    sink.begin()
    sink.send([(5, 1, 0), (7, 3, 0)], generation=None)
    path = next((tmp_path / "pipeline" / "files").iterdir())
    files.write(path, [(5, 1, 0)], {"instance": 2, "incarnation": 8, "generation": None})
    sink.commit()
    assert sink.report()["lost"] == [{"stage": "file", "file": path.name, "count": 1, "ids": [7]}]
    path.unlink()
    assert files.rows_of(tmp_path, {"file": path.name}) == []


def test_a_reference_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "pipeline" / "files").mkdir(parents=True)
    files.write(tmp_path / "outside.parquet", [(1, 1, 0)], {})
    assert files.rows_of(tmp_path, {"file": "../../outside.parquet"}) == []
