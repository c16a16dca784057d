"""The cases of `harness client check` in which requests fail: a wire proxy puts errors into the brokers' responses.

How a program reacts to an error, for example with a retry, is up to its library. But it must not acknowledge a record
that was refused, must not lose a record, and must report an error that cannot be retried under Kafka's name for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.clients.client_protocols import Delivery
from harness.clients.exec.conformance_cases import CASE_S, Bench, Case, expect, member, record_values
from harness.clients.exec.never_sent import NEVER_SENT_CODE
from harness.clients.exec.producer import ExecProducer
from harness.model.wire_rules import ANSWER, RESPONSE, Rule
from harness.protocol.error_codes import ClientError


def _sent(bench: Bench, producer: ExecProducer, value: bytes) -> Delivery:
    delivery = producer.send(bench.at(), value)
    producer.wait([delivery], CASE_S)
    return delivery


def _read_all(bench: Bench, count: int) -> list[bytes | None]:
    """Reads partition 0 from its beginning, and returns the values.

    Waits until there are `count` records or a time limit is reached, then one more second for an unexpected record.
    """
    consumer = bench.consumer()
    consumer.assign({bench.at(): 0})
    return record_values([*bench.read(consumer, count), *bench.read(consumer, 1, 1.0)])


def a_refused_record_is_an_error_with_its_name(bench: Bench) -> None:
    producer = bench.producer()
    bench.send(producer, [b"before"])
    # Every request is refused: a library that sends the record again, on another connection, must not succeed then.
    bench.answer(Rule(ANSWER, ("Produce",), error="TOPIC_AUTHORIZATION_FAILED"))
    error = _sent(bench, producer, b"refused").error
    expect(error is not None, "a record was acknowledged that the broker had refused (TOPIC_AUTHORIZATION_FAILED)")
    assert error is not None
    expect(
        error.code == "TOPIC_AUTHORIZATION_FAILED",
        f"the broker answered TOPIC_AUTHORIZATION_FAILED, and the program reported {error.code}",
    )


def a_record_is_sent_again_to_the_new_leader(bench: Bench) -> None:
    producer = bench.producer(idempotence=True)
    bench.send(producer, [b"before"])
    bench.answer(Rule(ANSWER, ("Produce",), error="NOT_LEADER_OR_FOLLOWER", count=1))
    error = _sent(bench, producer, b"again").error
    expect(error is None, f"a record was not sent again after NOT_LEADER_OR_FOLLOWER: {error}")
    found = _read_all(bench, 2)
    expect(found == [b"before", b"again"], f"after an idempotent retry the partition has {found}")


def a_record_that_may_be_stored_is_not_reported_as_never_sent(bench: Bench) -> None:
    producer = bench.producer(retries=0, delivery_timeout_s=5.0)
    bench.send(producer, [b"before"])
    bench.answer(Rule(ANSWER, ("Produce",), RESPONSE, error="REQUEST_TIMED_OUT"))
    error = _sent(bench, producer, b"stored").error
    bench.answer()
    if error is None:
        return  # a library that cannot be kept from sending again, which was acknowledged after the rule had ended
    expect(error.code != NEVER_SENT_CODE, f"the program reported that a stored record was never sent: {error.text}")


def a_refused_fetch_loses_no_records(bench: Bench) -> None:
    sent = [str(number).encode() for number in range(20)]
    bench.send(bench.producer(), sent)
    bench.answer(Rule(ANSWER, ("Fetch",), RESPONSE, error="NOT_LEADER_OR_FOLLOWER", count=2))
    found = _read_all(bench, len(sent))
    expect(found == sent, f"after two Fetch errors (NOT_LEADER_OR_FOLLOWER) the records were read as {found}")


def _end_refused(bench: Bench, end: Callable[[ExecProducer], None], error: str) -> ClientError | None:
    """Sends a record in a transaction, then calls `end` while one EndTxn request fails with `error`.

    Returns the ClientError that `end` raised, or None.
    """
    producer = bench.producer(txn=True)
    producer.init(CASE_S)
    producer.begin()
    bench.send(producer, [b"x"])
    bench.answer(Rule(ANSWER, ("EndTxn",), error=error, count=1))
    try:
        end(producer)
    except ClientError as found:
        return found
    return None


def _commit(producer: ExecProducer) -> None:
    producer.commit(CASE_S)


def _abort(producer: ExecProducer) -> None:
    producer.abort(CASE_S)


def a_commit_that_is_fenced_is_a_fatal_error(bench: Bench) -> None:
    error = _end_refused(bench, _commit, "PRODUCER_FENCED")
    expect(error is not None, "a commit was acknowledged that the coordinator had refused (PRODUCER_FENCED)")
    assert error is not None
    expect(error.kind == "fatal", f"PRODUCER_FENCED was reported as {error.kind}, not fatal: {error}")


def a_commit_is_sent_again_to_the_new_coordinator(bench: Bench) -> None:
    error = _end_refused(bench, _commit, "NOT_COORDINATOR")
    expect(error is None, f"a commit was not sent again after NOT_COORDINATOR: {error}")
    found = _read_all(bench, 1)
    expect(found == [b"x"], f"after a commit that was sent again, read_committed gave {found}")


def an_abort_that_is_sent_again_commits_nothing(bench: Bench) -> None:
    _end_refused(bench, _abort, "COORDINATOR_NOT_AVAILABLE")
    found = _read_all(bench, 0)
    expect(not found, f"after an abort whose first request was refused, read_committed gave {found}")


def a_refused_commit_of_offsets_is_an_error(bench: Bench) -> None:
    bench.send(bench.producer(), [b"0", b"1"])
    consumer = member(bench, f"{bench.topic}-group")
    expect(len(bench.read(consumer, 2)) == 2, "a group of one member did not read two records")
    bench.answer(Rule(ANSWER, ("OffsetCommit",), error="GROUP_AUTHORIZATION_FAILED"))
    try:
        consumer.commit({bench.at(): 1}, 10.0)
    except ClientError:
        return
    expect(False, "a commit of offsets was acknowledged that the coordinator had refused (GROUP_AUTHORIZATION_FAILED)")


ERROR_CASES: Final = tuple(
    Case(run.__name__.replace("_", " "), needs, run)
    for run, needs in (
        (a_refused_record_is_an_error_with_its_name, ("produce",)),
        (a_record_is_sent_again_to_the_new_leader, ("produce", "consume", "idempotence")),
        (a_record_that_may_be_stored_is_not_reported_as_never_sent, ("produce",)),
        (a_refused_fetch_loses_no_records, ("produce", "consume")),
        (a_commit_that_is_fenced_is_a_fatal_error, ("transactions",)),
        (a_commit_is_sent_again_to_the_new_coordinator, ("transactions", "consume")),
        (an_abort_that_is_sent_again_commits_nothing, ("transactions", "consume")),
        (a_refused_commit_of_offsets_is_an_error, ("groups",)),
    )
)
