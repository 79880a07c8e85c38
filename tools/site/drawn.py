"""A figure of a notebook as the book shows it: a stored one, or one that a reader draws."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from html import escape
from typing import Any


def drawn(source: str, content: bytes, told: Mapping[str, Any]) -> str:
    """HTML of a PNG at the address `source`: at its size, in parts that a phone stacks.

    `told` is what the notebook says of it: alt, width, height, parts (x, y, w, h as shares).
    """
    width, height = struct.unpack(">II", content[16:24])
    width, height = told.get("width", width), told.get("height", height)
    cuts = []
    for x, y, w, h in told.get("parts", ()):
        wide, high = w * width, h * height
        at = " ".join(f"{100 * a / max(1 - s, 1e-9):.2f}%" for a, s in ((x, w), (y, h)))
        cuts.append(
            f'<i style="width:min(100%,{wide:.0f}px);aspect-ratio:{wide / high:.4f};background:'
            f"url({source}) {at}/{100 / w:.2f}% {100 / h:.2f}%"
            '"></i>'
        )
    look = "drawn" + " has-parts" * bool(cuts) + " photograph" * ("photograph" in told)
    return (
        f'<div class="{look}"><img src="{source}" alt="{escape(told.get("alt", "figure"))}" '
        f'width="{width}" height="{height}" loading="lazy">{"".join(cuts)}</div>'
    )
