"""Can a figure be read in grey, and on a small screen? Measured on the figure, not by eye."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

MIN_STEP = 12.0
"""Smallest difference of lightness (L*, 0 to 100) between marks that only grey tells apart."""

MAX_LIGHTNESS = 82.0
"""Lightness above which a named mark is lost on white paper."""

MIN_POINTS = 8.0
"""Smallest size of a text, in points: eight pixels at 75 dpi."""

MAX_OVERLAP = 0.2
"""Largest part of a text that another text may cover."""


def lightness(color: Any) -> float:
    """CIE L* of a colour as it looks in grey: 0 black, 100 white (sRGB, D65)."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    y = float(linear @ [0.2126, 0.7152, 0.0722])
    return 116 * y ** (1 / 3) - 16 if y > (6 / 29) ** 3 else y * 24389 / 27


def _mark(artist: Any) -> tuple[float, tuple[Any, ...]] | None:
    """Lightness of a named artist, and what else tells it apart: dash, marker, hatch, width."""
    if isinstance(artist, ErrorbarContainer):
        artist = artist.lines[0] if artist.lines[0] is not None else artist.lines[2][0]
    if isinstance(artist, BarContainer):
        artist = artist.patches[0]
    if isinstance(artist, Line2D):
        marker = artist.get_marker()
        line, shape = artist.get_linestyle(), None if marker in ("None", "", " ", ",") else marker
        hollow = shape is not None and artist.get_markerfacecolor() in ("none", "white", "w")
        return lightness(artist.get_color()), ("line", line, shape, hollow)
    if isinstance(artist, Patch):
        face: Any = artist.get_facecolor()
        filled = bool(artist.get_fill()) and face[3] > 0
        color: Any = face if filled else artist.get_edgecolor()
        return lightness(color[:3]), ("patch", filled, artist.get_hatch(), artist.get_linestyle())
    if isinstance(artist, Collection):
        faces: Any = artist.get_facecolor()
        colors: Any = faces if len(faces) else artist.get_edgecolor()
        if not len(colors):
            return None
        paths = artist.get_paths()
        corners = np.shape(paths[0].vertices)[0] if len(paths) == 1 else 0
        return lightness(np.asarray(colors)[0][:3]), ("marks", bool(len(faces)), corners)
    return None


def _named(ax: Axes) -> Iterator[tuple[str, float, tuple[Any, ...]]]:
    handles, names = ax.get_legend_handles_labels()
    for handle, name in zip(handles, names, strict=True):
        found = _mark(handle)
        if found is not None:
            yield name, *found


def grey_steps(figure: Figure) -> dict[tuple[str, str], float]:
    """Difference of lightness for every two named marks of one panel that look alike otherwise."""
    steps: dict[tuple[str, str], float] = {}
    for ax in figure.axes:
        for (a, light_a, how_a), (b, light_b, how_b) in combinations(_named(ax), 2):
            if how_a == how_b and a != b:
                step = abs(light_a - light_b)
                steps[a, b] = min(step, steps.get((a, b), np.inf))
    return steps


def _texts(figure: Figure) -> list[Text]:
    """Every text that is drawn, tick labels of the shown range included."""
    found = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not text.get_visible() or not text.get_text().strip():
            continue
        if text.axes is not None and not text.axes.get_visible():
            continue
        found.append(text)
    ticks = [t for ax in figure.axes for t in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    ticks += [
        t
        for ax in figure.axes
        for t in (*ax.get_xticklabels(minor=True), *ax.get_yticklabels(minor=True))
    ]
    hidden = {id(t) for t in ticks}
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                place = tick.get_loc()
                if low <= place <= high and ax.axison and ax.get_visible():
                    hidden -= {id(tick.label1), id(tick.label2)}
    return [t for t in found if id(t) not in hidden]


def problems(figure: Figure) -> list[str]:
    """What makes a figure hard to read in grey or at 75 dpi; empty if nothing does."""
    found = [
        f"{a!r} and {b!r} look alike in grey (lightness differs by {step:.0f})"
        for (a, b), step in grey_steps(figure).items()
        if step < MIN_STEP
    ]
    for ax in figure.axes:
        for name, light, how in _named(ax):
            if light > MAX_LIGHTNESS and how[0] != "patch":
                found.append(f"{name!r} is too pale for white paper (lightness {light:.0f})")
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = []
    for text in _texts(figure):
        words = " ".join(text.get_text().split())
        size = float(text.get_fontsize())
        if size < MIN_POINTS:
            found.append(f"text {words!r} has {size:.1f} points")
        if isinstance(text, Annotation):
            box = Text.get_window_extent(text, renderer)
        else:
            box = text.get_window_extent(renderer)
        boxes.append((words, box))
    for (a, box_a), (b, box_b) in combinations(boxes, 2):
        wide = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        high = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        small = min(box_a.width * box_a.height, box_b.width * box_b.height)
        if wide > 0 and high > 0 and wide * high > MAX_OVERLAP * small:
            found.append(f"texts {a!r} and {b!r} overlap")
    return found
