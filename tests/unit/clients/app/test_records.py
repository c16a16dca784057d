"""Input records of the shape of app.yaml, and the ids that output records name."""

from __future__ import annotations

import pytest

from harness.clients.app.records import InputRecords, OutputIds, States
from harness.clients.app.spec import Input, OutputId, State


def test_records_have_the_shape_of_the_template() -> None:
    records = InputRecords(Input(template='{"order": {id}, "customer": {"number": {key}}}', key="customer-{key}"))
    key, value = records.make(17, 3)
    assert (key, value) == (b"customer-3", b'{"order": 17, "customer": {"number": 3}}')
    assert records.id_of(value) == 17
    assert records.id_of(b'{"order": 17, "customer": {"number": 3}} ') is None


def test_samples_take_turns() -> None:
    records = InputRecords(Input(samples=("a {id}", "b {id} {id}", "a {id}")))
    values = [records.make(id, 0)[1] for id in range(7)]
    assert values[:3] == [b"a 0", b"b 1 1", b"a 2"]
    assert [records.id_of(value) for value in values] == list(range(7))
    assert records.id_of(b"b 1 4") is None
    assert records.id_of(b"b 3 3") is None, "a record that was not made here"


@pytest.mark.parametrize(
    ("where", "value", "id"),
    [
        ({"json": "order"}, b'{"order": 5}', 5),
        ({"json": "$.order.id"}, b'{"order": {"id": "5"}}', 5),
        ({"json": "items.1.id"}, b'{"items": [{"id": 4}, {"id": 5}]}', 5),
        ({"json": "order", "pattern": r"order-(\d+)"}, b'{"order": "order-5"}', 5),
        ({"json": "order"}, b'{"order": "order-5"}', None),
        ({"json": "order"}, b'{"order": true}', None),
        ({"json": "order"}, b'{"order": 5.0}', None),
        ({"json": "order"}, b"{}", None),
        ({"json": "order"}, b"no JSON", None),
        ({"json": "order"}, b"[" * 100_000, None),
        ({"json": "order"}, b'{"order": 12345678901234567890123}', None),
        ({"header": "order"}, b"", 7),
        ({"header": "other"}, b"", None),
        ({"key": True, "pattern": r"k(\d+)"}, b"", 9),
    ],
)
def test_outputs_name_their_input(where: dict[str, object], value: bytes, id: int | None) -> None:
    ids = OutputIds(OutputId.model_validate(where))
    assert ids.id_of(b"k9", [("order", b"6"), ("order", b"7")], value) == id


@pytest.mark.parametrize(
    ("equals", "of_input", "output", "of_output"),
    [
        ("count", None, b'{"n": 5}', "5"),
        ("count", None, b'{"n": "05"}', "5"),
        ("count", None, b'{"n": 5.5}', None),
        ("count", None, b'{"n": null}', None),
        ({"sum": "amount"}, "12", b'{"n": -3}', "-3"),
        ({"sum": "missing"}, None, b"", None),
        ({"last": "name"}, "x 1", b'{"n": "x 1"}', "x 1"),
        ({"last": "amount"}, "12", b'{"n": 12.5}', "12.5"),
    ],
)
def test_states_of_inputs_and_outputs(equals: object, of_input: str | None, output: bytes, of_output: str) -> None:
    states = States(State.model_validate({"in": {"json": "n"}, "equals": equals}))
    assert states.of_input(b'{"amount": 12, "name": "x 1"}') == of_input
    assert states.of_output(None, [], output) == of_output


def test_a_pattern_selects_the_state() -> None:
    states = States(State.model_validate({"in": {"header": "s", "pattern": r"n=(\d+);.*"}, "equals": "count"}))
    assert states.of_output(None, [("s", b"n=17; m=4")], b"") == "17"
    assert states.of_output(None, [("s", b"none")], b"") is None
