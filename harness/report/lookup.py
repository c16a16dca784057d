"""Facts about single ops and records of a run, from its tables: who sent a value, who read it, and when.

Each question reads the columns it needs of one bucket, and no more; nothing is held but the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from harness.report import spans

# Keys and values that are not plain integers stand in the tables as codes from here upwards, in the order of
# tables/_dictionary.json (see docs/history.md).
CODE_BASE: Final = 1 << 61
MANY: Final = 64


@dataclass(frozen=True, slots=True)
class OpFact:
    """One op. `id` is the index of its completion, or of its invocation when it never completed."""

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
        """When it completed, or else began."""
        return self.invoke_ns if self.complete_ns is None else self.complete_ns


@dataclass(frozen=True, slots=True)
class Record:
    """One send or polled record. `offset` None: not known."""

    op: int
    value: int
    offset: int | None


class Lookup:
    """Answers from the tables of one run folder. An unknown op or record has no answer; nothing raises."""

    def __init__(self, tables: Path) -> None:
        self._tables = tables
        self.op = lru_cache(maxsize=4096)(self._op)
        self._records = lru_cache(maxsize=256)(self._read_records)

    @cached_property
    def spans(self) -> list[spans.Span]:
        """The faults of the run."""
        return spans.of_run(self._tables.parent)

    def open(self) -> None:
        """Look whether the tables are there and whole. Raises OSError, ValueError, KeyError."""
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
        row = rows[0]
        return OpFact(id_, *(row[name] for name in OpFact.__slots__[1:]))

    @cached_property
    def _buckets(self) -> int:
        return int(orjson.loads((self._tables / "_schema.json").read_bytes())["buckets"])

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
        """Who sent a value."""
        return self._found("sends", key, "value", value)

    def polls(self, key: Any, value: Any) -> tuple[Record, ...]:
        """Who polled a value: the first MANY of them, in the order of the history."""
        return self._found("polls", key, "value", value)

    def polls_by(self, key: Any, op: int) -> tuple[Record, ...]:
        """What an op polled of a key: the first MANY of it."""
        return self._found("polls", key, "op", op)


def of_run(run: Path) -> Lookup | None:
    """The lookup of a run folder, or None where there are no tables, or damaged ones."""
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
