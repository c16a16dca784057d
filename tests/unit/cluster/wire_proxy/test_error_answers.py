"""Responses with an error: every version of every API, as kio encodes and decodes them."""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import kio.index
import kio.serial
import pytest
from kio.schema.index import schema_name_map

from harness.cluster.wire_proxy import error_answers
from harness.model import wire_answers
from harness.model.errors_and_exit_codes import BadInput
from harness.model.wire_rules import APIS, rule_in
from harness.protocol.request_head import Request

APIS_ANSWERED = sorted(wire_answers._READING | wire_answers._CHANGING)
VALUES: dict[str, Any] = {"topic": "t", "name": "t", "topic_id": uuid.UUID(int=7), "group_id": "g", "member_id": "m"}
NUMBERS = ("index", "partition", "partition_index")


def snake(api: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in api).lstrip("_")


def entity(schema: Any, number: int = 0) -> Any:
    """An entity with two elements in each list."""
    values: dict[str, Any] = {}
    for each in fields(schema):
        element = error_answers._element(each)
        if element is not None:
            values[each.name] = (entity(element, 0), entity(element, 1))
        elif "partition" in each.name and error_answers._is_list(each):
            values[each.name] = (0, 1)
        elif "keys" in each.name:
            values[each.name] = ("a", "b")
        elif each.name in NUMBERS:
            values[each.name] = number
        else:
            values[each.name] = VALUES.get(each.name) or error_answers._default(each)
    return schema(**values)


def frame(api: str, version: int) -> bytes:
    schema = kio.index.load_request_schema(APIS[api], version)
    header: Any = schema.__header_schema__
    values: dict[str, Any] = {"request_api_key": APIS[api], "request_api_version": version, "correlation_id": 77}
    values |= {each.name: "me" for each in fields(header) if each.name == "client_id"}
    stream = io.BytesIO()
    kio.serial.entity_writer(header)(stream, header(**values))
    kio.serial.entity_writer(schema)(stream, entity(schema))
    return struct.pack(">i", len(stream.getvalue())) + stream.getvalue()


def decoded(response: bytes, api: str, version: int) -> Any:
    header, body = error_answers._decoded(response, kio.index.load_response_schema(APIS[api], version))
    assert header.correlation_id == 77
    assert struct.unpack_from(">i", response)[0] == len(response) - 4
    return body


def errors(message: Any) -> Iterator[str]:
    """The errors in a message, without those that say that there is none."""
    for each in fields(message):
        value = getattr(message, each.name)
        if error_answers._is_error(each) and value != 0:
            yield value.name
        for item in value if isinstance(value, tuple) else ():
            if is_dataclass(item):
                yield from errors(item)


@pytest.mark.parametrize("api", APIS_ANSWERED)
def test_every_version_of_an_api(api: str) -> None:
    for version in schema_name_map[snake(api)]:
        refused = error_answers.refusal(frame(api, version), "NOT_COORDINATOR")
        found = list(errors(decoded(refused, api, version)))
        # One for each of two partitions of two topics (of two groups), one for each key, or one for the whole request.
        assert set(found) == {"not_coordinator"} and len(found) in (1, 2, 4, 8), (version, found)
        kept = error_answers.failure(refused, Request(APIS[api], version, 77), "REQUEST_TIMED_OUT")
        assert list(errors(decoded(kept, api, version))) == found


def test_a_refused_produce_names_each_partition() -> None:
    body = decoded(error_answers.refusal(frame("Produce", 9), "NOT_ENOUGH_REPLICAS"), "Produce", 9)
    assert [topic.name for topic in body.responses] == ["t", "t"]
    partitions = body.responses[0].partition_responses
    assert [(each.index, each.error_code.name, each.base_offset) for each in partitions] == [
        (0, "not_enough_replicas", -1),
        (1, "not_enough_replicas", -1),
    ]


def test_a_success_becomes_an_error_and_an_error_of_the_broker_stays() -> None:
    schema: Any = kio.index.load_response_schema(APIS["Produce"], 9)
    body = entity(schema)
    header = schema.__header_schema__
    stream = io.BytesIO()
    kio.serial.entity_writer(header)(stream, header(correlation_id=77))
    kio.serial.entity_writer(schema)(stream, body)
    response = struct.pack(">i", len(stream.getvalue())) + stream.getvalue()
    failed = error_answers.failure(response, Request(APIS["Produce"], 9, 77), "REQUEST_TIMED_OUT")
    assert list(errors(decoded(failed, "Produce", 9))) == ["request_timed_out"] * 4


@pytest.mark.parametrize(("version", "error"), [(1, "invalid_producer_epoch"), (3, "producer_fenced")])
def test_fencing_has_the_name_of_its_version(version: int, error: str) -> None:
    refused = error_answers.refusal(frame("EndTxn", version), "PRODUCER_FENCED")
    assert list(errors(decoded(refused, "EndTxn", version))) == [error]


@pytest.mark.parametrize("size", [0, 5, 11, 40])
def test_what_is_no_request_is_refused(size: int) -> None:
    with pytest.raises(error_answers.NotPossibleError):
        error_answers.refusal(frame("Produce", 9)[:size], "NOT_ENOUGH_REPLICAS")
    with pytest.raises(error_answers.NotPossibleError):
        error_answers.refusal(struct.pack(">ihhih", 10, APIS["Produce"], 99, 1, 0), "NOT_ENOUGH_REPLICAS")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("api=Produce", "needs an error"),
        ("api=Produce;error=NOT_LEADER", "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ("error=NOT_COORDINATOR", "needs an api"),
        ("api=Metadata;error=NOT_COORDINATOR", "not Metadata"),
        ("api=Produce;error=DUPLICATE_SEQUENCE_NUMBER", "false conclusion"),
        ("api=Fetch;error=NOT_LEADER_OR_FOLLOWER", "only with direction: response"),
        ("api=Produce;error=MESSAGE_TOO_LARGE;direction=response", "promises that the request had no effect"),
    ],
)
def test_a_rule_that_would_mislead_clients_is_refused(rule: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("?", r"\?")):
        rule_in(f"action=answer;{rule}")
