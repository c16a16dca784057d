"""The sink of mode `files`: writes outputs to Parquet files, and references to the files to the output topic.

A file contains the outputs of one flush. The flush's transaction sends a reference to the file. After the commit, the
sink reads the file back and compares it with the outputs. So a record that is lost in a file can be distinguished from
a record that never reached the sink. `report` returns how many files were checked, and which records are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from harness.clients.pipeline.config import PipelineConfig
from harness.pipeline_app.ports import Mark, Output, Partition, Source

FOLDER: Final = "files"
SHOWN: Final = 10


def _path(folder: Path, name: str) -> Path:
    return folder / "pipeline" / FOLDER / Path(name).name


def write(path: Path, outputs: Sequence[Output], who: Mapping[str, Any]) -> None:
    """Writes outputs to a file atomically: readers see either the whole file or no file.

    `who`: columns that have the same value in every row, such as the instance.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = len(outputs)
    columns = {
        "id": pa.array([id for id, _, _ in outputs], pa.int64()),
        "key": pa.array([key for _, key, _ in outputs], pa.int64()),
        "n": pa.array([n for _, _, n in outputs], pa.int64()),
        **{name: pa.array([value] * count, pa.int64()) for name, value in who.items()},
    }
    part = path.with_suffix(".part")
    pq.write_table(pa.table(columns), part)
    part.replace(path)


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file. Returns [] if the file does not exist or is not a valid Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid):
        return []
    return rows


def rows_of(folder: Path, reference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of the file to which a reference points."""
    return read(_path(folder, str(reference["file"])))


class FilesSink:
    """`pipeline_app.ports.Sink` that writes files, and sends references to the files to another sink."""

    def __init__(self, pipeline: PipelineConfig, inner: Any) -> None:
        self._pipeline, self._inner = pipeline, inner
        self._folder = pipeline.folder
        (self._folder / "pipeline" / FOLDER).mkdir(parents=True, exist_ok=True)
        self._number = 0
        self._flushed: list[Output] = []
        self._name = ""
        self._checked, self._lost = 0, list[dict[str, Any]]()

    def begin(self) -> None:
        self._flushed, self._name = [], ""
        self._inner.begin()

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        if not outputs:
            return
        process = self._pipeline.settings.process
        self._number += 1
        self._flushed, self._name = list(outputs), f"{process}-{self._number}.parquet"
        who = {"instance": self._pipeline.slot, "incarnation": process, "generation": generation}
        write(_path(self._folder, self._name), outputs, who)
        report = orjson.dumps({"file": self._name, "count": len(outputs), **who})
        # All references go to one partition, so that their offsets have the order of the flushes.
        self._inner.send_rows([(self._pipeline.output_topic, 0, self._name.encode(), report)])

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        self._inner.offsets(marks, source)

    def commit(self) -> None:
        self._inner.commit()
        if self._name:
            self._check()

    def _check(self) -> None:
        """Reads back the file of the last flush, and stores which outputs are missing from it."""
        found = {(row["id"], row["n"]) for row in read(_path(self._folder, self._name))}
        lost = [id for id, _, n in self._flushed if (id, n) not in found]
        self._checked += 1
        if lost:
            loss = {"stage": "file", "file": self._name, "count": len(lost), "ids": lost[:SHOWN]}
            self._lost = [*self._lost, loss][-SHOWN:]

    def report(self) -> dict[str, Any]:
        """Returns {"files": number of files checked, "lost": missing outputs}, both since the last report."""
        notes = {"files": self._checked, "lost": self._lost}
        self._checked, self._lost = 0, []
        return notes

    def abort(self) -> None:
        self._inner.abort()

    def reopen(self) -> None:
        self._inner.reopen()

    def close(self) -> None:
        self._inner.close()
