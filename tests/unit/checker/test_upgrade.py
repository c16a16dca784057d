"""What an upgrade must keep: features, records, committed offsets, an open transaction."""

from __future__ import annotations

from typing import Any

import pytest

from checker.checks import upgrade

LEFT = {"values": ["a", "b"], "offsets": {"g": 7}, "in_transaction": "t"}
FOUND: dict[str, Any] = {"values": ["a", "b", "t"], "offsets": {"g": 7, "txn": 7}, "commit": "", "open_s": 40.0}


def report(time_ns: int, server: str, epoch: int, level: int, final: bool = False) -> dict[str, Any]:
    levels = {"metadata.version": level} if level else {}
    return {"time_ns": time_ns, "detail": server, "epoch": epoch, "levels": levels, "final": final}


FINALIZED = {"verb": "finalize", "begun_ns": 50, "asked": {"metadata.version": 27}, "took_effect": True}
DOWNGRADED = {"verb": "downgrade", "begun_ns": 80, "nodes": [], "asked": {"metadata.version": 21}}


def test_levels_that_only_rise_are_no_regression() -> None:
    reports = [report(1, "n1", 10, 21), report(60, "n1", 90, 27), report(61, "n2", 40, 21), report(70, "n2", 95, 27)]
    assert upgrade.regressions(reports, [FINALIZED]) == []


def test_a_server_that_is_behind_is_no_regression_until_the_end() -> None:
    behind = [report(60, "n1", 90, 27), report(70, "n2", 40, 21)]
    assert upgrade.regressions(behind, [FINALIZED]) == []
    (row,) = upgrade.regressions([*behind, report(99, "n2", 40, 21, final=True)], [FINALIZED])
    assert (row["server"], row["level"], row["before"]) == ("n2", 21, 27)


@pytest.mark.parametrize("level", [21, 0])
def test_a_lower_level_at_a_later_epoch_is_a_regression(level: int) -> None:
    (row,) = upgrade.regressions([report(60, "n1", 90, 27), report(70, "n2", 91, level)], [FINALIZED])
    assert row == {
        "server": "n2", "feature": "metadata.version", "level": level, "epoch": 91, "before": 27, "at": "n1"
    }  # fmt: skip


def test_other_levels_at_the_same_epoch_are_a_regression() -> None:
    assert upgrade.regressions([report(60, "n1", 90, 27), report(61, "n2", 90, 21)], [])


def test_after_a_request_to_downgrade_lower_levels_are_expected() -> None:
    reports = [report(60, "n1", 90, 27), report(81, "n1", 120, 21), report(99, "n1", 120, 21, final=True)]
    assert upgrade.regressions(reports, [FINALIZED, DOWNGRADED]) == []


def test_a_downgrade_that_was_refused_lowers_nothing_and_one_without_an_answer_may() -> None:
    reports = [report(60, "n1", 90, 27), report(81, "n1", 120, 21)]
    assert upgrade.regressions(reports, [FINALIZED, {**DOWNGRADED, "refused": "no"}])
    unanswered = {"verb": "downgrade", "begun_ns": 80, "took_effect": False}  # the op failed with an error
    assert upgrade.regressions(reports, [FINALIZED, unanswered]) == []


def test_a_server_without_metadata_and_a_broker_with_zookeeper_prove_nothing() -> None:
    """As during a migration that goes back: a controller that is new, then brokers with ZooKeeper again."""
    brokers = [{**report(99, name, epoch, 0), "levels": {}} for name, epoch in (("n1", 0), ("n2", 2))]
    assert upgrade.regressions([report(10, "c2", 0, 1), report(12, "c1", 4, 21), *brokers], [{"verb": "migrate"}]) == []


def test_kraft_version_has_no_epoch() -> None:
    ahead, behind = report(60, "n1", 90, 27), report(61, "n2", 90, 27)
    ahead["levels"]["kraft.version"] = 1
    assert upgrade.regressions([ahead, behind], []) == []


def test_what_was_left_and_is_there_is_no_witness() -> None:
    assert upgrade.records_lost(LEFT, FOUND) == []
    assert upgrade.offsets_lost(LEFT, [{"detail": "found", **FOUND}]) == []
    assert upgrade.transaction_lost(LEFT, FOUND) == []


def test_records_that_are_missing_or_others_are_witnesses() -> None:
    assert upgrade.records_lost(LEFT, {**FOUND, "values": ["a", "x", "t"]}) == [
        {"offset": 1, "sent": "b", "found": "x"}
    ]
    assert upgrade.records_lost(LEFT, {**FOUND, "values": ["a"]}) == [{"offset": 1, "sent": "b", "found": None}]


def test_an_offset_that_was_reset_is_a_witness() -> None:
    events = [{"detail": "changed", "offsets": {"g": None}}, {"detail": "found", **FOUND}]
    assert upgrade.offsets_lost(LEFT, events) == [{"group": "g", "committed": 7, "found": None, "when": "changed"}]


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        ({"commit": "INVALID_TXN_STATE: no"}, True),
        ({"commit": "_FENCED: fenced"}, True),
        ({"commit": "_TIMED_OUT: no answer"}, False),
        ({"commit": "_FENCED: fenced", "open_s": 899.0}, False),  # its timeout may have ended it
        ({"values": ["a", "b"]}, True),
        ({"offsets": {"g": 7, "txn": None}}, True),
        ({"commit": None}, False),
    ],
)
def test_a_transaction_is_lost_if_its_commit_is_refused_or_partial(found: dict[str, Any], lost: bool) -> None:
    assert bool(upgrade.transaction_lost(LEFT, {**FOUND, **found})) is lost


def test_a_server_that_does_not_start_is_a_finding_only_if_its_version_starts() -> None:
    ended = {"verb": "upgrade", "nodes": ["n1"], "version": "4.4.0", "ended": "FATAL"}
    assert upgrade.not_started([{**ended, "trial": "it ended with code 1"}, {"verb": "upgrade"}]) == []
    (why,) = upgrade.not_judged([{**ended, "trial": "it ended with code 1"}, {"verb": "upgrade"}])
    assert why.endswith("; alone on empty folders: it ended with code 1")
    assert list(upgrade.not_judged([{**ended, "trial": "starts"}])) == []
    assert upgrade.not_started([{**ended, "trial": "starts"}]) == [
        {"server": "n1", "version": "4.4.0", "error": "FATAL"}
    ]


def test_an_upgrade_that_was_not_completed_is_a_reason() -> None:
    step = {"fault": "upgrade:next", "complete": False, "versions": {"n1": "4.4.0", "n2": "4.3.1"}}
    (reason,) = upgrade.undone([step], ["kill:leader", "upgrade:next"])
    assert reason.startswith("upgrade:next was not completed; n1: 4.4.0, n2: 4.3.1")
    assert list(upgrade.undone([{**step, "complete": True}], ["upgrade:next"])) == []
    assert list(upgrade.undone([], ["upgrade:next"]))


def test_a_migration_that_goes_back_need_not_be_complete() -> None:
    done = [{"fault": "migrate:to-kraft", "complete": False}, {"fault": "migrate:back", "complete": True}]
    assert list(upgrade.undone(done, ["migrate:to-kraft", "migrate:back"])) == []
    assert list(upgrade.undone(done[:1], ["migrate:to-kraft"]))
