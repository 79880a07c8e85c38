"""What an algorithm asks of a federation before it plans."""

from __future__ import annotations

from typing import Any

from fedclust_helpers._validation import check_instance
from fedclust_helpers.federation.federation import Federation


def require(federation: Any, capability: str) -> None:
    """Refuse a federation that does not offer "noisy_sum", "collect", "members" and so on.

    TypeError if it is no federation; `TrustModelError` if its trust model does not show as much.
    """
    offered = getattr(federation, check_instance(capability, str, "capability"), None)
    if not callable(offered) or isinstance(federation, type):
        raise TypeError(f"federation must offer {capability}, got {type(federation).__name__}")
    if isinstance(federation, Federation):
        federation._require(capability)
