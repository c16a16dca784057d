"""Reads from the brokers' checkpoint files how far the log cleaner has cleaned each partition.

The file cleaner-offset-checkpoint has a version, a count, and for each partition a line `topic partition offset`. The
line says that the log below the offset has been cleaned. Each broker cleans its own replicas, and any replica may
become leader. Therefore the highest offset among the replicas of a partition counts. Source: Kafka documentation,
Design, 4.8 Log Compaction; Kafka's LogCleanerManager.
"""

from __future__ import annotations

from typing import Final

from harness.model.capabilities import Checkpoints, offers
from harness.model.errors_and_exit_codes import ClusterTrouble, HarnessError
from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import admin
from nemesis.shared.placement import At, node_of, placed

FILE: Final = "cleaner-offset-checkpoint"


def offsets(text: str) -> dict[At, int]:
    """Parses the text of one or more checkpoint files. Returns (topic, partition) -> highest offset."""
    found: dict[At, int] = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
            at = parts[0], int(parts[1])
            found[at] = max(found.get(at, 0), int(parts[2]))
    return found


def _of_node(env: Env, node: str) -> dict[At, int] | None:
    """Returns (topic, partition) -> the offset up to which the node's cleaner has cleaned; None if that is unknown."""
    if not offers(env.cluster, Checkpoints):
        return None
    try:
        return offsets(env.cluster.checkpoint(node, FILE))
    except HarnessError:
        return None


def cleaned(env: Env, in_sync: bool = False) -> list[list[int]]:
    """Returns [key, offset]: the offset up to which the key's log has been cleaned, or 0 if it has not been cleaned.

    Keys are left out if the checkpoint of one of their replicas could not be read.

    in_sync  leave out keys with a replica out of sync, because a broker that is cut off cleans with outdated settings
    """
    try:
        return _by_key(env, in_sync)
    except ClusterTrouble:
        return []


def _by_key(env: Env, in_sync: bool) -> list[list[int]]:
    rows = [row for row in placed(env) if not in_sync or row.isr == set(row.replicas)]
    replicas = {row.at: [node_of(env, broker) for broker in row.replicas] for row in rows}
    by_node = {node: _of_node(env, node) for node in {node for nodes in replicas.values() for node in nodes}}
    found = []
    for key, topic, number in admin(env, "places"):
        checkpoints = [by_node[node] for node in replicas.get((topic, number), ())]
        readable = [each for each in checkpoints if each is not None]
        if readable and len(readable) == len(checkpoints):
            found.append([key, max(each.get((topic, number), 0) for each in readable)])
    return sorted(found)


def further(before: list[list[int]], after: list[list[int]]) -> list[list[int]]:
    """Returns [key, offset] for the keys that are in both lists, with the higher of their two offsets."""
    later = {row[0]: row[1] for row in after}
    return [[key, max(offset, later[key])] for key, offset in before if key in later]
