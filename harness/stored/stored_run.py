"""A stored run in Python: `harness.load("latest")`.

    run = harness.load("latest")
    run.ops                      Arrow: a row per operation, see checker.tables.schema.OPS
    run.pandas()                 the same as a pandas DataFrame; run.pandas("polls"): another table
    run.polars("sends")          polars, where it is installed
    run.spark(session, "polls")  a DataFrame of Spark, read where its executors are
    run.results, run.plan        the verdict with its witnesses; every option of the run

Tables: ops, sends, polls, nemesis, assigns, ends and the others of checker.tables.schema. Of keys and values that
are not plain integers the tables hold codes; here they are what the history has, as JSON text.
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
CODED: Final = ("key", "value")  # of every table; the value of `nemesis` is JSON text as it stands


@dataclass(frozen=True)
class Run:
    """One run folder. Nothing is read before it is asked for; tables are made where there are none."""

    path: Path

    @cached_property
    def results(self) -> Result:
        """The verdict. Raises BadInput when the run was not judged yet."""
        return find_runs.require_result(self.path)

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        """Every option of the run by its name in plan.yaml; empty for an imported history."""
        return find_runs.plan_of(self.path)

    @property
    def ops(self) -> pa.Table:
        """The operations."""
        return self.arrow("ops")

    def arrow(self, table: str = "ops") -> pa.Table:
        """A table of the run. Raises BadInput for a name that is none, BadHistory, Missing."""
        form = TABLES.get(table)
        if form is None:
            raise BadInput(f"no table {table!r}; one of {', '.join(TABLES)}")
        parts = [pq.read_table(file, schema=form) for file in self._files(table)]
        return self._decoded(table, pa.concat_tables(parts) if parts else form.empty_table())

    def pandas(self, table: str = "ops") -> Any:
        """A table as a pandas DataFrame."""
        return self.arrow(table).to_pandas()

    def polars(self, table: str = "ops") -> Any:
        """A table as a polars DataFrame. Raises Missing where polars is not installed."""
        try:
            import polars  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise Missing(
                "polars is not installed here, and the harness does not need it: pip install polars, "
                "or use run.pandas() or run.ops"
            ) from None
        return polars.from_arrow(self.arrow(table))

    def spark(self, session: Any, table: str = "ops") -> Any:
        """A table as a DataFrame of Spark, read by its tasks where nothing in it must be decoded."""
        files = [str(file) for file in self._files(table)] if table in TABLES and not self._texts else []
        return session.read.parquet(*files) if files else session.createDataFrame(self.arrow(table))

    # --- the tables -------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> Path:
        """Where the tables are: those of the run, made now where they are missing or of another history."""
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
        """Codes as what they stand for: the column is text then."""
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
    """The run that a name means, as on the command line: folder, id, unambiguous prefix, or latest.

    Raises BadInput.
    """
    return Run(require_run(find_runs.resolve(Path(runs), str(name))))
