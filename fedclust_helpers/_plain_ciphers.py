"""The functions of `_ciphers` in plain Python, with the same bytes (RFC 7748, RFC 8439).

For teaching only: how long they take depends on the keys, and nobody has audited them.
"""

from __future__ import annotations

import hmac
import struct

P = 2**255 - 19
WORD = 2**32 - 1
ZERO = bytes(12)


def x25519_public(private: bytes) -> bytes:
    """The public key of a private one: the base point is 9."""
    return x25519(private, (9).to_bytes(32, "little"))


def x25519(private: bytes, public: bytes) -> bytes:
    """The Montgomery ladder of RFC 7748, section 5."""
    k = int.from_bytes(private, "little") & (2**254 - 8) | 2**254
    u = int.from_bytes(public, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, u, 1
    for t in reversed(range(255)):
        swap = k >> t & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        plus, minus = x2 + z2, x2 - z2
        crossed, other = (x3 - z3) * plus % P, (x3 + z3) * minus % P
        x3, z3 = (crossed + other) ** 2 % P, u * (crossed - other) ** 2 % P
        aa, bb = plus * plus % P, minus * minus % P
        x2, z2 = aa * bb % P, (aa - bb) * (aa + 121665 * (aa - bb)) % P
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    shared = x2 * pow(z2, P - 2, P) % P
    if not shared:
        raise ValueError("the shared secret is 0")
    return shared.to_bytes(32, "little")


def _block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """64 bytes of ChaCha20 (RFC 8439, section 2.3)."""
    start = [*struct.unpack("<12L", b"expand 32-byte k" + key), counter]
    start += struct.unpack("<3L", nonce)
    x = start.copy()

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for i, j, to, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[i] = (x[i] + x[j]) & WORD
            turned = x[to] ^ x[i]
            x[to] = (turned << by | turned >> (32 - by)) & WORD

    for _ in range(10):
        for i in range(4):  # columns
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):  # diagonals
            quarter(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12)
    return struct.pack("<16L", *((a + b) & WORD for a, b in zip(x, start, strict=True)))


def _crypted(key: bytes, content: bytes, nonce: bytes) -> bytes:
    """The content with the key stream from block 1 on; twice is the content again."""
    blocks = range(1, 1 + -(-len(content) // 64))
    stream = b"".join(_block(key, i, nonce) for i in blocks)
    return bytes(a ^ b for a, b in zip(content, stream, strict=False))


def _tag(key: bytes, cipher: bytes, context: bytes, nonce: bytes) -> bytes:
    """Poly1305 of context, cipher and their lengths (RFC 8439, sections 2.5 to 2.8)."""
    r, s = (int.from_bytes(_block(key, 0, nonce)[i : i + 16], "little") for i in (0, 16))
    r &= 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    text = b"".join(part + bytes(-len(part) % 16) for part in (context, cipher))
    text += struct.pack("<QQ", len(context), len(cipher))
    total = 0
    for i in range(0, len(text), 16):
        total = (total + int.from_bytes(text[i : i + 16] + b"\x01", "little")) * r % (2**130 - 5)
    return ((total + s) % 2**128).to_bytes(16, "little")


def sealed(key: bytes, content: bytes, context: bytes, nonce: bytes = ZERO) -> bytes:
    """ChaCha20-Poly1305."""
    cipher = _crypted(key, content, nonce)
    return cipher + _tag(key, cipher, context, nonce)


def unsealed(key: bytes, content: bytes, context: bytes, nonce: bytes = ZERO) -> bytes:
    """What was sealed; ValueError unless it was with this key, context and nonce."""
    cipher, tag = content[:-16], content[-16:]
    if not hmac.compare_digest(tag, _tag(key, cipher, context, nonce)):
        raise ValueError("the seal does not open")
    return _crypted(key, cipher, nonce)
