"""The member that tests whether a group settles, beside a member of a new group."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.clients.group_probe import CLIENT_ID, GroupProbe
from harness.clients.settings import Settings, parse_settings
from harness.protocol.error_codes import ClientError
from tests.unit.clients.fake import FakeConsumer, FakeLibrary

SETTINGS = parse_settings({"bootstrap": "x:1", "run": "r", "auto_commit": True})
OTHER = ["reports", "/10.0.0.7"]


class Groups:
    """The coordinator's answers."""

    def __init__(self, error: str = "") -> None:
        self.error = error

    def group(self, group: str, timeout_s: float = 5.0) -> dict[str, Any]:
        assert group == "r-group"
        if self.error:
            raise ClientError(self.error, "loading")
        return {"state": "STABLE", "members": [[CLIENT_ID, "/10.0.0.1"], OTHER]}


class Library(FakeLibrary):
    """The run's group never gives partitions to a member, if `stuck`."""

    def __init__(self, stuck: bool) -> None:
        super().__init__()
        self.stuck, self.made = stuck, dict[str, Settings]()

    def consumer(self, made: Settings) -> FakeConsumer:
        self.made[made.group_id] = made
        consumer = super().consumer(made)
        if self.stuck and made.group_id == "r-group":
            consumer.subscribe = lambda topics, rebalanced: None  # type: ignore[method-assign]
        return consumer


def _looked(stuck: bool, until: Callable[[dict[str, Any]], bool], error: str = "") -> tuple[Library, dict[str, Any]]:
    """Returns the library, and the first look at which the condition holds."""
    library, groups = Library(stuck), Groups(error)
    probe = GroupProbe(library, groups, SETTINGS, ["r-0"])  # type: ignore[arg-type]
    deadline = time.monotonic() + 5
    try:
        while not until(seen := probe.look(1.0)) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        probe.stop()
    assert all(consumer.left for consumer in library.consumers)
    return library, seen


def test_both_members_are_served() -> None:
    library, seen = _looked(False, lambda seen: None not in (seen["assigned_s"], seen["new_assigned_s"]))
    assert seen["assigned_s"] is not None and seen["new_assigned_s"] is not None
    assert (seen["group"], seen["state"], seen["others"], seen["errors"]) == ("r-group", "STABLE", [OTHER], [])
    assert library.made.keys() == {"r-group", "r-group-new"}
    for made in library.made.values():
        assert not made.auto_commit and made.consumer_config["client.id"] == CLIENT_ID


def test_only_the_member_of_the_new_group_is_served() -> None:
    _, seen = _looked(True, lambda seen: seen["new_assigned_s"] is not None)
    assert seen["assigned_s"] is None


def test_the_state_is_unknown_if_the_coordinator_does_not_tell() -> None:
    _, seen = _looked(True, lambda seen: True, "COORDINATOR_LOAD_IN_PROGRESS")
    assert seen["state"].startswith("UNKNOWN (COORDINATOR_LOAD_IN_PROGRESS") and seen["others"] == []
