"""Finds the leader of the metadata quorum with DescribeQuorum, version 0.

If the servers' responses differ, the response with the highest epoch is right. A Metadata request would not help: in
KRaft mode, the response names any live broker as the controller (KIP-590).

Request   int16 55 | int16 0 | int32 correlation | string client | tags |
          [compact string topic, [int32 partition, tags], tags] | tags
Response  int32 correlation | tags | int16 error | [compact string topic, [int32 partition, int16 error,
          int32 leader, int32 epoch, ...]] ...
Arrays and compact strings start with their length plus one as an unsigned varint; tags are one zero byte.
Source: https://kafka.apache.org/protocol#The_Messages_DescribeQuorum
"""

from __future__ import annotations

import struct
from typing import Final

from harness.protocol.primitives import TAGS, compact_array, compact_text, head

_TOPIC: Final = "__cluster_metadata"
_PARTITION: Final = struct.pack(">i", 0) + TAGS
REQUEST: Final = head(55, 0) + TAGS + compact_array([compact_text(_TOPIC) + compact_array([_PARTITION]) + TAGS]) + TAGS


def parse(answer: bytes) -> tuple[int, int]:
    """Returns (epoch, leader id) from a DescribeQuorum response.

    Raises ValueError if the broker does not know the leader.
    """
    try:
        at = 4 + 1
        (error,) = struct.unpack_from(">h", answer, at)
        if error:
            raise ValueError(f"DescribeQuorum: error {error}")
        at += 2 + 1 + 1 + len(_TOPIC) + 1
        _, error, leader, epoch = struct.unpack_from(">ihii", answer, at)
    except struct.error as cut:
        raise ValueError("a DescribeQuorum answer is truncated") from cut
    if error or leader < 0:
        raise ValueError(f"DescribeQuorum: error {error}, leader {leader}")
    return epoch, leader
