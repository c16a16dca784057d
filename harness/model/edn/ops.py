"""Conversion between Jepsen's op maps, as `harness.model.edn.reader` reads them, and the data of a history line.

    {:index 0, :time 5, :type :ok, :process 1, :f :txn, :value [[:poll {3 [[0 :a]]}] [:send 3 [1 7]]],
     :rebalance-log [{:keys [3]}]}
    {"index": 0, "time_ns": 5, "process": 1, "type": "ok", "f": "txn",
     "value": [["poll", [[3, [[0, {"edn": ":a"}]]]]], ["send", 3, [1, 7]]],
     "extra": {"rebalance_log": [{"keys": [3]}]}}

A form is any value that can be written in EDN. Forms that JSON does not have are written as {"edn": "text of the
form"}: keywords, symbols, characters, sets, EDN lists (in parentheses), tagged values, exact decimals, ratios, integers
beyond 64 bits, and maps whose keys are not all keywords. A map with keyword keys is a JSON object. Where a keyword is
usual (type, f, the names of micro-ops and fields), only its name is written. If an op has, for example, a string
instead of a keyword, or a list instead of a vector, then its line does not show the difference. To such a line, a field
"edn" with the text of the whole op can be added, so that the line can be converted back exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from harness.model.edn import reader
from harness.model.edn.reader import Frozen, Keyword, Tagged
from harness.model.errors_and_exit_codes import BadHistory

RECORD: Final = "jepsen.history.Op"
MICRO: Final = frozenset({"send", "poll", "txn"})
# Functions whose value is a sequence: a list and a vector are equivalent.
_LISTED: Final = frozenset({"assign", "subscribe", "debug-topic-partitions", "delete-records"})
_EDN: Final = "edn"
_FIELDS: Final = ("index", "time", "type", "process", "f", "value", "error")
_EXTRA: Final = {"rebalance-log": "rebalance_log", "seek-to-beginning?": "seek_to_beginning"}
_EXTRA_BACK: Final = {ours: theirs for theirs, ours in _EXTRA.items()}
NAME: Final = re.compile(r"[A-Za-z*+!_?<>=$%&.|-][\w*+!?<>=$%&.|/#'-]*", re.ASCII)
_BIG: Final = 1 << 64
_EQUAL: Final = frozenset({int, str, Keyword, bool, type(None)})  # types for which == suffices
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # cannot be encoded in UTF-8


# --- single values --------------------------------------------------------------------------------------


def carry(value: Any) -> Any:
    """Returns an EDN value as JSON data. `uncarry` converts it back."""
    kind = type(value)
    if value is None or kind is bool or (kind is str and (value.isascii() or not _SURROGATE.search(value))):
        return value
    if kind is int:
        return value if -(1 << 63) <= value < _BIG else {_EDN: reader.dumps(value)}
    if kind is list:
        return [carry(item) for item in value]
    if kind is float and value - value == 0.0:
        return value
    if kind is dict and _named(value):
        return {str(key): carry(item) for key, item in value.items()}
    return {_EDN: reader.dumps(value.value if kind is Frozen else value)}


def _named(value: dict[Any, Any]) -> bool:
    """Returns whether `carry` can convert this map to a JSON object with the names of its keywords as keys.

    All keys must be keywords. The map must not have `:edn` as its single key, because `carry` uses JSON objects with
    the single key "edn" for wrapped values.
    """
    return tuple(value) != (_EDN,) and all(type(key) is Keyword and NAME.fullmatch(key) for key in value)


def uncarry(data: Any) -> Any:
    """Returns the EDN value that `carry` converted to this JSON data."""
    if type(data) is list:
        return [uncarry(item) for item in data]
    if type(data) is not dict:
        return data
    if len(data) == 1 and type(data.get(_EDN)) is str:
        try:
            return reader.loads(data[_EDN])
        except BadHistory:
            pass  # not wrapped by `carry`: a map of the history itself
    return {_keyword(name): uncarry(item) for name, item in data.items()}


def shown(data: Any) -> Any:
    """Returns JSON data in a form for display.

    A value that `carry` wrapped as {"edn": text} is replaced by its text.
    """
    wrapped = type(data) is dict and len(data) == 1 and type(data.get(_EDN)) is str
    return data[_EDN] if wrapped else data


def _keyword(name: Any) -> Any:
    return Keyword(name) if NAME.fullmatch(name) else name


def same(one: Any, other: Any) -> bool:
    """Returns whether two EDN values and their types are equal.

    Two NaNs are equal. The order of keys in maps does not matter.
    """
    kind = type(one)
    if kind is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if kind is dict:
        if len(one) == len(other) and all(map(same, one, other)):  # the same keys in the same order
            return all(map(same, one.values(), other.values()))
        return _entries(one) == _entries(other)
    if kind is Tagged:
        return bool(one.tag == other.tag and same(one.value, other.value))
    return bool(one == other) if kind in _EQUAL else reader.dumps(one) == reader.dumps(other)


def _entries(of: dict[Any, Any]) -> list[tuple[str, str]]:
    return sorted((reader.dumps(key), reader.dumps(item)) for key, item in of.items())


# --- ops ------------------------------------------------------------------------------------------------


def data_of(form: Any, exact: bool = False, record: bool = False) -> dict[str, Any]:
    """Converts an op from EDN to the data of a history line. Raises ValueError if `form` is not a map.

    exact   add the field "edn" to a line from which `form_of` could not restore the op exactly
    record  the value of `record` with which `form_of` will be called; if true, `form_of` restores the tag of Jepsen's
            Op record, so the tag does not require the field "edn"
    """
    op = form
    if type(op) is Tagged:  # #jepsen.history.Op{...}
        op = op.value
    if type(op) is not dict:
        raise ValueError("not an op (a map is expected)")
    data: dict[str, Any] = {}
    if "index" in op:
        data["index"] = carry(op["index"])
    data["time_ns"] = carry(op.get("time", -1))
    for name in ("process", "type", "f"):
        if name in op:
            data[name] = str(op[name]) if type(op[name]) is Keyword else carry(op[name])
    if "value" in op:
        f = data.get("f")
        if f in MICRO if type(f) is str else False:
            data["value"] = _micro_ops(op["value"])
        else:
            listed = f in _LISTED if type(f) is str else False
            data["value"] = _listed(op["value"]) if listed else carry(op["value"])
    if op.get("error") is not None:
        data["error"] = carry(op["error"])
    extra = {_extra(name): _plain(item) for name, item in op.items() if name not in _FIELDS}
    if extra:
        data["extra"] = extra
    if exact and ("index" not in data or not same(form, form_of(data, record))):
        data[_EDN] = reader.dumps(form)
    return data


def _extra(name: Any) -> str:
    if type(name) not in (Keyword, str):
        return reader.dumps(name)
    return _EXTRA.get(name, str(name)) if not _SURROGATE.search(name) else reader.dumps(name)


def _micro_ops(value: Any) -> Any:
    """Converts [[:send k v] [:poll {k pairs}]] to [["send", k, v], ["poll", [[k, pairs], ...]]]."""
    if not isinstance(value, list | tuple):
        return carry(value)
    return [_micro_op(mop) if isinstance(mop, list | tuple) and mop else carry(mop) for mop in value]


def _micro_op(mop: Any) -> list[Any]:
    name = str(mop[0]) if type(mop[0]) is Keyword else carry(mop[0])
    if name == "poll" and len(mop) == 2 and type(mop[1]) is dict:
        return [name, [[carry(key), _listed(pairs, 2)] for key, pairs in mop[1].items()]]
    return [name, *(_listed(item) for item in mop[1:])]


def _listed(value: Any, depth: int = 1) -> Any:
    """Converts sequences to lists, in the outer `depth` levels only. All other values are converted with `carry`."""
    if depth and isinstance(value, list | tuple):
        return [_listed(item, depth - 1) for item in value]
    return carry(value)


def _plain(value: Any) -> Any:
    """Converts a value of `extra` to JSON data: keywords become their names, sequences become lists, maps become JSON
    objects.
    """
    if isinstance(value, dict):
        return {_extra(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if type(value) is Keyword else carry(value)


def form_of(data: Mapping[str, Any], record: bool = False) -> Any:
    """Converts the data of a history line to an op in EDN.

    If the data has a field "edn", returns the value in its text. Raises ValueError if that text is not valid.

    record  tag the map as Jepsen's Op record, unless there is a field "edn"
    """
    if type(data.get(_EDN)) is str:
        try:
            return reader.loads(data[_EDN])
        except BadHistory as error:
            raise ValueError(f'the field "edn": {error}') from None
    op: dict[Any, Any] = {}
    if "index" in data:
        op[Keyword("index")] = uncarry(data["index"])
    op[Keyword("time")] = uncarry(data.get("time_ns", -1))
    for name in ("type", "process", "f"):
        if name in data:
            named = type(data[name]) is str and (name != "process" or data[name] == "nemesis")
            op[Keyword(name)] = _keyword(data[name]) if named else uncarry(data[name])
    value = data.get("value")
    micro = type(data.get("f")) is str and data["f"] in MICRO and type(value) is list
    op[Keyword("value")] = [_micro_form(mop) for mop in value] if micro else uncarry(value)  # type: ignore[union-attr]
    if data.get("error") is not None:
        op[Keyword("error")] = uncarry(data["error"])
    extra = data.get("extra")
    for name, item in extra.items() if isinstance(extra, dict) else ():
        key = _keyword(_EXTRA_BACK.get(name, name))
        op[key if key not in op else Frozen(name)] = uncarry(item)
    return Tagged(RECORD, op) if record else op


def _micro_form(mop: Any) -> Any:
    if type(mop) is not list or not mop or type(mop[0]) is not str:
        return uncarry(mop)
    name = _keyword(mop[0])
    if mop[0] != "poll" or len(mop) != 2 or type(mop[1]) is not list:
        return [name, *map(uncarry, mop[1:])]
    pairs: dict[str, tuple[Any, Any]] = {}  # by the text of the key
    for entry in mop[1]:
        if type(entry) is not list or len(entry) != 2:
            return [name, uncarry(mop[1])]
        key, polled_pairs = map(uncarry, entry)
        earlier = pairs.get(text := reader.dumps(key))
        pairs[text] = (key, polled_pairs if earlier is None else [*earlier[1], *polled_pairs])
    polled: dict[Any, Any] = {}
    for key, polled_pairs in pairs.values():
        reader.put(polled, key, polled_pairs)
    return [name, polled]
