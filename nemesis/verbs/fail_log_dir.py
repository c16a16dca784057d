"""fail-log-dir: one log directory of a server fails, while its other directories and the server keep working.

The server marks the directory as offline when it next fails to open a file there. Other servers then lead the
partitions whose logs are in the directory. A server uses a failed directory again only after a restart, so the server
is stopped, the directory repaired, and the server started. Its logs are as they were: they must catch up. Source:
KIP-112; KIP-858 for KRaft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.model.capabilities import LogDirs, Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.protocol.error_codes import TopicPartition
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes
from nemesis.shared.effects import effect_s, hit, stopped, wait_for
from nemesis.targets import Facts
from nemesis.verb import Verb
from nemesis.verbs.kill import start
from nemesis.verbs.move_log_dir import places

LEADERS_S: Final = 5.0  # the controller learns of an offline directory by the next heartbeat


def _fail(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    """Makes the last directory of each node fail. Returns how many of the run's logs were in it."""
    cluster, prefix = env.cluster, env.roles.topic_prefix()
    assert isinstance(cluster, LogDirs)
    logs = {}
    for node in nodes:
        where = places(cluster.log_dirs(node), prefix)
        failed = cluster.fail_log_dir(node)
        logs[node] = sum(path == failed for path in where.values())
    return {"logs": logs} | ({} if any(logs.values()) else {"took_effect": False})


def _offline(env: Env, before: Facts, nodes: Sequence[str]) -> dict[str, Any]:
    """Waits until every node reports an offline directory, and other nodes lead the partitions that it led there.

    A partition that no other in-sync replica can lead stays without a leader.
    """
    cluster, prefix = env.cluster, env.roles.topic_prefix()
    assert isinstance(cluster, LogDirs)
    offline: dict[str, list[str]] = {}
    lost: dict[TopicPartition, str] = {}

    def all_offline() -> bool:
        for node in nodes:
            dirs = cluster.log_dirs(node)
            offline[node] = sorted(path.rpartition("/")[2] for path, each in dirs.items() if each.error)
            left = places(dirs, prefix)  # an offline directory lists no logs
            led = [at for at, leader in before.leaders.items() if leader == node]
            lost.update({at: node for at in led if offline[node] and at not in left})
        return all(offline[node] for node in nodes)

    everywhere = bool(wait_for(all_offline, effect_s(env)))
    moved: dict[str, str] = {}

    def all_moved() -> bool:
        now = env.roles.leaders()
        found = {at: now.get(at) for at, node in lost.items() if now.get(at) not in (None, node)}
        moved.update({f"{at[0]}-{at[1]}": str(node) for at, node in found.items()})
        return len(found) == len(lost)

    wait_for(all_moved, min(LEADERS_S, effect_s(env)))
    return hit(nodes, everywhere, offline=offline, new_leaders=moved)


def _mend(env: Env, nodes: Sequence[str]) -> None:
    cluster = env.cluster
    assert isinstance(cluster, LogDirs)
    for node in nodes:
        stopped(env, node)
        cluster.mend_log_dir(node)
    start(env, nodes)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"fail-log-dir:{target}"
    begin, end = fault_op("fail-log-dir", name, target, "start"), fault_op("mend-log-dir", name, target, "stop")
    nemesis = BrokenNodes(target, "fail-log-dir", "mend-log-dir", _fail, _mend, effect=_offline)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (LogDirs, Processes), takes_turns=True)


VERB: Final = Verb(
    "make one log directory of a server fail; the directory is repaired and the server restarted later",
    _fault,
    nodes_min=2,
)
