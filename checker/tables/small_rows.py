"""Adds the rows of the small tables: everything in a history except ops, sends and polls.

Each method gets the fields of one op. `op` is its index, `code` its type as in TYPE_CODES. A value that does not have
the required form raises Broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from checker.tables.coding import EMPTY, Coder, text_of
from checker.tables.schema import OK
from checker.tables.share_rows import BadShareOp, ShareOp, rows_of
from harness.model.edn import ops

LIMIT: Final = 1 << 62  # indices, times and offsets beyond it are treated as damage
SHORT: Final = 80


def short(value: Any) -> str:
    """Returns the repr of a value, shortened for a message."""
    text = repr(value)
    return text if len(text) <= SHORT else f"{text[: SHORT - 3]}..."


class Broken(Exception):
    """The value of an op does not have the required form, or its process cannot have this op now.

    The text of the exception says what is wrong.
    """


def whole(value: Any) -> bool:
    """Returns whether a value is an integer that can be an index, a time or an offset."""
    return type(value) is int and -LIMIT < value < LIMIT


def _int(value: Any) -> int:
    if not whole(value):
        raise ValueError(value)
    return int(value)


def _listed(fields: Mapping[str, Any], name: str) -> list[Any]:
    """Returns a field that must be a list, or [] if it is absent."""
    found = fields.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise Broken(f"`{name}` must be a list, not {short(found)}")
    return found


def _rebalances(extra: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the events of the rebalance log in an op's `extra`."""
    log = _listed(extra, "rebalance_log") or _listed(extra, "rebalance-log")
    for event in log:
        if not isinstance(event, dict):
            raise Broken(f"`rebalance_log` must be a list of events, but contains {short(event)}")
    return log


def shown_error(error: Any) -> str:
    """Returns an op's error as text."""
    shown = ops.shown(error)
    return shown.removeprefix(":") if isinstance(shown, str) else text_of(error)


class SmallRows:
    """Adds rows to the small tables.

    rows   table -> list of rows, as in `checker.tables.row_buffers.RowBuffers.small`
    coder  returns the codes of keys
    """

    __slots__ = ("_coder", "_rows")

    def __init__(self, rows: dict[str, list[tuple[Any, ...]]], coder: Coder) -> None:
        self._rows, self._coder = rows, coder

    def assign(self, op: int, process: int, code: int, how: int, extra: Mapping[str, Any], value: Any) -> None:
        """Adds the keys of an assign or subscribe. `how`: `schema.ASSIGN` or `schema.SUBSCRIBE`."""
        seek = bool(extra.get("seek_to_beginning", False))
        if not isinstance(value, list):
            raise Broken("the value of an assign or subscribe must be a list of keys")
        keys = [self._coder.code(key) for key in value] or [EMPTY]
        self._rows["assigns"].extend((op, process, code, how, seek, key) for key in keys)

    def debug(self, op: int, process: int, final: bool, value: Any, times: tuple[int, int]) -> None:
        """Adds the log starts and ends that an admin check of the logs saw."""
        if not isinstance(value, list):
            return
        for entry in value:
            if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], dict):
                key = self._coder.code(entry[0])
                start, end, cleaned = (entry[1].get(name) for name in ("start", "end", "cleaned"))
                if whole(start) and whole(end):
                    self._rows["ends"].append((op, process, final, key, -1, start, end, *times))
                if whole(cleaned):
                    self._rows["cleaned"].append((op, key, cleaned))

    def deletion(self, op: int, code: int, value: Any, complete_ns: int) -> None:
        """Adds the offsets before which an op deleted records."""
        try:
            rows = [(op, code, self._coder.code(key), _int(before), complete_ns) for key, before in value or ()]
        except (TypeError, ValueError):
            raise Broken("the value of delete-records must be a list of [key, offset]") from None
        self._rows["deletions"].extend(rows)

    def deleted_logs(self, op: int, process: int, value: Any, times: tuple[int, int]) -> None:
        """Adds the ends of logs that were deleted as a whole. They count as read: they contain nothing any more."""
        rows = ((self._coder.code(key), _int(end)) for key, end in value or ())
        self._rows["ends"].extend((op, process, True, key, end, end, end, *times) for key, end in rows)

    def share(self, one: ShareOp) -> None:
        """Adds the rows of an op of a share group."""
        try:
            for name, rows in rows_of(one, self._coder).items():
                self._rows[name].extend(rows)
        except BadShareOp as error:
            raise Broken(str(error)) from None

    def rebalances(self, op: int, process: int, extra: Mapping[str, Any]) -> None:
        """Adds the keys of the rebalance events in an op's `extra`."""
        for event in _rebalances(extra):
            name = str(event.get("event", ""))
            rows = ((op, process, name, self._coder.code(key)) for key in _listed(event, "keys"))
            self._rows["rebalances"].extend(rows)

    def ends(self, op: int, process: int, final: bool, extra: Mapping[str, Any], times: tuple[int, int]) -> None:
        """Adds the log ends that the op saw. `times`: when it was invoked and when it completed."""
        try:
            positions = {
                self._coder.code(key): -1 if position is None else _int(position)
                for key, position in _listed(extra, "positions")
            }
            ends = [(self._coder.code(key), _int(start), _int(end)) for key, start, end in _listed(extra, "ends")]
            self._rows["ends"].extend(
                (op, process, final, code, positions.get(code, -1), start, end, *times) for code, start, end in ends
            )
        except (TypeError, ValueError):
            raise Broken("`positions` must be a list of [key, offset], and `ends` of [key, start, end]") from None

    def commits(self, cells: tuple[Any, ...], extra: Mapping[str, Any]) -> None:
        """Adds the consumer offsets that the op committed, and those that it fetched when keys were assigned to it."""
        found = [(False, _listed(extra, "committed"))]
        found += [(True, _listed(event, "committed")) for event in _rebalances(extra)]
        try:
            self._rows["commits"].extend(
                (*cells, fetched, self._coder.code(key), -1 if offset is None else _int(offset))
                for fetched, rows in found
                for key, offset in rows
            )
        except (TypeError, ValueError):
            raise Broken("`committed` must be a list of [key, offset]") from None

    def nemesis(self, index: int, time_ns: int, f: str, value: Any, extra: Mapping[str, Any]) -> None:
        """Adds an op of the nemesis, and the records that its fault deleted."""
        cells = (text_of(value), *(str(extra.get(name, "") or "") for name in ("fault", "span", "phase")))
        self._rows["nemesis"].append((index, time_ns, f, *cells))
        if not isinstance(value, dict):
            return
        if extra.get("fault") and isinstance(value.get("deleted"), list):
            with suppress(Broken):  # a value of another form excuses no loss
                self.deletion(index, OK, value["deleted"], time_ns)
        if (extra.get("fault") or f == "heal") and isinstance(value.get("cleaned"), list):
            with suppress(TypeError, ValueError):  # a value of another form is ignored
                rows = [(index, self._coder.code(key), _int(before)) for key, before in value["cleaned"]]
                self._rows["cleaned"].extend(rows)
