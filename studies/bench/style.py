"""The style of all figures: colours with a fixed meaning, and how one series is drawn."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

BLUE, ORANGE, RED, PLUM, GREY, PURPLE = (
    "#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd"
)  # fmt: skip
"""The colour-blind safe cycle of the style file."""

DARK, MUTED, PALE, DATA = "#222222", "#555555", "#c9c9cf", "#c4c4c8"
"""Text and truth, theory, what is not in question, data points."""

WRONG = RED
"""Attacks, alarms, and what is printed wrongly."""

TRUST: Mapping[str, str] = {
    "trusted": PLUM, "secure sum": BLUE, "shuffled": ORANGE, "local": PURPLE,
}  # fmt: skip
"""Colours of the trust models, the same in all notebooks."""

THEORY: dict[str, Any] = {"color": MUTED, "linewidth": 1.3, "zorder": 1}
DASHED: dict[str, Any] = {"color": DARK, "linestyle": "--", "linewidth": 1.2}
"""Lines of a prediction, and of a level to compare with."""


class Look(NamedTuple):
    """How one series is drawn: name, colour, and marker with line style, such as ``"o-"``."""

    label: str
    color: str
    style: str = "o-"


LOOKS = tuple(
    Look("", color, mark + "-")
    for color, mark in zip((BLUE, ORANGE, RED, PLUM, PURPLE, GREY), "os^DvP", strict=True)
)
"""Looks of series without a fixed meaning, told apart by colour and by marker."""


def use_style() -> None:
    """Load the style file beside this module; call once at the top of a notebook.

    There figures get twice the pixels, at the same size on the page.
    """
    plt.style.use(Path(__file__).with_name("fedclust.mplstyle"))
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("retina")
