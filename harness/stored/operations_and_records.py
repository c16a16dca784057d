"""Looks up single operations and records in a run's tables: who sent a value, who read it, and when.

The tables of records are divided into buckets by key. A lookup reads only one bucket, and only the columns that it
needs. Nothing but results is kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from harness.stored import fault_spans

# In the tables, keys and values that are not plain integers are replaced by codes from CODE_BASE upwards, in the order
# of tables/_dictionary.json (see docs/reference/formats.md).
CODE_BASE: Final = 1 << 61
NO_VALUE: Final = -CODE_BASE  # the value of a poll that included the key but returned no record of it
MANY: Final = 64
TYPES: Final = ("ok", "info", "fail")
ROW: Final = ("op", "value", "offset", "process", "type", "invoke_ns", "complete_ns")


@dataclass(frozen=True, slots=True)
class OpFact:
    """What the tables say about one operation.

    id  the index of its completion, or of its invocation if it never completed
    """

    id: int
    invoke_index: int
    process: int
    type: str
    f: str
    invoke_ns: int
    complete_ns: int | None
    error: str | None

    @property
    def at_ns(self) -> int:
        """The time at which the operation completed; if it never completed, the time at which it was invoked."""
        return self.invoke_ns if self.complete_ns is None else self.complete_ns


@dataclass(frozen=True, slots=True)
class Record:
    """One sent or polled record.

    op      id of the operation
    offset  None if it is not known
    """

    op: int
    value: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One record that an operation sent or polled, with what the tables say about this operation.

    sent    True if the record was sent, False if it was polled
    op      id of the operation
    offset  None if it is not known
    """

    sent: bool
    op: int
    value: Any
    offset: int | None
    process: int
    type: str
    txn: bool
    invoke_ns: int
    complete_ns: int | None


class Facts(Protocol):
    """Looks up operations and records for descriptions of witnesses.

    There are two implementations. `Lookup` searches all tables of a run. `key_records.Records` searches only the
    records that were read for one page.
    """

    @property
    def spans(self) -> Sequence[fault_spans.Span]: ...

    def op(self, id_: int, /) -> OpFact | None: ...

    def sends(self, key: Any, value: Any, /) -> tuple[Record, ...]: ...

    def polls(self, key: Any, value: Any, /) -> tuple[Record, ...]: ...

    def polls_by(self, key: Any, op: int, /) -> tuple[Record, ...]: ...


