"""Which settings forbid which anomalies."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from checker.anomalies.catalogue import CATALOGUE
from harness.model.check_options import Settings

SAFE = Settings(
    acks="all",
    retries=5,
    max_in_flight=5,
    idempotence=True,
    txn=True,
    isolation_level="read_committed",
    replication=3,
    min_insync_replicas=2,
    unclean_election=False,
)


def promised(name: str, settings: Settings) -> bool | None:
    return CATALOGUE[name].promised(settings)


def test_safe_settings_forbid_everything_that_is_bad() -> None:
    records = [name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"]
    for name in {*records} - {"int-send-skip"}:
        assert promised(name, SAFE) is True, name
    assert promised("int-send-skip", SAFE) is False


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({"acks": "1"}, {"lost-write", "unseen", "nonmonotonic-send", "torn-transaction"}),
        ({"min_insync_replicas": 1}, {"lost-write", "unseen", "inconsistent-offsets"}),
        ({"replication": 1}, {"lost-write"}),
        ({"unclean_election": True}, {"lost-write", "inconsistent-offsets"}),
        ({"idempotence": False, "txn": False}, {"duplicate", "nonmonotonic-send", "poll-skip"}),
        ({"group_protocol": "share"}, {"poll-skip", "nonmonotonic-poll", "offset-regression"}),
        ({"cleanup_policy": "compact"}, {"poll-skip", "int-poll-skip"}),
        ({"unclean_election": True}, {"offset-regression", "stale-send"}),
        ({"isolation_level": "read_uncommitted"}, {"G1c", "G1c-process"}),
        ({"isolation_level": "read_uncommitted"}, {"G1a", "precommitted-read", "torn-transaction"}),
    ],
)
def test_weaker_settings_forbid_less(changes: dict[str, object], allowed: set[str]) -> None:
    settings = replace(SAFE, **changes)  # type: ignore[arg-type]
    for name in allowed:
        assert promised(name, settings) is False, name
    assert promised("phantom-read", settings) is True


def test_what_the_weaker_settings_still_forbid() -> None:
    share = replace(SAFE, group_protocol="share", sub_via=frozenset({"assign"}))
    assert promised("poll-skip", share) is True, "assigned by hand"
    compact = replace(SAFE, cleanup_policy="compact,delete")
    assert (promised("nonmonotonic-poll", compact), promised("lost-write", compact)) == (True, True)
    assert promised("poll-skip", replace(SAFE, group_protocol="consumer")) is True
    assert promised("offset-regression", replace(SAFE, acks="1")) is True, "no producer's acks"


def test_one_replica_is_durable_if_flushed() -> None:
    single = replace(SAFE, replication=1, min_insync_replicas=1)
    assert promised("lost-write", single) is False
    assert promised("lost-write", replace(single, flush_messages=1)) is True
    assert promised("lost-write", replace(single, flush_messages=2)) is False
    assert promised("lost-write", replace(single, flush_messages=1, acks="1")) is True
    assert promised("lost-write", replace(single, flush_messages=1, acks="0")) is False
    assert promised("lost-write", replace(SAFE, flush_messages=1, acks="1")) is False


def test_cycles() -> None:
    """Writes are never isolated; what is polled hangs on nothing that comes later."""
    for name in ("G0", "G0-process", "G0-realtime", "G-single", "G2-item", "PL-1-cycle-exists"):
        assert promised(name, SAFE) is False, name
    assert promised("G1c", SAFE) is True
    assert promised("G1c", replace(SAFE, isolation_level=None)) is None
    assert promised("G1c-realtime", Settings()) is True


@pytest.mark.parametrize("name", ["duplicate", "nonmonotonic-send", "int-nonmonotonic-send", "poll-skip"])
def test_no_retries_is_not_exactly_once(name: str) -> None:
    """librdkafka sends again after NOT_LEADER and the like whatever `retries` says."""
    settings = replace(SAFE, idempotence=False, txn=False, retries=0)
    assert promised(name, settings) is False
    assert promised(name, replace(settings, idempotence=None)) is None


def test_unknown_settings_leave_the_promise_unknown() -> None:
    assert promised("lost-write", Settings()) is None
    assert promised("lost-write", Settings(acks="1")) is False
    assert promised("duplicate", Settings()) is None
    assert promised("G1a", Settings(txn=False)) is True


def test_every_guarantee_has_its_source() -> None:
    guarantees = [anomaly.guarantee for anomaly in CATALOGUE.values() if anomaly.guarantee is not None]
    assert all(guarantee.says and guarantee.source for guarantee in guarantees)


def test_sources_can_be_found_by_a_reader() -> None:
    """None is a file that is not here."""
    sources = [anomaly.guarantee.source for anomaly in CATALOGUE.values() if anomaly.guarantee is not None]
    sources += [anomaly.source for anomaly in CATALOGUE.values()]
    assert [source for source in sources if re.search(r"document \d|\.md", source)] == []


def test_no_more_copies_may_go_than_there_are() -> None:
    for name in ("damaged_copies", "unsynced_copies"):
        assert promised("lost-write", replace(SAFE, **{name: 1})) is True
        assert promised("lost-write", replace(SAFE, **{name: 2})) is False
    flushed = replace(SAFE, flush_messages=1)
    assert promised("lost-write", replace(flushed, unsynced_copies=9)) is True
    assert promised("lost-write", replace(flushed, damaged_copies=9)) is False
