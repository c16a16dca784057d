"""EDN: values, round trips, and errors with their position."""

from __future__ import annotations

import gzip
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.edn import reader
from harness.model.errors_and_exit_codes import BadHistory
from tests.unit.checker import jepsen


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-17", -17),
        ("+3", 3),
        ("9223372036854775808N", 1 << 63),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1.50M", Decimal("1.50")),
        ("##Inf", float("inf")),
        (r'"a\n\"\u0041"', 'a\n"A'),
        (r"\newline", reader.Char("\n")),
        (":a/b", reader.Keyword("a/b")),
        ("foo", reader.Symbol("foo")),
        ("[1, 2 ; two\n 3]", [1, 2, 3]),
        ("(1 [2] ())", (1, [2], ())),
        ("#{1 2}", reader.Bag((1, 2))),
        ("{:a {1 2}}", {reader.Keyword("a"): {1: 2}}),
        ('#inst "2020"', reader.Tagged("inst", "2020")),
        ("#a #b 1", reader.Tagged("a", reader.Tagged("b", 1))),
        ("[1 #_ 2 #_ #_ 3 4 5]", [1, 5]),
    ],
)
def test_values(text: str, value: Any) -> None:
    read = reader.loads(text)
    assert read == value
    assert type(read) is type(value)
    assert reader.loads(reader.dumps(read)) == read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: not EDN .the text ends too early"),
        ("[1 2", "ends too early"),
        ('"abc', "ends too early"),
        ("[1 2)", r"column 5: not EDN .unexpected \)"),
        ("{:a}", "a map needs a value"),
        ("{:a 1 :a 2}", "duplicate key"),
        ("{[1] 1 [1] 2}", "duplicate key"),
        ("1 2", "more than one form"),
        ("[\n\n  1 ]]", "line 3, column 6"),
        ("[" * 1_000_000, "nested deeper"),
        ("#a " * 1_000_000, "tags in a row"),
        ("[#a]", "a tag without a value"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(BadHistory, match=message):
        reader.loads(text)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.builds(reader.Keyword, st.from_regex(r"[a-z][a-z?*!-]{0,8}", fullmatch=True))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_round_trip(value: Any) -> None:
    assert reader.loads(reader.dumps(value)) == value


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        reader.loads(text)
    except BadHistory:
        return


def test_jepsen_histories_survive_the_round_trip() -> None:
    for path in sorted(jepsen.FOLDER.glob("*.edn.gz"))[::10]:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            assert reader.loads(reader.dumps(reader.loads(line))) == reader.loads(line)
