"""Answers of client programs: what is accepted, and 10,000 damaged ones."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from harness.clients.client_protocols import Record
from harness.clients.exec import answers
from harness.clients.exec.answers import BadAnswer
from harness.clients.exec.never_sent import NEVER_SENT_CODE
from harness.protocol.error_codes import ClientError

POLL: dict[str, Any] = {
    "records": [
        {"topic": "t", "partition": 0, "offset": 4, "value": "aGk=", "key": None, "timestamp": 5},
        {"topic": "t", "partition": 1, "offset": 0, "value": None},
    ],
    "positions": [{"topic": "t", "partition": 0, "offset": 6}],
    "errors": [{"code": "NETWORK_EXCEPTION", "text": "gone", "sent": "maybe", "kind": "retriable"}],
}


def test_a_polled_batch() -> None:
    batch = answers.batch(POLL, 10, "x")
    assert batch.records == [Record("t", 0, 4, b"hi"), Record("t", 1, 0, None)]
    assert batch.ends == {("t", 0): 6} and batch.errors[0].code == "NETWORK_EXCEPTION"


def test_more_records_than_were_requested() -> None:
    with pytest.raises(BadAnswer, match="at most 1"):
        answers.batch(POLL, 1, "x")


@pytest.mark.parametrize("offset", [True, -1, 1 << 63, 1.0, "4", None, [4]])
def test_an_offset_is_a_whole_number_of_64_bits(offset: Any) -> None:
    record = {**POLL["records"][0], "offset": offset}
    with pytest.raises(BadAnswer, match="offset"):
        answers.batch({"records": [record]}, 10, "x")


def test_an_acknowledgement_without_an_offset() -> None:
    assert answers.acknowledged_offset({}) is None and answers.acknowledged_offset({"offset": 0}) == 0


@pytest.mark.parametrize(
    ("library", "code", "expected"),
    [
        ("kafka-python", "MESSAGE_TOO_LARGE", NEVER_SENT_CODE),
        ("kafka-python", "KafkaTimeoutError", "KafkaTimeoutError"),
        ("unheard-of", "MESSAGE_TOO_LARGE", "MSG_SIZE_TOO_LARGE"),
    ],
)
def test_a_claim_that_nothing_was_sent_counts_where_the_library_documents_it(
    library: str, code: str, expected: str
) -> None:
    assert answers.error({"code": code, "text": "", "sent": "no"}, library).code == expected


def damaged(value: Any, draw: random.Random) -> Any:
    """The value with one place replaced, removed, or nested deeper."""
    others: list[Any] = [None, True, -1, 1 << 70, 1.5, "", "\x00", "ÿ", [], {}, [[]], {"id": {}}, "a" * 9]
    if draw.random() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return draw.choice(others)
    if isinstance(value, dict):
        name = draw.choice(list(value))
        if draw.random() < 0.2:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: damaged(value[name], draw)}
    at = draw.randrange(len(value))
    return [*value[:at], damaged(value[at], draw), *value[at + 1 :]]


def test_10_000_damaged_answers_raise_bad_answer_or_nothing() -> None:
    draw = random.Random(5)
    whole = [
        {"id": 3, "ok": POLL},
        {"id": 3, "error": POLL["errors"][0]},
        {"id": 3, "event": "assigned", "partitions": POLL["positions"], "committed": POLL["positions"]},
        {"id": 3, "ok": {"offset": 5}},
    ]
    refused = 0
    for _ in range(10_000):
        message = damaged(draw.choice(whole), draw)
        try:
            line = bytearray(orjson.dumps(message))
        except TypeError:  # a number that JSON of 64 bits has not
            line = bytearray(str(message).replace("'", '"').replace("None", "null").replace("True", "true").encode())
        if draw.random() < 0.3 and line:
            at = draw.randrange(len(line))
            line[at : at + draw.randrange(4)] = bytes(draw.randrange(256) for _ in range(draw.randrange(4)))
        try:
            read(bytes(line))
        except BadAnswer:
            refused += 1
    assert refused > 5_000


def read(line: bytes) -> None:
    """Everything that may be made of a line."""
    fields = answers.message(line)
    if "error" in fields:
        assert isinstance(answers.error(fields["error"], "x"), ClientError)
    elif "event" in fields:
        answers.rebalance(fields)
    else:
        answers.acknowledged_offset(fields["ok"])
        answers.batch(fields["ok"], 10, "x")
