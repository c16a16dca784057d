"""Faults on files: what was damaged decides whether they took effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.generator import op
from harness.model.capabilities import Files, offers
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.verbs.damage import REMEMBER, SUMMARIES
from tests.unit.nemesis.test_faults import FakeCluster, env_of


@dataclass
class Damaged(FakeCluster):
    """Servers of which some have files that can be damaged.

    with_files   the servers with such files
    leader_back  whether a killed server is back before another one becomes leader
    """

    with_files: frozenset[str] = frozenset()
    leader_back: bool = False
    kinds: list[str] = field(default_factory=list)

    def kill(self, node: str) -> None:
        if not self.leader_back:
            super().kill(node)

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        if kind != REMEMBER:
            self.kinds.append(kind)
        return {"file": "00.log"} if node in self.with_files else {}


def _took_effect(cluster: Damaged, name: str) -> bool:
    assert offers(cluster, Files)
    (fault,) = table.faults([name], Timing())
    env = replace(env_of(cluster), effect_s=0.0, healthy_s=0.0)
    value = fault.nemesis.invoke(env, op(name.partition(":")[0])).value
    assert cluster.kinds and set(cluster.kinds) == {name.partition(":")[0]}
    return bool(value["took_effect"])


@pytest.mark.parametrize("kind", SUMMARIES)
def test_a_damaged_file_is_an_effect_although_no_leader_moves(kind: str) -> None:
    assert _took_effect(Damaged(with_files=frozenset({"n2"}), leader_back=True), f"{kind}:n2")
    assert _took_effect(Damaged(with_files=frozenset({"n2"})), f"{kind}:all")


@pytest.mark.parametrize("kind", SUMMARIES)
def test_a_moved_leader_is_no_effect_if_no_file_was_damaged(kind: str) -> None:
    assert not _took_effect(Damaged(), f"{kind}:n2")
