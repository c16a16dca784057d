"""Each broker's view of leaders and replicas, and which view is the newest. Uses Metadata, version 7.

A broker that is partitioned from the others continues to name itself as leader. So every broker is queried, and for
each partition the response with the highest leader epoch is used (KIP-320).

Request   int32 size | int16 3 | int16 7 | int32 correlation | string client |
          int32 -1 (all topics) | bool create
Response  int32 correlation | int32 throttle | [int32 node, string host, int32 port, nullable string rack] |
          nullable string cluster | int32 controller | [int16 error, string topic, bool internal,
          [int16 error, int32 partition, int32 leader, int32 epoch, [replicas], [isr], [offline]]]
Source: https://kafka.apache.org/protocol#The_Messages_Metadata
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from harness.protocol.one_exchange import exchange
from harness.protocol.primitives import Reader, head

REQUEST: Final = head(3, 7) + struct.pack(">ib", -1, 0)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as one broker sees it.

    leader    id of the leader; None if the partition has no leader
    epoch     leader epoch
    isr       ids of the brokers with in-sync replicas
    replicas  number of assigned replicas
    """

    leader: int | None
    epoch: int
    isr: frozenset[int]
    replicas: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """What one broker reports: the registered brokers, the partitions, and the controller.

    controller  broker id or None; with KRaft this is any live broker (KIP-590), so use `quorum` instead
    """

    brokers: frozenset[int]
    partitions: Mapping[tuple[str, int], PartitionView]
    controller: int | None = None


class Answer(NamedTuple):
    """The contents of one Metadata response.

    brokers     id -> (host, port)
    partitions  (topic, partition) -> (leader, leader epoch, replicas, in-sync replicas)
    """

    brokers: Mapping[int, tuple[str, int]]
    controller: int
    partitions: Mapping[tuple[str, int], tuple[int, int, tuple[int, ...], tuple[int, ...]]]


def read(answer: Reader) -> Answer:
    """Decodes a Metadata response, from the field after the correlation id on.

    Raises struct.error if it is truncated.
    """
    answer.take("i")  # throttle time
    brokers = {}
    for _ in range(answer.take("i")):
        number, host, port = answer.take("i"), answer.text(), answer.take("i")
        answer.text()
        brokers[number] = (host, port)
    answer.text()
    controller = answer.take("i")
    partitions = {}
    for _ in range(answer.take("i")):
        answer.take("h")
        topic = answer.text()
        answer.take("b")
        for _ in range(answer.take("i")):
            _, number, leader, epoch = answer.take("hiii")
            replicas, isr, _ = answer.ints(), answer.ints(), answer.ints()
            partitions[topic, number] = (leader, epoch, replicas, isr)
    return Answer(brokers, controller, partitions)


def parse(answer: bytes) -> View:
    """Converts a Metadata response, without its leading size, to a view. Raises ValueError if it is truncated."""
    reader = Reader(answer)
    try:
        reader.take("i")  # correlation
        metadata = read(reader)
    except struct.error as error:
        raise ValueError("a Metadata answer is truncated") from error
    partitions = {
        at: PartitionView(leader if leader >= 0 else None, epoch, frozenset(isr), len(replicas))
        for at, (leader, epoch, replicas, isr) in metadata.partitions.items()
    }
    return View(frozenset(metadata.brokers), partitions, metadata.controller if metadata.controller >= 0 else None)


def ask(connection: socket.socket, address: str, port: int, timeout_s: float) -> View:
    """Asks one broker for its view. Arguments and errors are those of `harness.protocol.one_exchange`."""
    return parse(exchange(connection, address, port, REQUEST, timeout_s))


def newest(views: Iterable[View]) -> View:
    """Combines several brokers' views of the metadata into one.

    Each partition is taken from the view with the partition's highest leader epoch. If several views have that epoch,
    the view with the smallest ISR is used, because a broker that is cut off may not know that the ISR has shrunk. The
    result lists the brokers that more than half of the views list.
    """
    listed = list(views)
    partitions: dict[tuple[str, int], PartitionView] = {}
    for view in listed:
        for at, partition in view.partitions.items():
            known = partitions.get(at)
            if known is None or (partition.epoch, -len(partition.isr)) > (known.epoch, -len(known.isr)):
                partitions[at] = partition
    everyone = frozenset(broker for view in listed for broker in view.brokers)
    agreed = frozenset(
        broker for broker in everyone if 2 * sum(broker in view.brokers for view in listed) > len(listed)
    )
    return View(agreed, partitions)
