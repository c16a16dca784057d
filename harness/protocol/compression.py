"""Compresses and decompresses the bodies of record batches, with a limit on the decompressed size.

Codecs are gzip, snappy (raw, or in the blocks of snappy-java), lz4 (frames) and zstd. Sources: Kafka documentation, 5.3
(message format); KIP-110 (zstd); snappy-java's SnappyOutputStream for the blocks. The lz4 frames in batches of message
format 0 have a wrong header checksum (KIP-57). No library accepts them, so they are reported as unreadable.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from harness.protocol.flaws import Unreadable

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")  # by the lowest three bits of the attributes
PLAIN_MAX: Final = 64 << 20
_PIECE: Final = 1 << 20
_JAVA: Final = b"\x82SNAPPY\x00"
_JAVA_HEAD: Final = len(_JAVA) + 8  # the magic bytes and two version numbers


def plain(codec: int, body: bytes) -> bytes:
    """Returns the decompressed body.

    Raises Unreadable if it is not valid, or if the result has more than PLAIN_MAX bytes.
    """
    if codec >= len(NAMES):
        raise Unreadable(f"unknown compression codec {codec}")
    if codec == 0:
        return body
    name = NAMES[codec]
    try:
        return _OPENERS[name](body)
    except (OSError, pa.ArrowException, zlib.error, ValueError, EOFError, MemoryError) as error:
        if isinstance(error, Unreadable):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unreadable(f"the {name} body cannot be decompressed ({reason[:120]})") from None


def compressed(codec: str, body: bytes) -> bytes:
    """Compresses the body with the codec of this name (one of NAMES)."""
    if codec == "none":
        return body
    if codec == "gzip":
        return gzip.compress(body, mtime=0)
    packed: bytes = pa.compress(body, codec=codec, asbytes=True)
    return packed


def _gzip(body: bytes) -> bytes:
    opened = zlib.decompressobj(zlib.MAX_WBITS | 16)
    plain_body = opened.decompress(body, PLAIN_MAX + 1)
    if len(plain_body) <= PLAIN_MAX and not opened.eof:
        raise Unreadable("the gzip body is truncated")
    return _bounded(plain_body)


def _stream(name: str) -> Callable[[bytes], bytes]:
    def opened(body: bytes) -> bytes:
        pieces, size = [], 0
        with pa.CompressedInputStream(pa.BufferReader(body), name) as stream:
            while piece := stream.read(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > PLAIN_MAX:
                    break
        return _bounded(b"".join(pieces))

    return opened


def _snappy(body: bytes) -> bytes:
    if not body.startswith(_JAVA):
        return _block(body, PLAIN_MAX)
    blocks, at, room = [], _JAVA_HEAD, PLAIN_MAX
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        if at + 4 + size > len(body):
            raise Unreadable("a block of the snappy body is truncated")
        blocks.append(_block(body[at + 4 : at + 4 + size], room))
        room -= len(blocks[-1])
        at += 4 + size
    return b"".join(blocks)


def _block(block: bytes, room: int) -> bytes:
    """Decompresses one snappy block, which starts with its decompressed length as a varint.

    Raises Unreadable if the result would have more than `room` bytes.
    """
    length, shift, at = 0, 0, 0
    while True:
        if at >= len(block) or shift > 28:
            raise Unreadable("a block of the snappy body has no valid length")
        length |= (block[at] & 0x7F) << shift
        at += 1
        if not block[at - 1] & 0x80:
            break
        shift += 7
    if length > room:
        raise Unreadable(f"the decompressed body has more than {PLAIN_MAX >> 20} MiB")
    if length == 0:
        return b""
    plain_block: bytes = pa.Codec("snappy").decompress(block, decompressed_size=length, asbytes=True)
    return plain_block


def _bounded(plain_body: bytes) -> bytes:
    if len(plain_body) > PLAIN_MAX:
        raise Unreadable(f"the decompressed body has more than {PLAIN_MAX >> 20} MiB")
    return plain_body


_OPENERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _stream("lz4"),
    "zstd": _stream("zstd"),
}