class Lookup:
    """Looks up operations and records in the tables of one run folder.

    If something is not found or cannot be read, the result is None or empty. Only `open` raises exceptions.
    """

    def __init__(self, tables: Path) -> None:
        self._tables = tables
        self.op = lru_cache(maxsize=4096)(self._op)
        self._records = lru_cache(maxsize=256)(self._read_records)

    @cached_property
    def spans(self) -> list[fault_spans.Span]:
        """When each fault of the run was active."""
        return fault_spans.of_run(self._tables.parent)

    def open(self) -> None:
        """Checks that the tables exist and can be read. Raises OSError, ValueError, KeyError."""
        _ = self._ops.schema, self.spans, self._buckets, self._codes

    @cached_property
    def _ops(self) -> ds.Dataset:
        return ds.dataset(sorted(map(str, (self._tables / "ops").glob("*.parquet"))), format="parquet")

    @cached_property
    def _codes(self) -> dict[str, int]:
        path = self._tables / "_dictionary.json"
        texts = orjson.loads(path.read_bytes()) if path.is_file() else []
        return {text: CODE_BASE + n for n, text in enumerate(texts)}

    def _code(self, value: Any) -> int | None:
        if type(value) is int and -CODE_BASE < value < CODE_BASE:
            return value
        return self._codes.get(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())

    def _op(self, id_: int) -> OpFact | None:
        try:
            rows = self._ops.to_table(filter=pc.field("index") == id_).to_pylist()
        except (OSError, ValueError):  # damaged tables, as in `of_run`
            return None
        if not rows:
            return None
        return _fact(id_, rows[0])

    @cached_property
    def _meta(self) -> dict[str, Any]:
        meta = orjson.loads((self._tables / "_schema.json").read_bytes())
        return meta if isinstance(meta, dict) else {}

    @cached_property
    def _buckets(self) -> int:
        return int(self._meta["buckets"])

    @cached_property
    def end_ns(self) -> int:
        """The latest time in the history; 0 if it is not known."""
        last = self._meta.get("max_ns")
        return last if type(last) is int else 0

    def _bucket(self, kind: str, key: int) -> ds.Dataset | None:
        folder = self._tables / kind / f"{key % self._buckets:05d}"
        files = sorted(map(str, folder.glob("*.parquet")))
        return ds.dataset(files, format="parquet") if files else None

    def _read_records(self, kind: str, key: int, field: str, wanted: int) -> tuple[Record, ...]:
        match = (pc.field("key") == key) & (pc.field(field) == wanted)
        try:
            bucket = self._bucket(kind, key)
            if bucket is None:
                return ()
            found: pa.Table = bucket.head(MANY, columns=["op", "value", "offset"], filter=match)
        except (OSError, ValueError):  # damaged tables, as in `of_run`
            return ()
        return tuple(
            Record(op, value, offset if offset is not None and offset >= 0 else None)
            for op, value, offset in zip(*(column.to_pylist() for column in found.columns), strict=True)
        )

    def _found(self, kind: str, key: Any, field: str, wanted: Any) -> tuple[Record, ...]:
        key_code, code = self._code(key), self._code(wanted)
        if key_code is None or code is None:
            return ()
        return self._records(kind, key_code, field, code)

    def sends(self, key: Any, value: Any) -> tuple[Record, ...]:
        """Returns the first MANY sends of a value, in the order of the history."""
        return self._found("sends", key, "value", value)

    def polls(self, key: Any, value: Any) -> tuple[Record, ...]:
        """Returns the first MANY polls of a value, in the order of the history."""
        return self._found("polls", key, "value", value)

    def polls_by(self, key: Any, op: int) -> tuple[Record, ...]:
        """Returns the first MANY records of a key that an operation polled, in the order of the poll."""
        return self._found("polls", key, "op", op)

    def ops(self, ids: Iterable[int]) -> dict[int, OpFact]:
        """Returns id -> facts for many operations, in one pass over the table. Ids that are not found are left out."""
        wanted = sorted(set(ids))
        try:
            table = self._ops.to_table(filter=pc.field("index").isin(wanted)) if wanted else None
        except (OSError, ValueError):  # damaged tables, as in `of_run`
            return {}
        rows = table.to_pylist() if table is not None else []
        return {row["index"]: _fact(row["index"], row) for row in rows}

    def rows(
        self,
        kind: Literal["sends", "polls"],
        key: Any,
        limit: int,
        *,
        offsets: Sequence[tuple[int, int]] | None = None,
        values: Sequence[Any] | None = None,
        ops: Sequence[int] | None = None,
    ) -> list[Row]:
        """Returns the first `limit` sends or polls of a key that match all given filters, in the order of the history.

        offsets  ranges of offsets, inclusive
        values   values of the records
        ops      ids of the operations
        """
        code = self._code(key)
        if code is None:
            return []
        match = (pc.field("key") == code) & (pc.field("value") != NO_VALUE)
        if offsets is not None:
            inside = [(pc.field("offset") >= low) & (pc.field("offset") <= high) for low, high in offsets]
            match &= reduce(or_, inside, pc.scalar(False))
        if values is not None:
            codes = [found for value in values if (found := self._code(value)) is not None]
            match &= pc.field("value").isin(codes)
        if ops is not None:
            match &= pc.field("op").isin(list(ops))
        columns = [*ROW, "txn"] if kind == "sends" else list(ROW)
        try:
            bucket = self._bucket(kind, code)
            table = bucket.head(limit, columns=columns, filter=match) if bucket is not None else None
        except (OSError, ValueError):  # damaged tables, as in `of_run`
            return []
        return [self._row(kind == "sends", row) for row in (table.to_pylist() if table is not None else ())]

    def _row(self, sent: bool, row: dict[str, Any]) -> Row:
        offset, done = row["offset"], row["complete_ns"]
        return Row(
            sent,
            row["op"],
            self._original(row["value"]),
            offset if offset is not None and offset >= 0 else None,
            row["process"],
            TYPES[row["type"]],
            bool(row.get("txn")),
            row["invoke_ns"],
            done if done is not None and done >= 0 else None,
        )

    @cached_property
    def _originals(self) -> dict[int, Any]:
        return {code: orjson.loads(text) for text, code in self._codes.items()}

    def _original(self, code: int) -> Any:
        return self._originals.get(code, code) if code >= CODE_BASE else code


def _fact(id_: int, row: dict[str, Any]) -> OpFact:
    return OpFact(id_, *(row[name] for name in OpFact.__slots__[1:]))


def of_run(run: Path) -> Lookup | None:
    """Returns a lookup in the tables of a run folder; None if they are missing or damaged."""
    tables = run / "tables"
    whole = (tables / "_schema.json").is_file() and any((tables / "ops").glob("*.parquet"))
    if not whole:
        return None
    found = Lookup(tables)
    try:
        found.open()
    except (OSError, ValueError, KeyError):  # damaged: a summary without details is better than none
        return None
    return found
