"""Compares the replayed metadata log with what servers used and reported: leader epochs, topics and configurations.

A leader epoch in a server's leader-epoch-checkpoint, or in an answer to Metadata, began with a record of the metadata
log that named the leader. A topic that the cluster acknowledged to have created is in the log, unless the run deleted
topics. A configuration that the cluster acknowledged was set by a record.
Sources: KIP-101, KIP-320, KIP-631; Kafka documentation, Admin API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checker.disk.metadata.image import NO_LEADER, OF_TOPIC, PARTITIONS, TOPICS
from checker.disk.metadata.node_log import NodeLog
from checker.disk.metadata.replay import Replayed
from checker.disk.metadata.witnesses import ADMIN, EPOCHS, Found

Leaders = Sequence[tuple[str, int, int, int]]


def checkpoints(run: Replayed, logs: Sequence[NodeLog]) -> tuple[list[Found], int]:
    """Compares the servers' leader-epoch-checkpoints. Returns (witnesses, number of epochs compared)."""
    found, compared = list[Found](), 0
    for log in logs:
        for folder, (topic_id, epochs) in sorted(log.leader_epochs.items()):
            topic, _, number = folder.rpartition("-")
            if not number.isdecimal():
                continue
            ids = {topic_id} if topic_id else run.names.get(topic, set())
            known = [history for one in ids if (history := run.epochs.get((one, int(number))))]
            for epoch in epochs if len(known) == 1 else ():
                history = known[0]
                if epoch.epoch < min(history):
                    continue  # before the snapshot with which the replay began
                compared += 1
                if history.get(epoch.epoch, NO_LEADER) == NO_LEADER:
                    place = f"{log.node}, leader-epoch-checkpoint of {folder}"
                    seen = f"leader epoch {epoch.epoch} from offset {epoch.start}"
                    found.append(Found(EPOCHS, place, seen, _known(history)))
    return found, compared


def metadata_answers(run: Replayed, leaders: Leaders) -> tuple[list[Found], int]:
    """Compares brokers' answers to Metadata. Returns (witnesses, number of leaders compared)."""
    found, compared = list[Found](), 0
    for topic, number, leader, epoch in leaders:
        histories = [run.epochs.get((one, number), {}) for one in sorted(run.names.get(topic, ()))]
        if run.base and (not histories or any(history and epoch < min(history) for history in histories)):
            continue  # it may be from before the snapshot with which the replay began
        compared += 1
        if not any(history.get(epoch) == leader for history in histories):
            seen = f"leader {leader} in epoch {epoch}"
            expected = "; ".join(map(_known, histories)) or "a topic that is in the log"
            found.append(Found(EPOCHS, f"an answer to Metadata about {topic}-{number}", seen, expected))
    return found, compared


def _known(history: Mapping[int, int]) -> str:
    newest = sorted(history)[-4:]
    shown = ", ".join(f"{epoch} (leader {history[epoch] if history[epoch] >= 0 else 'none'})" for epoch in newest)
    return f"one of the leader epochs in the log, the newest of which are {shown}"


def topics(run: Replayed, created: Mapping[str, Any], deleted: bool) -> Iterator[Found]:
    """Yields the topics that the cluster acknowledged to have created and that are not in the log as created.

    created  {"names", "partitions": per topic, "config"}
    deleted  whether the run deleted topics, so that a topic may be gone
    """
    ids = {name: topic_id for topic_id, name in run.image.parts[TOPICS].items()}
    for name in created.get("names", ()):
        topic_id = ids.get(name)
        if topic_id is None and deleted and (run.base or run.names.get(name)):
            continue
        if topic_id is None:
            seen = "it was deleted" if run.names.get(name) else "no record creates it"
            yield Found(ADMIN, f"topic {name}", seen, "its creation was acknowledged, and it was not deleted")
            continue
        have = {number for one, number in run.image.parts[PARTITIONS] if one == topic_id}
        missing = sorted(set(range(int(created.get("partitions", 0)))) - have)
        if missing:
            seen = f"it has no partition {', '.join(map(str, missing))}"
            yield Found(ADMIN, f"topic {name}", seen, f"{created['partitions']} partitions, as acknowledged")
        yield from configs(run, [name], created.get("config", {}))


def configs(run: Replayed, names: Sequence[str], values: Mapping[str, str]) -> Iterator[Found]:
    """Yields the settings of topics that the cluster acknowledged and that no record sets."""
    for name in names:
        for setting, value in sorted(values.items()):
            if value not in run.values.get((OF_TOPIC, name, setting), ()):
                yield Found(ADMIN, f"topic {name}", f"no record sets {setting}={value}", "the setting was acknowledged")


def some_topic_has(run: Replayed, values: Mapping[str, str]) -> Iterator[Found]:
    """Yields the acknowledged settings that no record sets for any topic."""
    for setting, value in sorted(values.items()):
        if not any(at[0] == OF_TOPIC and at[2] == setting and value in set_to for at, set_to in run.values.items()):
            seen = f"no record sets {setting}={value}"
            yield Found(ADMIN, "the topics of the run", seen, "the setting was acknowledged")
