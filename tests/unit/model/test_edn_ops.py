"""Op maps as lines of a history: nothing is lost, and the fast parsers agree with the plain ones."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model.edn import fast_path, ops, reader
from harness.model.edn.reader import Bag, Char, Keyword, Symbol, Tagged
from harness.model.errors_and_exit_codes import BadHistory

NAMES = st.from_regex(r"[a-z][a-z?*!-]{0,6}", fullmatch=True)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    NAMES.map(Keyword),
    st.sampled_from([Symbol("sym"), Char("a"), Char("\n"), Char("\ud800"), Decimal("1.50"), Fraction(2, 3)]),
    st.sampled_from([1 << 63, 1 << 64, -(1 << 63), -(1 << 63) - 1, "\ud800", ":a", Keyword("edn"), "nil"]),
)
KEYS = st.one_of(st.integers(-3, 20), st.text(max_size=2), NAMES.map(Keyword), st.booleans())


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for key, value in pairs:
        reader.put(made, key, value)
    return made


ANY = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=2).map(Bag),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(_map),
        inner.map(lambda value: Tagged("a/b", value)),
        st.lists(st.tuples(NAMES.map(Keyword), inner), max_size=2).map(_map),
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANY)
def test_any_value_survives_json(value: Any) -> None:
    data = orjson.loads(orjson.dumps(ops.carry(value)))
    assert ops.same(ops.uncarry(data), value)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANY, st.data())
def test_the_quick_reader_gives_what_the_other_gives(value: Any, data: st.DataObject) -> None:
    text = reader.dumps(value)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from([*' ,[]{}():"#\\;0-9a+.N/', "nil", ""])) + text[at + 1 :]
    try:
        expected = reader.loads(text)
    except BadHistory as error:
        with pytest.raises(BadHistory, match=re.escape(str(error))):
            fast_path.loads(text)
    else:
        assert ops.same(fast_path.loads(text), expected)


# --- ops ------------------------------------------------------------------------------------------------

SMALL = st.integers(-2, 30)
PAIR = st.tuples(SMALL, SMALL).map(list)
MOPS = st.one_of(
    st.tuples(SMALL, SMALL).map(lambda kv: [Keyword("send"), *kv]),
    st.tuples(SMALL, st.one_of(PAIR, st.tuples(st.none(), SMALL).map(list))).map(lambda kv: [Keyword("send"), *kv]),
    st.just([Keyword("poll")]),
    st.dictionaries(SMALL, st.lists(PAIR, max_size=3), max_size=3).map(lambda polled: [Keyword("poll"), polled]),
)
TYPES = st.sampled_from(["invoke", "ok", "fail", "info"]).map(Keyword)
USUAL = st.one_of(
    st.tuples(st.sampled_from(["txn", "send", "poll"]), st.lists(MOPS, max_size=3)),
    st.tuples(st.sampled_from(["assign", "subscribe"]), st.lists(SMALL, max_size=3)),
    st.just(("crash", None)),
)


def _op(index: int, time: int, kind: Any, process: Any, f_value: tuple[Any, Any]) -> dict[Any, Any]:
    fields = (index, time, kind, process, Keyword(f_value[0]), f_value[1])
    names = ("index", "time", "type", "process", "f", "value")
    return {Keyword(name): value for name, value in zip(names, fields, strict=True)}


BIG = st.integers(0, 1 << 70)
OPS = st.builds(_op, BIG, BIG, TYPES, st.integers(0, 40), USUAL)


@st.composite
def odd_ops(draw: st.DrawFn) -> Any:
    """Ops with some unusual part."""
    op = dict(draw(OPS))
    for name in draw(st.lists(st.sampled_from(["index", "value", "time", "process", "f", "type"]), max_size=2)):
        op[Keyword(name)] = draw(ANY)
    for name in draw(st.lists(st.sampled_from(["error", "rebalance-log", "seek-to-beginning?", "x"]), max_size=2)):
        op[Keyword(name)] = draw(ANY)
    if draw(st.booleans()):
        op.pop(Keyword(draw(st.sampled_from(["index", "value", "time"]))))
    if isinstance(op.get("value"), list) and op["value"] and draw(st.booleans()):
        op[Keyword("value")] = [*op["value"], draw(ANY)]
    return Tagged(ops.RECORD, op) if draw(st.booleans()) else op


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPS, st.booleans())
def test_the_usual_shape_is_read_quickly_and_alike(op: dict[Any, Any], record: bool) -> None:
    form = Tagged(ops.RECORD, op) if record else op
    text = reader.dumps(form)
    full = ops.data_of(reader.loads(text), exact=True, record=record)
    (quick,) = fast_path.quick(text.encode())
    if max(op["index"], op["time"]) < 10**18:
        assert quick == full
    assert quick is None or orjson.dumps(quick, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        full, option=orjson.OPT_SORT_KEYS
    )
    assert ops.same(reader.loads(fast_path.text_of(full, record)), form)


@settings(max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(odd_ops(), st.booleans())
def test_any_op_comes_back_and_the_quick_way_never_disagrees(form: Any, record: bool) -> None:
    text = reader.dumps(form)
    full = ops.data_of(reader.loads(text), exact=True, record=record)
    line = orjson.loads(orjson.dumps(full))
    assert ops.same(reader.loads(fast_path.text_of(line, record)), reader.loads(text))
    for quick in fast_path.quick(text.encode()):
        if quick is not None:
            assert quick == {name: value for name, value in full.items() if name != "edn"}


@settings(max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPS, st.data())
def test_damaged_text_is_read_alike_or_left_to_the_reader(op: dict[Any, Any], data: st.DataObject) -> None:
    text = reader.dumps(op)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from([*' ,[]{}():"#\\;0-9a+.', "nil", ""])) + text[at + 1 :]
    (quick,) = fast_path.quick(text.replace("\n", " ").encode())
    if quick is not None:
        assert quick == ops.data_of(reader.loads(text))


@pytest.mark.parametrize(
    "value",
    [
        "[[:poll {1 [[0 1]], 1 [[0 2]]}]]",
        "[[:poll {1 [[0 {2 3}]]}]]",
        "[[:poll {1 [0 [[1 2]]]}]]",
        "[[:send [:send 1] 2]]",
        "[[:poll {1 [[0 null]]}]]",
        '[[:send 1 "a b"]]',
        "[[:poll {1 [[0 1]] 2 []}]]",
        "[[:send 1 12345678901234567890123]]",
        "[[:send 007 1]]",
        "[[:poll [[1 [[0 1]]]]]]",
        "[[:poll {} 1]]",
        "[[:send 1 [:poll]]]",
        "[[:poll {0 [[0 1]], 00 [[0 2]]}]]",
        "[[:poll {0 [[0 1]], -0 []}]]",
        "[:poll]",
        "[[]]",
        "[[:sned 1 2]]",
        "nil",
        "7",
        "{1 2}",
    ],
)
def test_traps(value: str) -> None:
    """An almost usual value is left to the general reader, or read in the same way."""
    text = f"{{:index 0, :time 1, :type :ok, :process 2, :f :txn, :value {value}}}"
    (quick,) = fast_path.quick(text.encode())
    if quick is not None:
        assert quick == ops.data_of(reader.loads(text))


def test_a_line_says_it_plainly() -> None:
    text = (
        "{:index 0, :time 5, :type :ok, :process 1, :f :txn, :value [[:poll {3 [[0 :a]]}] [:send 3 [1 7]]], "
        ":rebalance-log [{:keys [3]}]}"
    )
    assert ops.data_of(reader.loads(text), exact=True) == {
        "index": 0,
        "time_ns": 5,
        "process": 1,
        "type": "ok",
        "f": "txn",
        "value": [["poll", [[3, [[0, {"edn": ":a"}]]]]], ["send", 3, [1, 7]]],
        "extra": {"rebalance_log": [{"keys": [3]}]},
    }
