"""All that needs a cipher, bytes in and bytes out: the library `cryptography`.

Imported where it is used. A browser has no build of it: see `_plain_ciphers`.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

ZERO = bytes(12)  # the nonce of a key that seals one message


def x25519_public(private: bytes) -> bytes:
    """The public key (32 bytes) of a private one (32 bytes)."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def x25519(private: bytes, public: bytes) -> bytes:
    """What the owners of two keys share (32 bytes); ValueError if everybody would know it."""
    own = X25519PrivateKey.from_private_bytes(private)
    return own.exchange(X25519PublicKey.from_public_bytes(public))


def sealed(key: bytes, content: bytes, context: bytes, nonce: bytes = ZERO) -> bytes:
    """Encrypted and authenticated with its context: ChaCha20-Poly1305, 16 bytes more."""
    return ChaCha20Poly1305(key).encrypt(nonce, content, context)


def unsealed(key: bytes, content: bytes, context: bytes, nonce: bytes = ZERO) -> bytes:
    """What was sealed; ValueError unless it was with this key, context and nonce."""
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, content, context)
    except InvalidTag:
        raise ValueError("the seal does not open") from None
