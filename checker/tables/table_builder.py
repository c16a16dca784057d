"""Converts raw ops to rows: joins invocations with their completions and splits micro-ops.

The rows of an op are adjacent, and ops are in the order of completion. The cost per polled record is small: all records
of a poll are added to the lists at once, and numpy repeats the fields of the op for them at the end. Anything
that is not a valid op raises BadHistory with file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from checker.tables import plain_lines, row_buffers, schema
from checker.tables.coding import BASE, EMPTY, Coder, text_of
from checker.tables.packing import Ints
from checker.tables.plain_lines import Lines, Rows, Stretch
from checker.tables.read_history import Line
from checker.tables.row_buffers import RowBuffers
from checker.tables.schema import INFO, MICRO, OK, SHARE_FS, TIME_GOES_BACK, TYPE_CODES
from checker.tables.share_rows import ShareOp
from checker.tables.small_rows import LIMIT, Broken, SmallRows, short, shown_error, whole
from harness.model.errors_and_exit_codes import BadHistory
from harness.model.op import INVOKE, NEMESIS, TYPES

_TYPE_NAMES = tuple(TYPE_CODES)
NO_TIME = -1  # the time of an op in a history without times
OF_CLIENTS = MICRO | {"assign", "subscribe", "debug-topic-partitions", *SHARE_FS}  # ops (by f) that only clients have


class Builder:
    """Converts the lines of a history to the rows of its tables.

    The lines are added in order, with `add`. After the last line, `finish` completes the open invocations. `tables`
    returns the rows that have not been returned so far.
    """

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.open: dict[Any, tuple[int, int, str, Any, Mapping[str, Any]]] = {}
        self.counts: dict[str, Counter[str]] = {}
        self.final_processes: dict[int, str] = {}
        self.last_ok_op, self.last_ok_ns = -1, -1
        self.lines, self.last_index, self.last_ns, self.max_ns = 0, -1, -LIMIT, 0
        self.retired: dict[int, int] = {}
        self.doubts: dict[str, str] = {}
        self.missing: tuple[int, int] | None = None  # the indices before the first gap and after the last one
        self.gap_ns = 0  # no missing line is earlier than this
        self.buffers = RowBuffers()
        self._parts: list[row_buffers.Part] = []  # before `buffers`
        self._size = 0

    @property
    def rows(self) -> int:
        """The number of ops and polled records since the last call of `tables`, to estimate the memory in use."""
        return self._size + row_buffers.size(self.buffers)

    @property
    def _small(self) -> SmallRows:
        return SmallRows(self.buffers.small, self.coder)

    # --- lines ----------------------------------------------------------------------------------------

    def add(self, line: Line) -> None:
        """Adds one line. Raises BadHistory."""
        data = line[0]
        try:
            index, time_ns, process = data["index"], data["time_ns"], data["process"]
            kind, f, value = data["type"], data["f"], data.get("value")
        except KeyError as error:
            raise BadHistory(f"{line.where}: not an op (no field {error})") from None
        if type(index) is not int or not self.last_index < index < LIMIT:
            raise BadHistory(f"{line.where}: index {short(index)} after {self.last_index}; indices must increase")
        if kind not in TYPES:
            raise BadHistory(f"{line.where}: unknown op type {short(kind)}; must be one of {', '.join(TYPES)}")
        if type(time_ns) is not int or not -LIMIT < time_ns < LIMIT:
            raise BadHistory(f"{line.where}: not an op (time {short(time_ns)} is not a valid number of nanoseconds)")
        if not isinstance(f, str):
            raise BadHistory(f"{line.where}: not an op (f {short(f)} is not a string)")
        if index != self.last_index + 1:
            self._doubt("index", f"{line.where}: index {index} after {self.last_index}, so ops are missing")
            if self.missing is None:
                self.gap_ns = max(self.last_ns, 0)
            self.missing = (self.last_index if self.missing is None else self.missing[0], index)
        if time_ns < self.last_ns and time_ns != NO_TIME:
            self._doubt("time", f"{line.where}: {TIME_GOES_BACK}, from {self.last_ns} to {time_ns}")
        self.last_index, self.last_ns = index, time_ns
        self.lines += 1
        extra = data.get("extra") or {}
        if not isinstance(extra, dict):
            raise BadHistory(f"{line.where}: `extra` is not a mapping")
        if time_ns > self.max_ns:
            self.max_ns = time_ns
        if process == NEMESIS:
            if f in OF_CLIENTS:
                raise BadHistory(
                    f"{line.where}: the process {NEMESIS!r} has an op {short(f)}, which only clients have; use a "
                    "number or another name for the client's process"
                )
            self._small.nemesis(index, time_ns, f, value, extra)
            return
        if process.__class__ is not int or not -BASE < process < BASE:
            process = self.coder.code(process)
        try:
            if kind == INVOKE:
                if process in self.open:
                    op = self.open[process][0]
                    if not self._missing_since(op):
                        raise Broken(f"process {short(data['process'])} invokes again while its op {op} is open")
                    self._never_completed(process)
                self.open[process] = (index, time_ns, f, value, extra)
                return
            began = self.open.pop(process, None)
            if began is not None and began[2] != f and self._missing_since(began[0]):
                self.open[process] = began
                self._never_completed(process)
                began = None
            if began is None:
                since, since_ns = self._lost_invocation(process, data["process"], kind, time_ns)
                self._op(index, since, process, kind, f, since_ns, time_ns, data.get("error"), extra, value)
            elif began[2] != f:
                who = short(data["process"])
                raise Broken(f"process {who} completes {short(f)}, but had invoked {short(began[2])}")
            else:
                if f in SHARE_FS:  # a completion may leave out what its invocation has
                    extra, value = {**began[4], **extra}, began[3] if value is None else value
                self._op(index, began[0], process, kind, f, began[1], time_ns, data.get("error"), extra, value)
        except Broken as error:
            raise BadHistory(f"{line.where}: {error}") from None

    def _doubt(self, kind: str, text: str) -> None:
        """Records a defect of the history that still allows a verdict. Of each kind, only the first defect is kept."""
        self.doubts.setdefault(kind, text)

    def _missing_since(self, op: int) -> bool:
        """Returns whether lines are missing after the line with the index `op`."""
        return self.missing is not None and self.missing[1] > op

    def _lost_invocation(self, code: int, process: Any, kind: str, time_ns: int) -> tuple[int, int]:
        """Returns (index, time) of the earliest possible invocation of an op without an invocation in the history.

        A process that is not a client may write an `info` line without an invocation; the index is then -1. In all
        other cases the invocation must be in a gap of missing lines. Raises Broken if there is no such gap.
        """
        if kind == "info" and type(process) is not int:
            return -1, time_ns
        if self.missing is not None and self._missing_since(self.retired.get(code, -1)):
            return self.missing[0] + 1, min(self.gap_ns, time_ns)
        if code in self.retired:
            raise Broken(
                f"process {short(process)} completes an op after its op {self.retired[code]} was info, which must be "
                "the last op of a process"
            )
        raise Broken(f"process {short(process)} completes an op as {kind} without an invocation")

    def reopen(self, data: Mapping[str, Any]) -> None:
        """Adds an invocation from an earlier piece of the log that was not completed in that piece."""
        process = data["process"]
        if process.__class__ is not int or not -BASE < process < BASE:
            process = self.coder.code(process)
        extra = data.get("extra") or {}
        self.open[process] = (data["index"], data["time_ns"], data["f"], data.get("value"), extra)

    def finish(self) -> None:
        """Completes with `info` every invocation that is still open. Raises BadHistory."""
        for process, (index, *_) in sorted(self.open.items(), key=lambda item: item[1][0]):
            try:
                self._never_completed(process)
            except Broken as error:
                raise BadHistory(f"op {index}: {error}") from None

    def _never_completed(self, process: Any) -> None:
        """Completes the open op of a process with `info`, because its outcome is unknown."""
        index, time_ns, f, value, extra = self.open.pop(process)
        self._op(index, index, process, "info", f, time_ns, -1, None, extra, value)

    # --- many lines of the usual form ---------------------------------------------------------------------

    def take(self, lines: Line | Stretch) -> int:
        """Takes one raw op or a stretch. Returns the number of lines."""
        if isinstance(lines, Stretch):
            return self.add_stretch(lines)
        self.add(lines)
        return 1

    def add_stretch(self, stretch: Stretch) -> int:
        """Takes the ops of a stretch; does the same as `add` for each of its lines. Returns the number of lines."""
        lines = plain_lines.parse(stretch.text, stretch.form)
        if lines is not None and self._add_lines(lines, stretch):
            return len(lines.index)
        texts = stretch.text.split(b"\n")[:-1]
        for number, text in enumerate(texts, stretch.number):
            self.add(Line(stretch.decode(text, f"{stretch.file}, line {number}"), number, stretch.file))
        return len(texts)

    def _add_lines(self, lines: Lines, stretch: Stretch) -> bool:
        """Takes the lines if each is as expected after the lines before it; otherwise changes nothing."""
        index, time_ns, kind, f = lines.index, lines.time_ns, lines.kind, lines.f
        if index[0] != self.last_index + 1 or time_ns[0] < self.last_ns:
            return False
        if bool((np.diff(index) != 1).any()) or bool((np.diff(time_ns) < 0).any()):
            return False
        by = np.argsort(lines.process, kind="stable")  # the lines of a process are neighbours
        process, invokes, fs = lines.process[by], kind[by] == plain_lines.INVOKE, f[by]
        same = process[1:] == process[:-1]
        if bool((same & (invokes[1:] == invokes[:-1])).any()):
            return False  # invocations and completions must alternate
        if bool((same & ~invokes[1:] & (fs[1:] != fs[:-1])).any()):
            return False
        firsts = np.flatnonzero(np.concatenate([[True], ~same]))
        began_before: dict[int, tuple[int, int]] = {}
        for place, code in zip(by[firsts].tolist(), process[firsts].tolist(), strict=True):
            began = self.open.get(code)
            if (began is None) != bool(kind[place] == plain_lines.INVOKE):
                return False
            if began is not None:
                if began[2] != plain_lines.FS[f[place]]:
                    return False
                began_before[place] = (began[0], began[1])
        invoke_index, invoke_ns = np.full(len(index), -1), np.full(len(index), -1)
        invoke_index[by[1:]], invoke_ns[by[1:]] = index[by[:-1]], time_ns[by[:-1]]
        for place, (began_index, began_ns) in began_before.items():
            invoke_index[place], invoke_ns[place] = began_index, began_ns
            del self.open[int(lines.process[place])]
        done = np.flatnonzero(kind != plain_lines.INVOKE)
        rows = plain_lines.rows_of(lines, done, invoke_index, invoke_ns)
        self._parts += [self.buffers, rows]
        self._size += row_buffers.size(self.buffers) + row_buffers.size(rows)
        self.buffers = RowBuffers()
        self._note(rows)
        self._listed_keys(lines)
        self._left_open(lines, stretch, by[np.concatenate([~same, [True]])])
        self.last_index, self.last_ns = int(index[-1]), int(time_ns[-1])
        self.max_ns = max(self.max_ns, self.last_ns)
        self.lines += len(index)
        return True

    def _note(self, rows: Rows) -> None:
        """Updates the counts by complete ops."""
        of_both, firsts, counts = np.unique(
            rows.f.astype(np.int64) * len(TYPE_CODES) + rows.kind, return_index=True, return_counts=True
        )
        for place in np.argsort(firsts):  # so that the counts are in the order of first occurrence
            f, kind = divmod(int(of_both[place]), len(TYPE_CODES))
            self.counts.setdefault(plain_lines.FS[f], Counter())[_TYPE_NAMES[kind]] += int(counts[place])
        oks = np.flatnonzero((rows.kind == OK) & (rows.f < plain_lines.ASSIGN))
        if len(oks):
            self.last_ok_op, self.last_ok_ns = int(rows.index[oks[-1]]), int(rows.complete_ns[oks[-1]])
        infos = rows.kind == INFO
        self.retired.update(zip(rows.process[infos].tolist(), rows.index[infos].tolist(), strict=True))

    def _listed_keys(self, lines: Lines) -> None:
        """Adds the keys of every assign and subscribe that completed."""
        done = np.flatnonzero((lines.f >= plain_lines.ASSIGN) & (lines.kind != plain_lines.INVOKE))
        cuts = np.searchsorted(lines.listed_line, np.stack([done, done + 1]))
        for place, low, high in zip(done.tolist(), *cuts.tolist(), strict=True):
            cells = int(lines.index[place]), int(lines.process[place]), int(lines.kind[place])
            how = schema.ASSIGN if lines.f[place] == plain_lines.ASSIGN else schema.SUBSCRIBE
            keys = lines.listed_key[low:high].tolist() or [EMPTY]
            self.buffers.small["assigns"].extend((*cells, how, False, key) for key in keys)

    def _left_open(self, lines: Lines, stretch: Stretch, lasts: Ints) -> None:
        """Keeps the invocations among the last lines of the processes: their completions are still to come."""
        for place in lasts[lines.kind[lasts] == plain_lines.INVOKE].tolist():
            begin = int(lines.ends[place - 1]) if place else 0
            data = stretch.decode(stretch.text[begin : int(lines.ends[place]) - 1], stretch.file)
            self.open[int(lines.process[place])] = (data["index"], data["time_ns"], data["f"], data["value"], {})

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
        if code == INFO:
            self.retired[process] = op
        final = bool(extra.get("final", False)) if extra else False
        buffers = self.buffers
        row = len(buffers.type_codes)
        buffers.type_codes.append(code)
        error_text = None if error is None else error if isinstance(error, str) else shown_error(error)
        buffers.ops += (op, invoke_index, process, kind, f, invoke_ns, complete_ns, error_text, final)
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
            self._small.assign(op, process, code, how, extra, value)
        elif f == "debug-topic-partitions" and code == OK:
            self._small.debug(op, process, final, value, (invoke_ns, complete_ns))
        elif f == "delete-records":
            self._small.deletion(op, code, value, complete_ns)
        elif f == "share-recreate":
            self._small.deletion(op, code, value, complete_ns)
            if code == OK:
                self._small.deleted_logs(op, process, value, (invoke_ns, complete_ns))
        elif f in SHARE_FS:
            self._small.share(ShareOp(op, process, code, f, value, extra, invoke_ns, complete_ns))
        if extra:
            sends = f == "send" or bool(extra.get("sends"))  # the final sends, before the final polls
            if final and (kind != "info" if sends else f != "debug-topic-partitions" or kind == "info"):
                self.final_processes[process] = kind
            self._small.rebalances(op, process, extra)
            if kind == "ok" and "ends" in extra:
                self._small.ends(op, process, final, extra, (invoke_ns, complete_ns))
            self._small.commits((op, op if invoke_index < 0 else invoke_index, process, code, f == "txn"), extra)

    def _micro_ops(self, row: int, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, list):
            raise Broken(f"the value of a send, poll or txn must be a list of micro-ops, not {text_of(value)[:80]}")
        sends = self.buffers.sends
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
                    if offset is not None and not whole(offset):
                        raise Broken(f"offset {short(offset)} of a send is not a whole number")
                    sends += (row, number, key, sent, -1 if offset is None else offset)
                else:
                    raise Broken(f"unknown micro-op {text_of(mop)[:80]}")
            except (TypeError, ValueError, IndexError, KeyError):
                raise Broken(f"not a micro-op: {text_of(mop)[:120]}") from None

    def _poll(self, row: int, mop: int, polled: Any) -> None:
        buffers = self.buffers
        for key, pairs in polled:
            if not pairs:
                buffers.empties += (row, mop, key)
                continue
            offsets, values = zip(*pairs, strict=True)
            buffers.poll_offset.extend(offsets)
            buffers.poll_value.extend(values)
            buffers.polls += (row, mop, key, len(values))

    def tables(self) -> dict[str, pa.Table]:
        """Returns name -> table, with the rows of the lines added since the last call. Raises BadHistory."""
        parts = [*self._parts, self.buffers]
        self._parts, self._size, self.buffers = [], 0, RowBuffers()
        return row_buffers.tables(parts, self.coder)
