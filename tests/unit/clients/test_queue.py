"""The client's logic with a library that fails on command: how each failure completes an op."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.clients.client_protocols import BEGINNING, END, Record
from harness.clients.queue import ON_PURPOSE
from harness.model.op import polls
from harness.protocol.error_codes import ClientError
from tests.unit.clients.fake import Driver, FakeLibrary

REFUSED = ClientError("_QUEUE_FULL", "queue full")
TIMED_OUT = ClientError("_MSG_TIMED_OUT", "timed out")
TOO_LARGE = ClientError("MSG_SIZE_TOO_LARGE", "too large")
RETRIABLE = ClientError("_TIMED_OUT", "again", "retriable")
ABORTABLE = ClientError("INVALID_RECORD", "abort", "abortable")
FENCED = ClientError("_FENCED", "fenced", "fatal")


# --- sends without a transaction ---


def test_sends_come_back_with_their_offsets_in_order() -> None:
    done = Driver().do("send", [["send", 1, 10], ["send", 1, 11], ["send", 2, 10]])
    assert (done.type, done.value) == (
        "ok",
        [["send", 1, [0, 10]], ["send", 1, [1, 11]], ["send", 2, [0, 10]]],
    )


def test_the_invocation_is_not_changed() -> None:
    value = [["send", 1, 10], ["poll"]]
    Driver().do("txn", value)
    assert value == [["send", 1, 10], ["poll"]]


def test_a_refused_send_fails_and_the_client_goes_on() -> None:
    driver = Driver()
    driver.library.errors["send"] = [REFUSED]
    done = driver.do("send", [["send", 1, 10]])
    assert (done.type, done.value) == ("fail", [["send", 1, 10]])
    assert "send: _QUEUE_FULL" in done.error
    assert driver.do("send", [["send", 1, 11]]).type == "ok"


def test_a_refused_send_after_an_acknowledged_one_is_info() -> None:
    driver = Driver()
    driver.library.errors["send"] = [None, REFUSED]
    done = driver.do("send", [["send", 1, 10], ["send", 1, 11], ["send", 1, 12]])
    assert (done.type, done.value) == ("info", [["send", 1, [0, 10]], ["send", 1, 11], ["send", 1, 12]])


def test_an_uncertain_report_is_info_and_breaks_the_client() -> None:
    driver = Driver()
    driver.library.errors["report"] = [TIMED_OUT]
    assert driver.do("send", [["send", 1, 10]]).type == "info"
    assert driver.client.broken
    again = driver.do("send", [["send", 1, 11]])
    assert again.type == "fail" and "broken" in again.error
    assert driver.library.calls.count("send") == 1


CONFIG = {"bootstrap": "nowhere", "run": "r", "process": 6, "poll_ms": 0, "op_timeout_s": 0.5}


def test_a_producer_that_is_reused_goes_on_after_an_uncertain_report() -> None:
    driver = Driver(reuse_producers=True)
    driver.do("assign", [1])
    driver.library.errors["report"] = [TIMED_OUT]
    assert driver.do("send", [["send", 1, 10]]).type == "info"
    assert driver.client.reopen({**CONFIG, "reuse_producers": True})
    assert driver.do("send", [["send", 1, 11]]).type == "ok"
    assert polls(driver.do("poll", [["poll"]])) == []  # a new process has no assignment
    assert len(driver.library.producers) == 1 and driver.library.consumers[0].left is not None


@pytest.mark.parametrize(("least_s", "left_s"), [(0.05, 0.15), (0.35, 0.35)])
def test_the_time_in_which_the_consumer_closes_is_taken_from_the_next_op(
    monkeypatch: pytest.MonkeyPatch, least_s: float, left_s: float
) -> None:
    driver = Driver(reuse_producers=True)
    driver.do("assign", [1])
    driver.library.errors["report"] = [TIMED_OUT]
    driver.do("send", [["send", 1, 10]])
    clock = [100.0]
    monkeypatch.setattr("harness.clients.queue.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("harness.clients.queue.LEAST_S", least_s)

    def close(leave: bool) -> None:
        clock[0] += 0.25  # the op's patience is 0.4 s

    monkeypatch.setattr(driver.library.consumers[0], "close", close)
    assert driver.client.reopen({**CONFIG, "reuse_producers": True})
    assert driver.client._deadline() == pytest.approx(clock[0] + left_s)
    assert driver.client._deadline() == pytest.approx(clock[0] + 0.4)


@pytest.mark.parametrize("config", [{}, {"reuse_producers": True, "txn": True}])
def test_other_clients_cannot_be_reopened(config: dict[str, bool]) -> None:
    driver = Driver(**config)
    driver.do("send", [["send", 1, 10]])
    assert not driver.client.reopen({**CONFIG, **config})
    assert not driver.library.producers[0].closed


def test_a_producer_that_failed_for_good_is_not_reused() -> None:
    driver = Driver(reuse_producers=True)
    driver.library.errors["report"] = [FENCED]
    driver.do("send", [["send", 1, 10]])
    assert not driver.client.reopen({**CONFIG, "reuse_producers": True})


def test_no_report_in_time_is_info() -> None:
    driver = Driver()
    driver.library.errors["wait"] = [ClientError("_TIMED_OUT", "no report")]
    assert driver.do("send", [["send", 1, 10]]).type == "info"


@pytest.mark.parametrize(("retries", "expected"), [(0, "fail"), (None, "info"), (3, "info")])
def test_a_rejection_is_definite_only_with_retries_off(retries: int | None, expected: str) -> None:
    driver = Driver(retries=retries)
    driver.library.errors["report"] = [TOO_LARGE]
    assert driver.do("send", [["send", 1, 10]]).type == expected


@pytest.mark.parametrize(
    "code",
    [
        "NOT_LEADER_FOR_PARTITION",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "_TRANSPORT",
        "REQUEST_TIMED_OUT",
        "_PURGE_QUEUE",
        "SOMETHING_NEW",
    ],
)
def test_what_depends_on_the_moment_is_info_even_with_retries_off(code: str) -> None:
    driver = Driver(retries=0)
    driver.library.errors["report"] = [ClientError(code, "?")]
    assert driver.do("send", [["send", 1, 10]]).type == "info"


# --- polls ---


def test_polls_give_keys_with_offsets_and_values() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10], ["send", 5, 20], ["send", 1, 11]])
    driver.do("assign", [1, 5])
    done = driver.do("poll", [["poll"]])
    assert done.value == [["poll", [[1, [[0, 10], [1, 11]]], [5, [[0, 20]]]]]]
    assert driver.do("poll", [["poll"]]).value == [["poll", []]]


def test_a_poll_with_nothing_assigned_is_empty() -> None:
    driver = Driver()
    assert driver.do("poll", [["poll"]]).value == [["poll", []]]
    assert driver.library.consumers == []


def test_assign_keeps_positions_of_kept_keys_and_starts_new_ones_at_the_reset_policy() -> None:
    for policy, logical, begin, start in (
        ("earliest", False, 0, 0),
        ("earliest", True, BEGINNING, BEGINNING),
        ("latest", False, BEGINNING, END),
    ):
        driver = Driver(auto_offset_reset=policy, logical_offsets=logical)
        driver.do("send", [["send", 1, 10]])
        driver.do("assign", [1], seek_to_beginning=True)
        driver.do("poll", [["poll"]])
        driver.do("assign", [1, 2])
        driver.do("assign", [1], seek_to_beginning=True)
        assert driver.library.assigned == [
            {("r-0", 1): begin},
            {("r-0", 1): 1, ("r-0", 2): start},
            {("r-0", 1): begin},
        ]


def test_a_subscribed_poll_commits_before_it_completes() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    done = driver.do("poll", [["poll"]])
    assert polls(done) == [(1, 0, 10)]
    assert driver.library.committed == {("r-0", 1): 1}
    nothing = [[key, None] for key in range(4)]
    assert done.extra["rebalance_log"] == [{"event": "assigned", "keys": [0, 1, 2, 3], "committed": nothing}]
    assert done.extra["committed"] == [[1, 1]]
    assert "committed" not in driver.do("poll", [["poll"]]).extra, "nothing new"
    assert "rebalance_log" not in driver.do("poll", [["poll"]]).extra


def test_auto_commit_leaves_commits_to_the_library() -> None:
    driver = Driver(auto_commit=True)
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    driver.do("poll", [["poll"]])
    assert "commit_offsets" not in driver.library.calls


def test_a_refused_commit_fails_and_the_records_are_polled_again() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    driver.library.errors["commit_offsets"] = [ClientError("ILLEGAL_GENERATION", "no")]
    failed = driver.do("poll", [["poll"]])
    assert failed.type == "fail" and polls(failed) == [(1, 0, 10)]
    done = driver.do("poll", [["poll"]])
    assert done.type == "ok" and polls(done) == [(1, 0, 10)]


def test_an_uncertain_commit_is_info() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    driver.library.errors["commit_offsets"] = [ClientError("_TIMED_OUT", "no answer", "fatal")]
    assert driver.do("poll", [["poll"]]).type == "info"


def test_when_seeking_back_fails_the_consumer_is_replaced_where_it_stood() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10], ["send", 1, 11]])
    driver.do("assign", [1])
    driver.library.errors["send"] = [REFUSED]
    driver.library.errors["seek"] = [ClientError("_STATE", "no")]
    failed = driver.do("txn", [["poll"], ["send", 1, 12]])
    assert failed.type == "fail" and len(driver.library.consumers) == 2
    assert any("replaced" in note for note in failed.extra["notes"])
    assert polls(driver.do("poll", [["poll"]])) == [(1, 0, 10), (1, 1, 11)]


def test_a_failed_op_goes_back_though_earlier_polls_have_moved_on() -> None:
    driver = Driver()
    driver.do("assign", [1])
    driver.do("send", [["send", 1, 10]])
    driver.do("poll", [["poll"]])
    driver.do("send", [["send", 1, 11]])
    driver.library.errors["send"] = [REFUSED]
    assert driver.do("txn", [["poll"], ["poll"], ["send", 1, 12]]).type == "fail"
    assert polls(driver.do("poll", [["poll"]])) == [(1, 1, 11)]


def test_a_failed_op_goes_back_to_where_a_cut_off_log_began_again() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, value] for value in range(3)])
    driver.do("assign", [1])
    driver.do("poll", [["poll"]])
    driver.library.consumers[0].seek({("r-0", 1): 0}, 1.0)  # like auto.offset.reset, for a position out of range
    driver.library.errors["send"] = [REFUSED]
    assert driver.do("txn", [["poll"], ["send", 1, 9]]).type == "fail"
    assert [value for _, _, value in polls(driver.do("poll", [["poll"]]))] == [0, 1, 2]


def test_positions_of_revoked_keys_are_forgotten() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    driver.do("poll", [["poll"]])
    driver.library.committed.clear()
    driver.library.consumers[0].rebalance()
    done = driver.do("poll", [["poll"]])
    assert [event["event"] for event in done.extra["rebalance_log"]] == ["revoked", "assigned"]
    assert polls(done) == [(1, 0, 10)]


def test_from_subscribed_to_assigned_takes_a_new_consumer_and_keeps_positions() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    driver.do("poll", [["poll"]])
    driver.do("assign", [1])
    assert [consumer.left for consumer in driver.library.consumers] == [True, None]
    assert driver.library.assigned == [{("r-0", 1): 1}]


def test_foreign_topics_are_left_out_with_a_note() -> None:
    driver = Driver()
    driver.do("assign", [1])
    driver.library.consumers[0].foreign = [Record("other-0", 0, 7, b"?")]
    done = driver.do("poll", [["poll"]])
    assert done.value == [["poll", []]] and "other-0" in done.extra["notes"][0]


def test_a_bad_payload_is_a_value_that_says_so() -> None:
    driver = Driver()
    driver.library.log.append(1, b"garbage")
    driver.do("assign", [1])
    assert polls(driver.do("poll", [["poll"]])) == [(1, 0, "bad-payload:format:" + b"garbage".hex())]


def test_passing_trouble_of_a_poll_is_noted_and_fatal_trouble_fails_it() -> None:
    driver = Driver()
    driver.do("assign", [1])
    driver.library.consumers[0].errors = [ClientError("_MAX_POLL_EXCEEDED", "slow")]
    noted = driver.do("poll", [["poll"]])
    assert noted.type == "ok" and "_MAX_POLL_EXCEEDED" in noted.extra["notes"][0]
    driver.library.consumers[0].errors = [FENCED]
    assert driver.do("poll", [["poll"]]).type == "fail"


def test_records_that_came_before_fatal_trouble_are_in_the_failed_op_and_polled_again() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("assign", [1])
    driver.library.consumers[0].errors = [FENCED]
    assert driver.do("poll", [["poll"]]).type == "fail"
    assert polls(driver.do("poll", [["poll"]])) == [(1, 0, 10)]


def test_a_consumer_that_died_is_replaced_and_its_successor_goes_on_from_there() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("assign", [1])
    assert polls(driver.do("poll", [["poll"]])) == [(1, 0, 10)]
    driver.do("send", [["send", 1, 11]])
    driver.library.errors["poll"] = [FENCED]
    failed = driver.do("poll", [["poll"]])
    assert failed.type == "fail" and "replaced" in failed.extra["notes"][0]
    assert polls(driver.do("poll", [["poll"]])) == [(1, 1, 11)] and len(driver.library.consumers) == 2
    driver.do("subscribe", [1])
    driver.library.errors["poll"] = [FENCED]
    assert driver.do("poll", [["poll"]]).type == "fail"
    assert "rebalance_log" in driver.do("poll", [["poll"]]).extra


def test_a_poll_whose_jvm_died_is_info_and_the_client_is_replaced() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("assign", [1])
    driver.library.errors["poll"] = [ClientError("_JVM", "out of memory", "fatal")]
    assert driver.do("poll", [["poll"]]).type == "info"
    assert driver.client.broken


# --- transactions ---


def test_a_transaction_commits_sends_and_offsets() -> None:
    driver = Driver(txn=True)
    assert driver.do("send", [["send", 1, 10]]).type == "ok"
    driver.do("subscribe", [1])
    done = driver.do("txn", [["poll"], ["send", 2, 10], ["poll"]])
    assert done.type == "ok"
    assert done.value == [["poll", [[1, [[0, 10]]]]], ["send", 2, [0, 10]], ["poll", []]]
    assert driver.library.committed == {("r-0", 1): 2}  # after the marker
    assert driver.library.calls.count("init") == 1


def test_assigned_polls_alone_need_no_transaction() -> None:
    driver = Driver(txn=True)
    driver.do("assign", [1])
    driver.do("poll", [["poll"]])
    assert "begin" not in driver.library.calls


def test_an_abort_on_purpose_fails_and_the_records_are_polled_again() -> None:
    driver = Driver(txn=True)
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    aborted = driver.do("txn", [["poll"], ["send", 1, 11]], abort=True)
    assert (aborted.type, aborted.error) == ("fail", ON_PURPOSE)
    assert aborted.value == [["poll", [[1, [[0, 10]]]]], ["send", 1, [2, 11]]]
    assert driver.library.committed == {}
    assert polls(driver.do("poll", [["poll"]])) == [(1, 0, 10)]


def test_trouble_before_the_commit_aborts() -> None:
    driver = Driver(txn=True)
    driver.library.errors["report"] = [TIMED_OUT]
    assert driver.do("send", [["send", 1, 10]]).type == "fail"
    assert driver.library.calls[-1] == "abort"
    assert driver.do("send", [["send", 1, 11]]).type == "ok"


def test_an_abort_without_acknowledgement_is_info() -> None:
    driver = Driver(txn=True)
    driver.library.errors["report"] = [TIMED_OUT]
    driver.library.errors["abort"] = [FENCED]
    done = driver.do("send", [["send", 1, 10]])
    assert done.type == "info" and "_MSG_TIMED_OUT" in done.error and "abort: _FENCED" in done.error


def test_a_retriable_abort_is_tried_again() -> None:
    driver = Driver(txn=True)
    driver.library.errors["abort"] = [RETRIABLE]
    assert driver.do("send", [["send", 1, 10]], abort=True).type == "fail"


def test_a_retriable_commit_is_tried_again_until_the_deadline() -> None:
    driver = Driver(txn=True)
    driver.library.errors["commit"] = [RETRIABLE, RETRIABLE]
    assert driver.do("send", [["send", 1, 10]]).type == "ok"
    driver.library.errors["commit"] = [RETRIABLE] * 1000
    assert driver.do("send", [["send", 1, 11]]).type == "info"


def test_an_abortable_commit_is_aborted_and_fails() -> None:
    driver = Driver(txn=True)
    driver.library.errors["commit"] = [ABORTABLE]
    assert driver.do("send", [["send", 1, 10]]).type == "fail"
    assert driver.library.log.read(1, 0, 9, "read_committed")[0] == []


@pytest.mark.parametrize("error", [FENCED, ClientError("UNKNOWN", "?"), ClientError("_FENCED", "done", "fatal")])
def test_any_other_trouble_with_a_commit_is_info(error: ClientError) -> None:
    driver = Driver(txn=True)
    driver.library.errors["commit"] = [error]
    assert driver.do("send", [["send", 1, 10]]).type == "info"
    assert "abort" not in driver.library.calls


def test_offsets_that_are_refused_abort_the_transaction() -> None:
    driver = Driver(txn=True)
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    driver.library.errors["send_offsets"] = [ClientError("ILLEGAL_GENERATION", "no", "abortable")]
    assert driver.do("txn", [["poll"], ["send", 2, 1]]).type == "fail"
    assert driver.library.committed == {}


@pytest.mark.parametrize("call", ["init", "begin"])
def test_trouble_before_anything_is_sent_fails_and_replaces_the_producer(call: str) -> None:
    driver = Driver(txn=True)
    driver.library.errors[call] = [FENCED]
    assert driver.do("send", [["send", 1, 10]]).type == "fail"
    assert driver.library.producers[0].closed
    assert driver.do("send", [["send", 1, 11]]).type == "ok"


# --- the rest ---


def test_a_final_poll_reports_its_positions_and_the_log_ends() -> None:
    driver = Driver(txn=True)
    driver.do("send", [["send", 1, 10]])
    driver.do("assign", [1, 2], seek_to_beginning=True, final=True)
    done = driver.do("poll", [["poll"]], final=True)
    assert done.extra == {"final": True, "positions": [[1, 2], [2, 0]], "ends": [[1, 0, 2], [2, 0, 0]]}


def test_a_key_has_no_end_while_an_open_transaction_holds_the_last_stable_offset() -> None:
    driver = Driver()
    log = driver.library.log
    left_open = log.begin()
    log.append(1, b"open", left_open)
    driver.do("send", [["send", 1, 10], ["send", 2, 20]])  # acknowledged, after the open transaction
    driver.do("assign", [1, 2], seek_to_beginning=True, final=True)
    poll = driver.do("poll", [["poll"]], final=True)
    assert polls(poll) == [(2, 0, 20)]
    assert poll.extra["positions"] == [[1, 0], [2, 1]] and poll.extra["ends"] == [[2, 0, 1]]
    (note,) = poll.extra["notes"]
    assert "key 1 0 < 2" in note and "key 2" not in note
    log.abort(left_open)
    done = driver.do("poll", [["poll"]], final=True)
    assert polls(done) == [(1, 1, 10)] and "notes" not in done.extra
    assert done.extra["positions"] == [[1, 3], [2, 1]]  # after the marker
    assert done.extra["ends"] == [[1, 0, 3], [2, 0, 1]]


def test_under_read_uncommitted_the_end_is_the_high_watermark() -> None:
    driver = Driver(isolation_level="read_uncommitted")
    driver.library.log.append(1, b"open", driver.library.log.begin())
    driver.do("assign", [1], seek_to_beginning=True, final=True)
    done = driver.do("poll", [["poll"]], final=True)
    assert done.extra["positions"] == [[1, 1]] and done.extra["ends"] == [[1, 0, 1]]
    assert driver.library.calls.count("offsets") == 1


def test_without_a_high_watermark_a_final_poll_has_no_ends() -> None:
    driver = Driver()
    driver.do("assign", [1], final=True)
    driver.library.errors["offsets"] = [None, ClientError("_TIMED_OUT", "no answer")]
    done = driver.do("poll", [["poll"]], final=True)
    assert done.type == "ok" and "ends" not in done.extra and done.extra["notes"]


def test_without_an_answer_about_the_ends_a_final_poll_has_none() -> None:
    driver = Driver()
    driver.do("assign", [1], final=True)
    driver.library.errors["offsets"] = [ClientError("_TIMED_OUT", "no answer")]
    done = driver.do("poll", [["poll"]], final=True)
    assert done.type == "ok" and "ends" not in done.extra and done.extra["notes"]


def test_debug_topic_partitions() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    done = driver.do("debug-topic-partitions", [1, 36])
    assert done.value == [
        [1, {"leader": 1, "isr": [1, 2], "start": 0, "end": 1}],
        [36, {"leader": None, "isr": [], "start": None, "end": None}],
    ]
    driver.library.errors["partitions"] = [ClientError("_TRANSPORT", "down")]
    assert driver.do("debug-topic-partitions", [1]).type == "fail"


def test_debug_gives_the_high_watermark_though_a_transaction_is_open() -> None:
    driver = Driver(isolation_level="read_committed")
    driver.library.log.append(1, b"open", driver.library.log.begin())
    ((_, facts),) = driver.do("debug-topic-partitions", [1]).value
    assert (facts["start"], facts["end"]) == (0, 1)


def test_crash_vanishes_without_a_word_to_the_group() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("subscribe", [1])
    done = driver.do("crash")
    assert (done.type, done.value) == ("info", None)
    assert driver.library.producers[0].closed and driver.library.consumers[0].left is False
    driver.client.close()


def test_close_leaves_the_group() -> None:
    driver = Driver()
    driver.do("subscribe", [1])
    driver.do("debug-topic-partitions", [1])
    driver.client.close()
    driver.client.close()
    assert driver.library.consumers[0].left is True
    assert driver.library.calls.count("close_admin") == 1


def test_an_assignment_that_the_library_refuses_fails() -> None:
    driver = Driver()
    driver.do("send", [["send", 1, 10]])
    driver.do("assign", [1])
    driver.do("poll", [["poll"]])
    driver.library.errors["assign"] = [ClientError("_STATE", "no")]
    assert driver.do("assign", [1, 2]).type == "fail"
    assert driver.do("poll", [["poll"]]).value == [["poll", []]]
    driver.do("assign", [1])
    assert driver.library.assigned[-1] == {("r-0", 1): 1}


def test_an_unknown_op_fails() -> None:
    assert Driver(FakeLibrary()).do("dance").type == "fail"
