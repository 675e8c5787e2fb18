"""The log of an attempt as it is kept: its first part, its last part, and how much is missing in between. At rest it is
a gzip file that any gzip reads, whose comment says where the parts meet."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

HEAD_BYTES_MAX = 768 * 1024
"""Kept from an attempt's first byte on: the beginning says what was done."""
TAIL_BYTES_MAX = 256 * 1024
"""Kept up to its last byte, beyond the head: the end says why it went wrong. Some three thousand lines."""
TEXT_BYTES_MAX = HEAD_BYTES_MAX + TAIL_BYTES_MAX + 100
"""The most that a kept log unpacks to."""
LEVEL = 6
_HEADER = b"\x1f\x8b\x08\x10\0\0\0\0\0\xff"
"""Of gzip: deflate, a comment follows, no time, no system."""
_COMMENT = re.compile(rb"horae head=(\d{1,9}) cut=(\d{1,15})\Z")


class DamagedLog(Exception):
    """These bytes are not the log that was kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptLog:
    head: bytes
    tail: bytes = b""
    cut_bytes: int = 0
    """How much was put out between the two and is not kept."""

    @property
    def total_bytes(self) -> int:
        """All that the attempt put out."""
        return len(self.head) + self.cut_bytes + len(self.tail)

    @property
    def kept_bytes(self) -> int:
        return len(self.head) + len(self.tail)

    def text(self) -> bytes:
        """What people are shown: where something is missing, a line says how much."""
        return self.head + cut_line(self.cut_bytes) + self.tail

    def read(self, offset: int) -> tuple[int, bytes]:
        """What is kept from there on without a gap, and where it begins: later than asked for where it was cut."""
        if offset < len(self.head):
            return offset, self.head[offset:]
        tail_offset = len(self.head) + self.cut_bytes
        begin = max(offset, tail_offset)
        return begin, self.tail[begin - tail_offset :]


def cut_line(cut_bytes: int) -> bytes:
    """What stands in a log where so many bytes are missing; nothing where none are."""
    return f"\n[horae: {cut_bytes} bytes are not kept]\n".encode() if cut_bytes else b""


def packed(log: KeptLog) -> bytes:
    text = log.text()
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    comment = b"horae head=%d cut=%d\0" % (len(log.head), log.cut_bytes)
    body = deflate.compress(text) + deflate.flush()
    return _HEADER + comment + body + struct.pack("<LL", zlib.crc32(text), len(text))


def unpacked(data: bytes) -> KeptLog:
    """Raises DamagedLog."""
    found = _COMMENT.match(data[len(_HEADER) : data.find(b"\0", len(_HEADER))])
    if not data.startswith(_HEADER) or found is None:
        raise DamagedLog("it has no header of ours")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = inflate.decompress(data, TEXT_BYTES_MAX)
    except zlib.error as error:
        raise DamagedLog(str(error)) from None
    if not inflate.eof:
        raise DamagedLog("it ends too early, or never")
    head_length, cut_bytes = int(found[1]), int(found[2])
    tail = text[head_length + len(cut_line(cut_bytes)) :]
    return KeptLog(head=text[:head_length], tail=tail, cut_bytes=cut_bytes)
