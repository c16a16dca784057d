"""Finds the state of the metadata quorum with DescribeQuorum, version 0: its leader, epoch and high watermark.

Only the leader answers with its epoch. If several servers answer, the response with the highest epoch is right. A
Metadata request would not help: in KRaft mode, the response names any live broker as the controller (KIP-590).

Request   int16 55 | int16 0 | int32 correlation | string client | tags |
          [compact string topic, [int32 partition, tags], tags] | tags
Response  int32 correlation | tags | int16 error | [compact string topic, [int32 partition, int16 error,
          int32 leader, int32 epoch, int64 high watermark, [voters], ...]] ...
Arrays and compact strings start with their length plus one as an unsigned varint; tags are one zero byte. A voter is
int32 id, int64 log end offset, tags.
Source: https://kafka.apache.org/protocol#The_Messages_DescribeQuorum
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from harness.protocol.primitives import TAGS, Reader, compact_array, compact_text, head

_TOPIC: Final = "__cluster_metadata"
_PARTITION: Final = struct.pack(">i", 0) + TAGS
REQUEST: Final = head(55, 0) + TAGS + compact_array([compact_text(_TOPIC) + compact_array([_PARTITION]) + TAGS]) + TAGS


class Quorum(NamedTuple):
    """What a server reports.

    high_watermark  -1 if the leader does not know it yet
    voters          ids of the voters
    """

    epoch: int
    leader: int
    high_watermark: int
    voters: tuple[int, ...]


def parse(answer: bytes) -> Quorum:
    """Decodes a DescribeQuorum response. Raises ValueError if the server does not know the leader."""
    reader = Reader(answer)
    try:
        reader.take("i")  # correlation
        reader.tags()
        error = reader.take("h")
        if error:
            raise ValueError(f"DescribeQuorum: error {error}")
        reader.varint()
        reader.compact_text()
        reader.varint()
        _, error, leader, epoch = reader.take("ihii")
        if error or leader < 0:
            raise ValueError(f"DescribeQuorum: error {error}, leader {leader}")
        high_watermark = reader.take("q")
        voters = []
        for _ in range(reader.varint() - 1):
            voters.append(reader.take("iq")[0])
            reader.tags()
    except struct.error as cut:
        raise ValueError("a DescribeQuorum answer is truncated") from cut
    return Quorum(epoch, leader, high_watermark, tuple(voters))
