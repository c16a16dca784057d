"""Raw ops -> columns: joins invocations with completions and takes micro-ops apart.

Rows of one op stand together, ops in the order of their completion; lists are extended record batch by record
batch, and op-level columns are repeated by numpy at the end, so the cost per polled record is small.
Raises BadHistory, naming the place, for what cannot be an op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from checker import schema
from checker.coding import BASE, EMPTY, Coder, text_of
from checker.held import Held
from checker.lines import Line
from checker.schema import MICRO, OK, TYPE_CODES
from harness.model.errors import BadHistory
from harness.model.op import INVOKE, NEMESIS, TYPES

LIMIT = 1 << 62  # beyond it, indices, times and offsets are damage


class _Broken(Exception):
    """A value that is not of the form of its op; the text says what is wrong."""


def _whole(value: Any) -> bool:
    return type(value) is int and -LIMIT < value < LIMIT


def _int(value: Any) -> int:
    if not _whole(value):
        raise ValueError(value)
    return int(value)


class Builder:
    """Takes lines in order; `finish` closes what is still open. `tables` gives and empties what there is."""

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.open: dict[Any, tuple[int, int, str, Any, Mapping[str, Any]]] = {}
        self.counts: dict[str, Counter[str]] = {}
        self.final_processes: dict[int, str] = {}
        self.last_ok_op, self.last_ok_ns = -1, -1
        self.lines, self.last_index, self.max_ns = 0, -1, 0
        self.held = Held()

    @property
    def rows(self) -> int:
        """A measure of what is held: ops and records."""
        return len(self.held.type_codes) + len(self.held.poll_value)

    # --- lines ----------------------------------------------------------------------------------------

    def add(self, line: Line) -> None:
        """Take one raw op."""
        data = line.data
        try:
            index, time_ns, process = data["index"], data["time_ns"], data["process"]
            kind, f, value = data["type"], data["f"], data.get("value")
        except KeyError as error:
            raise BadHistory(f"{line.where}: not an op (no field {error})") from None
        if type(index) is not int or not self.last_index < index < LIMIT:
            raise BadHistory(
                f"{line.where}: index {index!r} after {self.last_index}; indices ascend, one for each op"
            )
        if kind not in TYPES:
            raise BadHistory(f"{line.where}: unknown op type {kind!r}; one of {', '.join(TYPES)}")
        if type(time_ns) is not int or not -LIMIT < time_ns < LIMIT or not isinstance(f, str):
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
        if process.__class__ is not int or not -BASE < process < BASE:
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
        held = self.held
        row = len(held.type_codes)
        held.type_codes.append(code)
        error_text = None if error is None else error if isinstance(error, str) else text_of(error)
        cells = (op, invoke_index, process, kind, f, invoke_ns, complete_ns, error_text, final)
        for column, cell in zip(held.ops.values(), cells, strict=True):
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
                    if offset is not None and not _whole(offset):
                        raise _Broken(f"offset {offset!r} of a send is not a whole number")
                    for column, cell in zip(
                        self.held.sends.values(),
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
                for column, cell in zip(self.held.empties.values(), (row, mop, key), strict=True):
                    column.append(cell)
                continue
            offsets, values = zip(*pairs, strict=True)
            self.held.poll_offset.extend(offsets)
            self.held.poll_value.extend(values)
            for column, cell in zip(self.held.polls.values(), (row, mop, key, len(values)), strict=True):
                column.append(cell)

    def _assign(
        self, op: int, process: int, code: int, how: int, extra: Mapping[str, Any], value: Any
    ) -> None:
        seek = bool(extra.get("seek_to_beginning", False))
        if not isinstance(value, list):
            raise _Broken("the value of an assign or subscribe is a list of keys")
        keys = [self.coder.code(key) for key in value] or [EMPTY]
        self.held.small["assigns"].extend((op, process, code, how, seek, key) for key in keys)

    def _debug(self, op: int, process: int, final: bool, value: Any) -> None:
        if not isinstance(value, list):
            return
        for entry in value:
            if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], dict):
                start, end = entry[1].get("start"), entry[1].get("end")
                if _whole(start) and _whole(end):
                    self.held.small["ends"].append(
                        (op, process, final, self.coder.code(entry[0]), -1, start, end)
                    )

    def _deletion(self, op: int, code: int, value: Any) -> None:
        try:
            rows = [(op, code, self.coder.code(key), _int(before)) for key, before in value or ()]
        except (TypeError, ValueError):
            raise _Broken("the value of delete-records is a list of [key, offset]") from None
        self.held.small["deletions"].extend(rows)

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
                    self.held.small["rebalances"].extend(
                        (op, process, name, self.coder.code(key)) for key in keys
                    )
        if kind == "ok" and "ends" in extra:
            try:
                positions = {
                    self.coder.code(key): -1 if position is None else _int(position)
                    for key, position in extra.get("positions") or ()
                }
                self.held.small["ends"].extend(
                    (op, process, final, code, positions.get(code, -1), _int(start), _int(end))
                    for code, start, end in (
                        (self.coder.code(key), start, end) for key, start, end in extra["ends"]
                    )
                )
            except (TypeError, ValueError):
                raise _Broken("`positions` is a list of [key, offset], `ends` of [key, start, end]") from None

    def _nemesis(self, index: int, time_ns: int, f: str, value: Any, extra: Mapping[str, Any]) -> None:
        cells = (text_of(value), *(str(extra.get(name, "") or "") for name in ("fault", "span", "phase")))
        self.held.small["nemesis"].append((index, time_ns, f, *cells))

    def tables(self) -> dict[str, pa.Table]:
        """ops, sends, polls and the small tables of what was taken since the last call."""
        held, self.held = self.held, Held()
        return held.tables(self.coder)
