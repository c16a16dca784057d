"""The Python API for stored runs: `harness.load("latest")`.

    run = harness.load("latest")
    run.ops                      an Arrow table with a row for each operation, see checker.tables.schema.OPS
    run.pandas()                 the same as a pandas DataFrame; run.pandas("polls"): another table
    run.polars("sends")          a polars DataFrame, if polars is installed
    run.spark(session, "polls")  a Spark DataFrame, which the executors read
    run.results                  the verdict with its witnesses
    run.plan                     every option of the run

The tables are ops, sends, polls, nemesis, assigns, ends and the others of checker.tables.schema. The stored tables
contain codes for keys and values that are not plain integers; this API returns the original values as JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from checker.tables import join_segments, make_tables, schema
from checker.tables.coding import BASE
from harness.history_writer import require_run
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.stored import find_runs

TABLES: Final[Mapping[str, pa.Schema]] = {"ops": schema.OPS, **schema.SPREAD, **schema.SMALL}
CODED: Final = ("key", "value")  # columns with codes in all tables except `nemesis`, whose values are JSON text


@dataclass(frozen=True)
class Run:
    """One run folder. Data is read when it is first used. If the tables are missing, they are then created."""

    path: Path

    @cached_property
    def results(self) -> Result:
        """The verdict, with the anomalies and their witnesses. Raises BadInput if the run was not judged yet."""
        return find_runs.require_result(self.path)

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        """All options of the run, named as in plan.yaml; empty for an imported history."""
        return find_runs.plan_of(self.path)

    @property
    def ops(self) -> pa.Table:
        """The table of operations."""
        return self.arrow("ops")

    def arrow(self, table: str = "ops") -> pa.Table:
        """Returns a table as an Arrow table.

        Raises BadInput if there is no such table. Missing tables are created; this may raise BadHistory or Missing.
        """
        form = TABLES.get(table)
        if form is None:
            raise BadInput(f"no table {table!r}; give one of {', '.join(TABLES)}")
        parts = [pq.read_table(file, schema=form) for file in self._files(table)]
        return self._decoded(table, pa.concat_tables(parts) if parts else form.empty_table())

    def pandas(self, table: str = "ops") -> Any:
        """Returns a table as a pandas DataFrame."""
        return self.arrow(table).to_pandas()

    def polars(self, table: str = "ops") -> Any:
        """Returns a table as a polars DataFrame. Raises Missing if polars is not installed."""
        try:
            import polars  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise Missing(
                "polars is an optional dependency and is not installed: pip install polars, "
                "or use run.pandas() or run.ops"
            ) from None
        return polars.from_arrow(self.arrow(table))

    def spark(self, session: Any, table: str = "ops") -> Any:
        """Returns a table as a Spark DataFrame.

        Usually, Spark's executors read the files of the table. If the run has keys or values that are not integers,
        this process reads the files instead, to replace the codes that they contain.
        """
        files = [str(file) for file in self._files(table)] if table in TABLES and not self._texts else []
        return session.read.parquet(*files) if files else session.createDataFrame(self.arrow(table))

    # --- the tables -------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> Path:
        """The folder of the run's tables. They are created if they are missing or do not match the history."""
        folder = require_run(self.path) / "tables"
        if make_tables.ready(self.path, folder, None) is None:
            join_segments.make(self.path, folder, None, lambda text: None, None)
        return folder

    def _files(self, table: str) -> list[Path]:
        if table in schema.SMALL:
            return [self._tables / f"{table}.parquet"]
        return sorted((self._tables / table).rglob("*.parquet"))

    @cached_property
    def _texts(self) -> list[str]:
        found: list[str] = orjson.loads((self._tables / make_tables.DICTIONARY).read_bytes())
        return found

    def _decoded(self, name: str, table: pa.Table) -> pa.Table:
        """Replaces codes in a table with the original values. Columns with codes become columns of text."""
        if not self._texts or name == "nemesis":
            return table
        for column in CODED:
            place = table.schema.get_field_index(column)
            if place < 0:
                continue
            codes = table.column(column).to_pylist()
            if any(code >= BASE for code in codes):
                texts = [self._text(code) for code in codes]
                table = table.set_column(place, column, pa.array(texts, pa.string()))
        return table

    def _text(self, code: int) -> str:
        place = code - BASE
        return self._texts[place] if 0 <= place < len(self._texts) else str(code)


def load(name: str | Path = "latest", runs: str | Path = "runs") -> Run:
    """Returns a run. It is named as on the command line: by a folder, an id, the beginning of an id, or `latest`.

    Raises BadInput if there is no such run.
    """
    return Run(require_run(find_runs.resolve(Path(runs), str(name))))
