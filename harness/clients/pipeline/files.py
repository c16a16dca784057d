"""Mode `files`: outputs go into Parquet files, and references to these, with the offsets, to the topic.

A file holds what one flush made; its reference is sent in the transaction of the flush. When that has been
committed the file is read again and compared with what the flush was given, so a record that is lost in here
is told from one that never came: `report` says how many files were checked, and what was missing where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from harness.clients.pipeline.config import Made
from harness.pipeline_app.ports import Mark, Output, Partition, Source

FOLDER: Final = "files"
SHOWN: Final = 10


def _path(folder: Path, name: str) -> Path:
    return folder / "pipeline" / FOLDER / Path(name).name


def write(path: Path, outputs: Sequence[Output], who: Mapping[str, Any]) -> None:
    """One file of outputs; a reader sees the whole of it or nothing."""
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
    """Its rows; none where there is no such file, or no whole one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid):
        return []
    return rows


def rows_of(folder: Path, reference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the file of a reference holds."""
    return read(_path(folder, str(reference["file"])))


class FilesSink:
    """`ports.Sink` over another, which takes the references."""

    def __init__(self, made: Made, inner: Any) -> None:
        self._made, self._inner = made, inner
        self._folder = made.folder
        (self._folder / "pipeline" / FOLDER).mkdir(parents=True, exist_ok=True)
        self._number = 0
        self._given: list[Output] = []
        self._name = ""
        self._checked, self._lost = 0, list[dict[str, Any]]()

    def begin(self) -> None:
        self._given, self._name = [], ""
        self._inner.begin()

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        if not outputs:
            return
        process = self._made.settings.process
        self._number += 1
        self._given, self._name = list(outputs), f"{process}-{self._number}.parquet"
        who = {"instance": self._made.slot, "incarnation": process, "generation": generation}
        write(_path(self._folder, self._name), outputs, who)
        report = orjson.dumps({"file": self._name, "count": len(outputs), **who})
        # All in one partition, so that their offsets have the order of the flushes.
        self._inner.send_rows([(self._made.output_topic, 0, self._name.encode(), report)])

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        self._inner.offsets(marks, source)

    def commit(self) -> None:
        self._inner.commit()
        if self._name:
            self._check()

    def _check(self) -> None:
        """Whether the file has what the flush was given."""
        found = {(row["id"], row["n"]) for row in read(_path(self._folder, self._name))}
        lost = [id for id, _, n in self._given if (id, n) not in found]
        self._checked += 1
        if lost:
            loss = {"stage": "file", "file": self._name, "count": len(lost), "ids": lost[:SHOWN]}
            self._lost = [*self._lost, loss][-SHOWN:]

    def report(self) -> dict[str, Any]:
        """{"files": checked since the last report, "lost": [...]}."""
        notes = {"files": self._checked, "lost": self._lost}
        self._checked, self._lost = 0, []
        return notes

    def abort(self) -> None:
        self._inner.abort()

    def reopen(self) -> None:
        self._inner.reopen()

    def close(self) -> None:
        self._inner.close()
