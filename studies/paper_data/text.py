"""The speeches of tinyshakespeare."""

from __future__ import annotations

import re

from fedclust_helpers.datasets import fetch

SHAKESPEARE = "tinyshakespeare/input.txt"


def load_tinyshakespeare() -> tuple[tuple[str, str], ...]:
    """All 7222 speeches of tinyshakespeare as (speaker, text), in the order of the file.

    Where the file gives a name only, the text is empty. Speakers are the 309 names of the file; one
    that occurs in several plays, such as "First Citizen", is one speaker.

    Raises as `fedclust_helpers.datasets.fetch` does.
    """
    text = fetch(SHAKESPEARE).read_text(encoding="ascii").strip()
    blocks = (block.partition("\n") for block in re.split(r"\n{2,}", text))
    return tuple((speaker.removesuffix(":"), speech) for speaker, _, speech in blocks)
