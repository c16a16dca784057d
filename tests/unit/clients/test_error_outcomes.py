"""The table of errors: complete, sourced, and never surer than the library can be."""

from __future__ import annotations

from typing import get_args

import confluent_kafka
import pytest

from harness.clients.error_outcomes import ANY, TABLE, Situation, describe, outcome, row
from harness.clients.exec.never_sent import NEVER_SENT_CODE
from harness.clients.exec.process import BROKE_PROTOCOL, DIED, SILENT
from harness.protocol.error_codes import ClientError

JVM = "_JVM"  # the harness's own: what Java's client runs in is gone
CODES = {name for name in dir(confluent_kafka.KafkaError) if name.isupper() or name.startswith("_")}


def test_every_code_is_one_of_the_librarys() -> None:
    assert {code for _, code in TABLE} - CODES == {ANY, JVM, NEVER_SENT_CODE, DIED, SILENT, BROKE_PROTOCOL}


def test_every_row_has_a_reason_and_a_source() -> None:
    assert all(found.why and found.source for found in TABLE.values())
    assert {situation for situation, _ in TABLE} == set(get_args(Situation))


@pytest.mark.parametrize("situation", get_args(Situation))
def test_an_unknown_error_is_info_where_something_may_have_been_appended(situation: Situation) -> None:
    steps_that_append_nothing = {"init", "begin", "poll", "assign", "admin"}
    found = outcome(situation, ClientError("NEVER_SEEN", "?"), retries_off=True)
    assert found == ("fail" if situation in steps_that_append_nothing else "info")


@pytest.mark.parametrize(
    "code",
    [
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "_MSG_TIMED_OUT",
        "_TIMED_OUT",
        "_TRANSPORT",
        "_FENCED",
        "INVALID_PRODUCER_EPOCH",
    ],
)
def test_indeterminate_reports(code: str) -> None:
    for retries_off in (True, False):
        assert outcome("report", ClientError(code, "?"), retries_off) == "info"


def test_commits_and_aborts_are_never_definite_by_their_error() -> None:
    for situation in ("commit", "abort", "send-offsets"):
        assert row(situation, "_FENCED").outcome == row(situation, "INVALID_TXN_STATE").outcome == "info"


def test_the_same_code_means_different_things_locally_and_in_a_report() -> None:
    error = ClientError("MSG_SIZE_TOO_LARGE", "too large")
    assert outcome("send", error, retries_off=False) == "fail"
    assert outcome("report", error, retries_off=False) == "info"
    assert outcome("report", error, retries_off=True) == "fail"


def test_description_begins_with_situation_and_code() -> None:
    assert describe("report", ClientError("_TRANSPORT", "broke")) == "report: _TRANSPORT: broke"
