"""gzip, within bounds: pages are kept as they were sent, which takes a fifth of the disk and memory."""

from __future__ import annotations

import zlib

__all__ = ["unpack"]

_GZIP = 16 + zlib.MAX_WBITS


def unpack(packed: bytes, most: int) -> bytes:
    """The content, or its first ``most`` bytes.

    Raises:
        ValueError: it is no gzip, damaged, or ends too early.
    """
    decoder = zlib.decompressobj(_GZIP)
    try:
        content = decoder.decompress(packed, most)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(content) < most and not decoder.eof:
        raise ValueError("it ends too early")
    return content
