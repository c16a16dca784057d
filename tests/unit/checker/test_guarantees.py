"""Which settings rule out which anomalies, and how faults change that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.anomalies.catalogue import CATALOGUE
from checker.checks import queue
from harness.model.check_options import CheckOptions, InternalTopic, Settings
from nemesis import table as nemeses
from nemesis.targets import CLIENT_TARGETS, EVERY_NODE
from tests.unit.checker.promises import ALL, NEVER, ONE, SAFE, TABLE, Row, expected

NAMES: Final = sorted({name for group in ALL for name in group} | {*NEVER})


def promised(name: str, settings: Settings) -> bool | None:
    return CATALOGUE[name].promised(settings)


# --- the table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_is_promised(row: Row) -> None:
    settings = replace(SAFE, **row.changes)
    assert {name: promised(name, settings) for name in NAMES} == expected(row)
    assert row.source


def test_every_anomaly_of_records_is_in_the_table() -> None:
    records = {name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"}
    assert records <= {*NAMES}


def test_nothing_is_known_of_a_history_without_a_plan() -> None:
    assert promised("G1c-realtime", Settings()) is True
    for name in {*NAMES} - {*NEVER, "G1c-realtime", "phantom-read"}:
        assert promised(name, Settings()) is None, name
    assert promised("lost-write", Settings(acks="1")) is False
    assert promised("G1a", Settings(txn=False)) is None, "faults are not known either"


@pytest.mark.parametrize("name", ["duplicate", "nonmonotonic-send", "int-nonmonotonic-send", "poll-skip"])
def test_no_retries_is_not_exactly_once(name: str) -> None:
    """librdkafka retries after NOT_LEADER and similar errors, whatever the value of `retries`."""
    settings = replace(SAFE, idempotence=False, txn=False, retries=0)
    assert promised(name, settings) is False
    assert promised(name, replace(settings, idempotence=None)) is None


def test_lost_parts_of_a_transaction_were_promised_to_every_reader() -> None:
    uncommitted = replace(SAFE, isolation_level="read_uncommitted")
    lost, aborted = {"lost": 1, "aborted": False}, {"lost": 0, "aborted": True}
    torn = CATALOGUE["torn-transaction"]
    assert torn.promised(uncommitted, [lost, aborted]) is True
    assert torn.promised(uncommitted, [aborted]) is False
    assert torn.promised(SAFE, [aborted]) is True
    assert torn.promised(replace(uncommitted, acks="1"), [lost]) is False


# --- a weaker setting never promises more ---------------------------------------------------------------

# The values of each setting, strongest first; unknown values are between them.
TOPICS: Final = (
    InternalTopic(3, 2, False, 1),
    InternalTopic(3, 2, False),
    InternalTopic(2, 1, False),
    InternalTopic(1, 1, False),
    InternalTopic(1, 1, True),
)
STRONGEST_FIRST: Final[Mapping[str, tuple[Any, ...]]] = {
    "acks": ("all", None, "1", "0"),
    "idempotence": (True, None, False),
    "max_in_flight": (1, 5, 6),
    "isolation_level": ("read_committed", None, "read_uncommitted"),
    "replication": (5, 3, 2, 1),
    "min_insync_replicas": (3, 2, 1),
    "unclean_election": (False, None, True),
    "cleanup_policy": ("delete", "compact"),
    "flush_messages": (1, None),
    "sub_via": (frozenset({"assign"}), frozenset({"assign", "subscribe"})),
    "group_protocol": ("classic", "share"),
    "eligible_leader_replicas": (True, None, False),
    "producer_id_expiration_ms": (1 << 40, 1000),
    "check_crcs": (True, None, False),
    "offsets_topic": TOPICS,
    "commit_acks": ("all", "1"),
    "transactions_topic": TOPICS,
    "damaged_copies": (0, 1, 2, EVERY_NODE),
    "unsynced_copies": (0, 1, 2, EVERY_NODE),
}
RANK: Final = {False: 0, None: 1, True: 2}
PLACES: Final = st.fixed_dictionaries(
    {name: st.tuples(*[st.integers(0, len(values) - 1)] * 2) for name, values in STRONGEST_FIRST.items()}
)


@given(PLACES, st.sampled_from([True, False, None]))
def test_what_is_weaker_never_promises_more(places: Mapping[str, tuple[int, int]], txn: bool | None) -> None:
    def made(which: Any) -> Settings:
        return Settings(txn=txn, **{name: STRONGEST_FIRST[name][which(two)] for name, two in places.items()})

    strong, weak = made(min), made(max)
    if weak.replication == 1 and weak.acks in ("1", None):  # with one replica, its acknowledgement is that of all
        weak = replace(weak, acks="0")
    for name in NAMES:
        assert RANK[promised(name, weak)] <= RANK[promised(name, strong)], name


FAULTS: Final = sorted(
    f"{verb}:{target}" for verb, row in nemeses.VERBS.items() for target in row.targets if target not in CLIENT_TARGETS
)
TAKE_COPIES: Final = {
    "power-loss",
    "flip-bits",
    "truncate-tail",
    "stale-chunks",
    "damage-index",
    "delete-checkpoint",
    "elect-unclean",
}
PLANS: Final = (
    SAFE,
    replace(SAFE, replication=1, min_insync_replicas=1),
    replace(SAFE, flush_messages=1, eligible_leader_replicas=None),
    replace(SAFE, acks="1", idempotence=False, txn=False),
    Settings(),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_never_promises_more(fault: str) -> None:
    for settings in PLANS:
        for scheduled in ((), (fault,)):
            left = nemeses.weakened(settings, [fault], scheduled)
            for name in NAMES:
                assert RANK[promised(name, left)] <= RANK[promised(name, settings)], name
    left = nemeses.weakened(SAFE, [fault], [fault])
    assert promised("duplicate", left) is (fault.partition(":")[0] not in TAKE_COPIES)


def test_only_killed_servers_keep_their_copies() -> None:
    """One replica suffices if no fault destroys it."""
    one = replace(SAFE, replication=1, min_insync_replicas=1, offsets_topic=ONE, transactions_topic=ONE)
    for fault in ("kill:all", "pause:leader", "isolate:leader", "restart:all", "disk-full:one"):
        assert promised("lost-write", nemeses.weakened(one, [fault])) is True, fault
    for fault in ("power-loss:one", "truncate-tail:one"):
        assert promised("lost-write", nemeses.weakened(one, [fault])) is False, fault


# --- sources --------------------------------------------------------------------------------------------


def test_every_guarantee_has_its_source() -> None:
    guarantees = [anomaly.guarantee for anomaly in CATALOGUE.values() if anomaly.guarantee is not None]
    assert all(guarantee.says and guarantee.source for guarantee in guarantees)


def test_sources_can_be_found_by_a_reader() -> None:
    """No source is a file outside the repository."""
    sources = [anomaly.guarantee.source for anomaly in CATALOGUE.values() if anomaly.guarantee is not None]
    sources += [anomaly.source for anomaly in CATALOGUE.values()]
    assert [source for source in sources if re.search(r"document \d|\.md", source)] == []


# --- cycles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compatible", [False, True])
def test_only_a_cycle_that_no_order_of_events_explains_is_promised_not_to_be(compatible: bool) -> None:
    options = CheckOptions(settings=SAFE, jepsen_compatible=compatible)
    for name in ("G1c", "G1c-realtime"):
        for impossible in (False, True):
            (found,) = queue._cycle_anomalies({name: [{"forbidden": impossible}]}, options)
            assert found.promised is impossible, name
