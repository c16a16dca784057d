"""Raw ops -> columns: joins invocations with completions and takes micro-ops apart.

Rows of one op stand together, ops in the order of their completion; lists are extended record batch by record
batch, and op-level columns are repeated by numpy at the end, so the cost per polled record is small.
Raises BadHistory, naming the place, for what cannot be an op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker import schema
from checker.coding import EMPTY, Coder, text_of
from checker.lines import Line
from checker.packing import Ints
from checker.schema import MICRO, OK, TYPE_CODES
from harness.model.errors import BadHistory
from harness.model.op import INVOKE, NEMESIS, TYPES

_OP_COLUMNS: Final = (
    "index",
    "invoke_index",
    "process",
    "type",
    "f",
    "invoke_ns",
    "complete_ns",
    "error",
    "final",
)


class _Broken(Exception):
    """A value that is not of the form of its op; the text says what is wrong."""


class Builder:
    """Takes lines in order; `finish` closes what is still open. `tables` gives and empties what there is."""

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.open: dict[Any, tuple[int, int, str, Any, Mapping[str, Any]]] = {}
        self.counts: dict[str, Counter[str]] = {}
        self.final_processes: dict[int, str] = {}
        self.last_ok_op, self.last_ok_ns = -1, -1
        self.lines, self.last_index, self.max_ns = 0, -1, 0
        self._clear()

    def _clear(self) -> None:
        self._ops: dict[str, list[Any]] = {name: [] for name in _OP_COLUMNS}
        self._type_codes: list[int] = []
        # Sends, one entry each; polls, one entry per (poll, key) and per record.
        self._s: dict[str, list[Any]] = {name: [] for name in ("row", "mop", "key", "value", "offset")}
        self._p: dict[str, list[Any]] = {name: [] for name in ("row", "mop", "key", "count")}
        self._p_offset: list[Any] = []
        self._p_value: list[Any] = []
        self._empties: dict[str, list[Any]] = {name: [] for name in ("row", "mop", "key")}
        self._small: dict[str, list[tuple[Any, ...]]] = {name: [] for name in schema.SMALL}

    @property
    def rows(self) -> int:
        """A measure of what is held: ops and records."""
        return len(self._type_codes) + len(self._p_value)

    # --- lines ----------------------------------------------------------------------------------------

    def add(self, line: Line) -> None:
        """Take one raw op."""
        data = line.data
        try:
            index, time_ns, process = data["index"], data["time_ns"], data["process"]
            kind, f, value = data["type"], data["f"], data.get("value")
        except KeyError as error:
            raise BadHistory(f"{line.where}: not an op (no field {error})") from None
        if type(index) is not int or index <= self.last_index:
            raise BadHistory(
                f"{line.where}: index {index!r} after {self.last_index}; indices ascend, one for each op"
            )
        if kind not in TYPES:
            raise BadHistory(f"{line.where}: unknown op type {kind!r}; one of {', '.join(TYPES)}")
        if type(time_ns) is not int or not isinstance(f, str):
            raise BadHistory(f"{line.where}: not an op (time {time_ns!r}, f {f!r})")
        self.last_index = index
        self.lines += 1
        extra = data.get("extra") or {}
        if not isinstance(extra, dict):
            raise BadHistory(f"{line.where}: `extra` is not a mapping")
        self.max_ns = max(self.max_ns, time_ns)
        if process == NEMESIS:
            self._nemesis(index, time_ns, f, value, extra)
            return
        if process.__class__ is not int:
            process = self.coder.code(process)
        try:
            if kind == INVOKE:
                if process in self.open:
                    raise _Broken(
                        f"process {process} invokes again while its op {self.open[process][0]} is open"
                    )
                self.open[process] = (index, time_ns, f, value, extra)
                return
            began = self.open.pop(process, None)
            if began is None:
                self._op(index, -1, process, kind, f, time_ns, time_ns, data.get("error"), extra, value)
            elif began[2] != f:
                raise _Broken(f"completes {f!r}, but process {process} had invoked {began[2]!r}")
            else:
                self._op(
                    index, began[0], process, kind, f, began[1], time_ns, data.get("error"), extra, value
                )
        except _Broken as error:
            raise BadHistory(f"{line.where}: {error}") from None

    def finish(self) -> None:
        """Every invocation that is still open counts as `info`."""
        for process, (index, time_ns, f, value, extra) in sorted(
            self.open.items(), key=lambda item: item[1][0]
        ):
            try:
                self._op(index, index, process, "info", f, time_ns, -1, None, extra, value)
            except _Broken as error:
                raise BadHistory(f"op {index}: {error}") from None
        self.open.clear()

    # --- one op ---------------------------------------------------------------------------------------

    def _op(
        self,
        op: int,
        invoke_index: int,
        process: int,
        kind: str,
        f: str,
        invoke_ns: int,
        complete_ns: int,
        error: Any,
        extra: Mapping[str, Any],
        value: Any,
    ) -> None:
        code = TYPE_CODES[kind]
        final = bool(extra.get("final", False)) if extra else False
        row = len(self._type_codes)
        self._type_codes.append(code)
        error_text = None if error is None else error if isinstance(error, str) else text_of(error)
        cells = (op, invoke_index, process, kind, f, invoke_ns, complete_ns, error_text, final)
        for column, cell in zip(self._ops.values(), cells, strict=True):
            column.append(cell)
        counter = self.counts.get(f)
        if counter is None:
            counter = self.counts[f] = Counter()
        counter[kind] += 1
        if f in MICRO:
            if code == OK:
                self.last_ok_op, self.last_ok_ns = op, complete_ns
            self._micro_ops(row, value)
        elif f in ("assign", "subscribe"):
            how = schema.ASSIGN if f == "assign" else schema.SUBSCRIBE
            self._assign(op, process, code, how, extra, value)
        elif f == "debug-topic-partitions" and code == OK:
            self._debug(op, process, final, value)
        elif f == "delete-records":
            self._deletion(op, code, value)
        if extra:
            self._extras(op, process, kind, f, final, extra)

    def _micro_ops(self, row: int, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, list):
            raise _Broken(
                f"the value of a send, poll or txn is a list of micro-ops, not {text_of(value)[:80]}"
            )
        for number, mop in enumerate(value):
            try:
                if mop[0] == "poll":
                    if len(mop) > 1 and mop[1] is not None:
                        self._poll(row, number, mop[1])
                elif mop[0] == "send":
                    _, key, sent = mop
                    offset = None
                    if isinstance(sent, list):
                        offset, sent = sent
                    if offset is not None and type(offset) is not int:
                        raise _Broken(f"offset {offset!r} of a send is not an integer")
                    for column, cell in zip(
                        self._s.values(),
                        (row, number, key, sent, -1 if offset is None else offset),
                        strict=True,
                    ):
                        column.append(cell)
                else:
                    raise _Broken(f"unknown micro-op {text_of(mop)[:80]}")
            except (TypeError, ValueError, IndexError, KeyError):
                raise _Broken(f"not a micro-op: {text_of(mop)[:120]}") from None

    def _poll(self, row: int, mop: int, polled: Any) -> None:
        for key, pairs in polled:
            if not pairs:
                for column, cell in zip(self._empties.values(), (row, mop, key), strict=True):
                    column.append(cell)
                continue
            offsets, values = zip(*pairs, strict=True)
            self._p_offset.extend(offsets)
            self._p_value.extend(values)
            for column, cell in zip(self._p.values(), (row, mop, key, len(values)), strict=True):
                column.append(cell)

    def _assign(
        self, op: int, process: int, code: int, how: int, extra: Mapping[str, Any], value: Any
    ) -> None:
        seek = bool(extra.get("seek_to_beginning", False))
        if not isinstance(value, list):
            raise _Broken("the value of an assign or subscribe is a list of keys")
        keys = [self.coder.code(key) for key in value] or [EMPTY]
        self._small["assigns"].extend((op, process, code, how, seek, key) for key in keys)

    def _debug(self, op: int, process: int, final: bool, value: Any) -> None:
        if not isinstance(value, list):
            return
        for entry in value:
            if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], dict):
                start, end = entry[1].get("start"), entry[1].get("end")
                if type(start) is int and type(end) is int:
                    self._small["ends"].append(
                        (op, process, final, self.coder.code(entry[0]), -1, start, end)
                    )

    def _deletion(self, op: int, code: int, value: Any) -> None:
        try:
            rows = [(op, code, self.coder.code(key), int(before)) for key, before in value or ()]
        except (TypeError, ValueError):
            raise _Broken("the value of delete-records is a list of [key, offset]") from None
        self._small["deletions"].extend(rows)

    def _extras(
        self, op: int, process: int, kind: str, f: str, final: bool, extra: Mapping[str, Any]
    ) -> None:
        if final and (f != "debug-topic-partitions" or kind == "info"):
            self.final_processes[process] = kind
        log = extra.get("rebalance_log") or extra.get("rebalance-log")
        if log:
            for event in log:
                if isinstance(event, dict):
                    name, keys = str(event.get("event", "")), event.get("keys") or ()
                    self._small["rebalances"].extend(
                        (op, process, name, self.coder.code(key)) for key in keys
                    )
        if kind == "ok" and "ends" in extra:
            try:
                positions = {self.coder.code(key): position for key, position in extra.get("positions") or ()}
                self._small["ends"].extend(
                    (op, process, final, code, positions.get(code, -1), start, end)
                    for code, start, end in (
                        (self.coder.code(key), start, end) for key, start, end in extra["ends"]
                    )
                )
            except (TypeError, ValueError):
                raise _Broken("`positions` is a list of [key, offset], `ends` of [key, start, end]") from None

    def _nemesis(self, index: int, time_ns: int, f: str, value: Any, extra: Mapping[str, Any]) -> None:
        cells = (text_of(value), *(str(extra.get(name, "") or "") for name in ("fault", "span", "phase")))
        self._small["nemesis"].append((index, time_ns, f, *cells))

    # --- tables ---------------------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        """ops, sends, polls and the small tables of what was taken since the last call."""
        ops = self._ops_table()
        result = {"ops": ops, "sends": self._sends_table(), "polls": self._polls_table()}
        for name, form in schema.SMALL.items():
            columns = list(zip(*self._small[name], strict=True)) or [()] * len(form)
            result[name] = pa.table(
                [pa.array(list(c), f.type) for c, f in zip(columns, form, strict=True)], schema=form
            )
        self._clear()
        return result

    def _ops_table(self) -> pa.Table:
        columns = dict(self._ops)
        complete = np.array(columns["complete_ns"], np.int64)
        arrays = [
            pa.array(complete, mask=complete < 0)
            if field.name == "complete_ns"
            else pa.array(columns[field.name], field.type)
            for field in schema.OPS
        ]
        return pa.table(arrays, schema=schema.OPS)

    def _op_level(self, rows: Ints) -> dict[str, Any]:
        ops = self._ops
        return {
            "op": np.array(ops["index"], np.int64)[rows],
            "process": np.array(ops["process"], np.int64)[rows],
            "type": np.array(self._type_codes, np.int8)[rows],
            "invoke_ns": np.array(ops["invoke_ns"], np.int64)[rows],
            "complete_ns": np.array(ops["complete_ns"], np.int64)[rows],
        }

    def _sends_table(self) -> pa.Table:
        sends = self._s
        rows = np.array(sends["row"], np.int64)
        is_txn = np.array([f == "txn" for f in self._ops["f"]], np.bool_)
        columns = {
            **self._op_level(rows),
            "key": self.coder.codes(sends["key"]),
            "value": self.coder.codes(sends["value"]),
            "offset": np.array(sends["offset"], np.int64),
            "mop": np.array(sends["mop"], np.int64),
            "txn": is_txn[rows],
        }
        return pa.table([pa.array(columns[field.name]) for field in schema.SENDS], schema=schema.SENDS)

    def _offsets(self) -> Ints:
        kinds = set(map(type, self._p_offset))
        if kinds <= {int}:
            return np.array(self._p_offset, np.int64)
        if kinds <= {int, type(None)}:
            return np.array([-1 if offset is None else offset for offset in self._p_offset], np.int64)
        raise BadHistory("a polled offset is not an integer; mend the history or the client that wrote it")

    def _polls_table(self) -> pa.Table:
        polls, empties = self._p, self._empties
        counts = np.array(polls["count"], np.int64)
        row = np.concatenate(
            [np.repeat(np.array(polls["row"], np.int64), counts), np.array(empties["row"], np.int64)]
        )
        mop = np.concatenate(
            [np.repeat(np.array(polls["mop"], np.int64), counts), np.array(empties["mop"], np.int64)]
        )
        key = np.concatenate(
            [np.repeat(self.coder.codes(polls["key"]), counts), self.coder.codes(empties["key"])]
        )
        hollow = len(empties["row"])
        value = np.concatenate([self.coder.codes(self._p_value), np.full(hollow, EMPTY, np.int64)])
        offset = np.concatenate([self._offsets(), np.full(hollow, -1, np.int64)])
        columns = {**self._op_level(row), "key": key, "value": value, "offset": offset, "mop": mop}
        if hollow:
            by = np.argsort(row, kind="stable")
            columns = {name: column[by] for name, column in columns.items()}
        return pa.table([pa.array(columns[field.name]) for field in schema.POLLS], schema=schema.POLLS)
