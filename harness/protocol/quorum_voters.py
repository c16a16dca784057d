"""Requests to the leader of the metadata quorum that change its voters (KIP-853): AddRaftVoter and RemoveRaftVoter.

    AddRaftVoter (80), version 0     nullable compact string cluster | int32 timeout | int32 voter | uuid directory |
                                     [compact string listener, compact string host, uint16 port, tags] | tags
    RemoveRaftVoter (81), version 0  nullable compact string cluster | int32 voter | uuid directory | tags
    Response                         int32 correlation | tags | int32 throttle | int16 error |
                                     nullable compact string message | tags
A cluster of null is not compared. Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import base64
import struct
from typing import Final

from harness.protocol.error_codes import NAMES
from harness.protocol.primitives import TAGS, Reader, compact_array, compact_text, head

ADD: Final = 80
REMOVE: Final = 81
_NULL: Final = b"\0"


def add_request(voter: int, directory: str, listener: str, host: str, port: int, timeout_s: float) -> bytes:
    """Encodes a request that makes a controller a voter.

    directory  id of the controller's metadata directory, as Kafka writes it
    listener   name of the controller's listener at host:port
    """
    endpoint = compact_text(listener) + compact_text(host) + struct.pack(">H", port) + TAGS
    timeout = struct.pack(">i", int(timeout_s * 1000))
    return head(ADD, 0) + TAGS + _NULL + timeout + _voter(voter, directory) + compact_array([endpoint]) + TAGS


def remove_request(voter: int, directory: str) -> bytes:
    """Encodes a request that removes a voter."""
    return head(REMOVE, 0) + TAGS + _NULL + _voter(voter, directory) + TAGS


def error(answer: bytes) -> str:
    """Returns the error in a response to either request: its name and the leader's message; "" for none.

    Raises ValueError if the response is truncated.
    """
    reader = Reader(answer)
    try:
        reader.take("i")  # correlation
        reader.tags()
        _, code = reader.take("ih")
        message = reader.compact_text()
    except struct.error as cut:
        raise ValueError("an answer about voters is truncated") from cut
    return "" if code == 0 else ": ".join(filter(None, (NAMES.get(code, f"error {code}"), message)))


def _voter(voter: int, directory: str) -> bytes:
    return struct.pack(">i", voter) + base64.urlsafe_b64decode(directory + "==")
