"""Identity: uuid7 ids from an injected generator, and content keys."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import unicodedata
from collections.abc import Callable, Sequence

IdGenerator = Callable[[], str]


_last = (0, 0)
_lock = threading.Lock()


def uuid7() -> str:
    """Return a new UUID version 7 (RFC 9562): milliseconds, a counter of 12 bits, random bits.

    Ids made in one process sort in order of creation (RFC 9562 6.2, method 1), which keeps builds
    reproducible: ties are broken by id.
    """
    global _last  # noqa: PLW0603 - the counter is what makes ids sort within a millisecond
    with _lock:
        now, counter = time.time_ns() // 1_000_000, 0
        if now <= _last[0]:
            now, counter = _last[0], _last[1] + 1
            if counter > 0xFFF:
                now, counter = now + 1, 0
        _last = (now, counter)
    random = int.from_bytes(os.urandom(8), "big") | counter << 64
    return _uuid7(now, random.to_bytes(10, "big"))


def counting_ids(start: int = 0) -> IdGenerator:
    """Return a generator of reproducible uuid7-shaped ids, for tests and recorded examples."""
    state = iter(range(start, 2**62))

    def make() -> str:
        return _uuid7(next(state), bytes(10))

    return make


def _uuid7(milliseconds: int, random: bytes) -> str:
    value = (milliseconds & (2**48 - 1)) << 80 | int.from_bytes(random, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def question_key(question: str, image_ids: Sequence[str] = ()) -> str:
    """Return the SHA-256 of the normalised question and its image ids in page order.

    Normalised: NFC, case folded, white space runs as one space, ends trimmed.
    """
    text = " ".join(unicodedata.normalize("NFC", question).casefold().split())
    return sha256("\n".join((text, *image_ids)).encode("utf-8", "surrogatepass"))


def image_id(width: int, height: int, rgb: bytes | bytearray) -> str:
    """Return the SHA-256 of (width, height, upright RGB pixels).

    Args:
        width: pixels.
        height: pixels.
        rgb: `width * height * 3` bytes, row by row from the top.
    """
    digest = hashlib.sha256(f"{width}x{height}:".encode("ascii"))
    digest.update(rgb)
    return digest.hexdigest()
