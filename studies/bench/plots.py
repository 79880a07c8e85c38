"""The marks of all figures: curves with intervals, bars, histograms, points, names, axes.

Every function draws on the `ax` that it is given. None computes a result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._lazy import optimize, pd
from studies.bench import readable
from studies.bench.style import DARK, DATA, LOOKS, MUTED, PALE, Look, use_style  # noqa: F401

MAX_SHOWN = 1500  # data points drawn in a picture

# --- curves with intervals ------------------------------------------------------------------------


def by(frame: pd.DataFrame, key: str, x: str, y: str) -> dict[Any, pd.Series]:
    """The column `y` over `x`, sorted, one series for each value of `key`: what `curves` draws."""
    parts = frame.groupby(key, sort=False)
    return {name: part.set_index(x)[y].sort_index() for name, part in parts}


def spread(values: ArrayLike, quantiles: Sequence[float] | None = None) -> NDArray[np.float64]:
    """Low, middle, high over the last axis, shape (3, m): range around mean, or three quantiles."""
    array = np.asarray(values, dtype=np.float64)
    if quantiles is not None:
        return np.quantile(array, quantiles, axis=-1)
    return np.stack([array.min(axis=-1), array.mean(axis=-1), array.max(axis=-1)])


def look_of(looks: Mapping[Any, Look] | Sequence[Look], key: Any, number: int) -> Look:
    """The look of a key, or of a position; the key is its name where the look has none."""
    look = looks[key] if isinstance(looks, Mapping) else looks[number % len(looks)]
    return look if look.label else look._replace(label=str(key))


def curves(
    ax: Axes,
    x: ArrayLike | None,
    series: Mapping[Any, Any],
    looks: Mapping[Any, Look] | Sequence[Look] = LOOKS,
    *,
    interval: str = "band",
    quantiles: Sequence[float] | None = None,
    errors: Mapping[Any, ArrayLike] | None = None,
    floor: float | None = None,
    **options: Any,
) -> Axes:
    """Draw one line for each series, with the interval of its repetitions.

    Parameters
    ----------
    x : array_like of shape (m,) or None
        None: each series has its own, as the index of a `pandas.Series`, or is a pair (x, y).
    series : mapping of keys to array_like of shape (m,) or (m, repetitions)
        Repetitions are drawn as their mean and range, or as `quantiles` (three).
    looks : mapping of the same keys to `Look`, or sequence of `Look`
    interval : {"band", "bars", "marks"}
        A shaded band, vertical bars, or one faint mark for each repetition and no line.
    errors : mapping of the same keys to half lengths of the intervals, shape (m,)
    floor : float, optional
        Smaller values are drawn here: for zeros on a logarithmic axis.
    **options
        For `Axes.plot`.
    """
    for number, (key, values) in enumerate(series.items()):
        look = look_of(looks, key, number)
        if hasattr(values, "to_numpy"):  # a series
            at, values = values.index.to_numpy(dtype=np.float64), values.to_numpy()
        elif x is None:
            at, values = (np.asarray(v, dtype=np.float64) for v in values)
        else:
            at = np.asarray(x, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64)
        if floor is not None:
            values = np.maximum(values, floor)
        drawn: dict[str, Any] = {"color": look.color, "label": look.label, **options}
        if values.ndim == 2 and interval == "marks":
            for column in values.T:
                ax.plot(at, column, look.style[0], color=look.color, alpha=0.5, markersize=5)
            continue
        if values.ndim == 2 or errors is not None:
            if errors is not None:
                half = np.asarray(errors[key], dtype=np.float64)
                low, middle, high = values - half, values, values + half
            else:
                low, middle, high = spread(values, quantiles)
            if interval == "band":
                ax.fill_between(at, low, high, color=look.color, alpha=0.2, linewidth=0)
            else:
                ax.vlines(at, low, high, color=look.color, linewidth=1.2)
            values = middle
        ax.plot(at, values, look.style, **drawn)
    return ax


# --- axes, names, remarks -------------------------------------------------------------------------


def panels(axes: Any) -> list[Axes]:
    """The axes of a grid as one list, row by row."""
    return list(np.ravel(np.asarray(axes, dtype=object)))


def ticks(ax: Axes, values: ArrayLike, axis: str = "x", text: str | None = "{x:g}") -> None:
    """Put ticks at `values` only (log axes otherwise label powers of ten); text None: 10^n."""
    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_locator(FixedLocator([float(v) for v in np.asarray(values).ravel()]))
    if text is not None:
        which.set_major_formatter(StrMethodFormatter(text))
    which.set_minor_formatter(NullFormatter())


def finish(
    ax: Axes,
    title: str = "",
    x: str = "",
    y: str = "",
    *,
    log: str = "",
    xticks: ArrayLike | None = None,
    yticks: ArrayLike | None = None,
    names: Any = "",
    **settings: Any,
) -> Axes:
    """Title, axis labels, logarithmic axes, plain ticks, names of the lines.

    Parameters
    ----------
    log : str
        The logarithmic axes: "", "x", "y" or "xy"; their labels get " (log)".
    names : str
        "ends": a name at the end of each line. Else the place of a legend; "": no names.
    **settings
        For `Axes.set`.
    """
    for axis, label in (("x", x), ("y", y)):
        if axis in log:
            settings[f"{axis}scale"] = "log"
        if label:
            settings[f"{axis}label"] = label + " (log)" * (axis in log)
    ax.set(**settings)
    for axis, values in (("x", xticks), ("y", yticks)):
        if values is not None:
            ticks(ax, values, axis)
    if title:
        ax.set_title(title, fontsize=12 if len(ax.figure.axes) == 1 else 11)
    if names == "ends":
        label_lines(ax)
    elif names:
        ax.legend(loc=names)
    return ax


def headline(figure: Any, text: str) -> None:
    """Write the claim of a figure with several panels above all of them."""
    figure = figure if isinstance(figure, Figure) else panels(figure)[0].figure
    figure.suptitle(text, x=0.01, ha="left", fontsize=12)


def show(figure: Figure, text: str) -> None:
    """Show a finished figure with `text` as its alternative text, for those who cannot see it.

    In tests (``FEDCLUST_FIGURES=strict``) a figure that cannot be read in grey or at 75 dpi is an
    error: see `bench.readable`.
    """
    from IPython.display import display

    if os.environ.get("FEDCLUST_FIGURES") == "strict" and (wrong := readable.problems(figure)):
        raise AssertionError("figure: " + "; ".join(wrong))
    told: dict[str, Any] = {"alt": " ".join(text.split()), "parts": parts(figure)}
    if any(np.asarray(image.get_array()).ndim == 3 for ax in figure.axes for image in ax.images):
        told["photograph"] = True  # a page that is dark leaves its colours
    display(figure, metadata={"image/png": told})
    plt.close(figure)


def parts(figure: Figure, pad: float = 6.0) -> list[list[float]]:
    """What a narrow page may put below each other: left, top, width, height of the stored picture.

    Panels (with what is written around them), legends and titles, row by row, each as shares of the
    picture, which is cropped as notebooks crop it. Empty if nothing stands beside anything else.
    """
    figure.set_dpi(2 * figure.dpi)  # letters are as wide as in the picture that is stored
    figure.draw_without_rendering()
    dpi, edge = figure.dpi, plt.rcParams["savefig.pad_inches"]
    drawn = [ax for ax in figure.axes if ax.get_visible()]
    found = [*drawn, *figure.legends, *figure.texts, getattr(figure, "_suptitle", None)]
    tight = [a.get_tightbbox() for a in found if a is not None]
    boxes = [(b.x0 - pad, b.y0 - pad, b.x1 + pad, b.y1 + pad) for b in tight if b is not None]
    whole = figure.get_tightbbox()
    left, top = dpi * (whole.x0 - edge), dpi * (whole.y1 + edge)
    width, height = dpi * (whole.width + 2 * edge), dpi * (whole.height + 2 * edge)
    figure.set_dpi(dpi / 2)
    rows = [merged(row, 0) for row in reversed(merged(boxes, 1))]
    for row in rows:  # a scale of colours stays with its panel
        for i in range(len(row) - 1, 0, -1):
            if max(b[2] for b in row[i]) - min(b[0] for b in row[i]) < width / 9:
                row[i - 1] += row.pop(i)
    if all(len(row) == 1 for row in rows):
        return []
    cuts = [np.transpose(column) for row in rows for column in row]
    return [
        [round(float(v), 4) for v in (
            (x0.min() - left) / width, (top - y1.max()) / height,
            (x1.max() - x0.min()) / width, (y1.max() - y0.min()) / height,
        )]
        for x0, y0, x1, y1 in cuts
    ]  # fmt: skip


def merged(boxes: Sequence[tuple[float, ...]], axis: int) -> list[list[tuple[float, ...]]]:
    """Boxes (x0, y0, x1, y1) in groups that do not overlap along an axis, in its order."""
    groups: list[list[tuple[float, ...]]] = []
    for box in sorted(boxes, key=lambda b: b[axis]):
        if groups and box[axis] < max(b[axis + 2] for b in groups[-1]) - 2:
            groups[-1].append(box)
        else:
            groups.append([box])
    return groups


def legend_below(axes: Any, columns: int = 4) -> None:
    """One legend for all panels, under the figure, from the names of the last visible one."""
    last = [ax for ax in panels(axes) if ax.get_visible()][-1]
    handles, names = last.get_legend_handles_labels()
    last.figure.legend(handles, names, loc="outside lower center", ncols=columns)


def note(
    ax: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float] = (0, 0), *,
    line: bool = False, **options: Any,
) -> None:  # fmt: skip
    """Write `text` at a place in data coordinates, `offset` points away, or with a thin line."""
    settings: dict[str, Any] = {"va": "center", "fontsize": 10, "color": DARK, **options}
    if line:
        settings["arrowprops"] = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.8}
    ax.annotate(text, at, xytext=offset, textcoords="offset points", **settings)


def label_lines(ax: Axes) -> Axes:
    """Write each labelled line's name at its right end, as little moved as keeps names apart."""
    ax.figure.canvas.draw()
    pixels_per_point = ax.figure.dpi / 72
    entries = []
    for line in ax.get_lines():
        name = str(line.get_label())
        x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
        good = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(good) and not name.startswith("_"):
            last = good[np.argmax(x[good])]
            pixel = ax.transData.transform((x[last], y[last]))[1]
            entries.append((pixel / pixels_per_point, x[last], y[last], name))
    entries.sort(key=lambda entry: entry[0])
    steps = 12.0 * np.arange(len(entries))  # points between two names
    heights = np.array([entry[0] for entry in entries])
    shifts = optimize.isotonic_regression(heights - steps).x + steps - heights if entries else []
    for shift, (_, x_end, y_end, name) in zip(shifts, entries, strict=True):
        note(ax, name, (x_end, y_end), (7.0, shift), annotation_clip=False)
    return ax


# --- bars, histograms, points ---------------------------------------------------------------------


def bars(ax: Axes, values: Mapping[str, float], colors: Sequence[str], x: str, title: str) -> Axes:
    """One horizontal bar for each name, from top to bottom, with its number."""
    y, widths = np.arange(len(values))[::-1], np.array(list(values.values()))
    ax.barh(y, widths, color=list(colors), height=0.62)
    ax.set_yticks(y, list(values))
    for height, width in zip(y, widths, strict=True):
        ax.text(width, height, f" {width:.2f}", va="center", fontsize=10)
    return finish(ax, title, x, xlim=(0, 1.18 * widths.max()))


def density(values: ArrayLike, edges: ArrayLike) -> NDArray[np.float64]:
    """Histogram as a density; values beyond the edges count in the total."""
    return np.asarray(np.histogram(values, edges)[0] / np.size(values) / np.diff(edges))


def two_histograms(
    ax: Axes, without: ArrayLike, with_: ArrayLike, edges: ArrayLike, *, color: str = DARK
) -> float:
    """Densities of a release in two worlds: grey area, dark outline; the height of the taller."""
    edges = np.asarray(edges, dtype=np.float64)
    low, high = density(without, edges), density(with_, edges)
    ax.stairs(low, edges, fill=True, color=PALE)
    ax.stairs(high, edges, color=color, linewidth=1.6)
    top = float(max(low.max(), high.max()))
    ax.set(yticks=[], ylim=(0, 1.35 * top))
    return top


def audit(
    ax: Axes, title: str, scores: tuple[ArrayLike, ArrayLike], text: str, *, alarm: bool
) -> NDArray[np.float64]:
    """Scores without and with a canary in units of their noise, and the verdict; the edges."""
    scale = float(np.std(np.asarray(scores[0])))
    without, with_ = (np.asarray(v, dtype=np.float64) / scale for v in scores)
    both = np.concatenate([without, with_])
    edges = np.linspace(both.min(), both.max(), 55)
    top = two_histograms(ax, without, with_, edges, color=LOOKS[2].color if alarm else DARK)
    ax.text(edges[0], 1.3 * top, text, va="top", fontsize=10)
    finish(ax, title, "score / its noise", "density")
    return edges


def cloud(ax: Axes, points: ArrayLike, *, size: float = 4.0, **options: Any) -> Axes:
    """Data points of the first two columns, light grey, behind all else; many are thinned out."""
    points = np.asarray(points)
    shown = points[:: max(1, len(points) // MAX_SHOWN)]
    ax.scatter(shown[:, 0], shown[:, 1], s=size, color=DATA, linewidths=0, zorder=1, **options)
    ax.set_aspect("equal")
    return ax


def crosses(ax: Axes, points: ArrayLike, **options: Any) -> Axes:
    """The truth: dark crosses above all else."""
    x, y = np.asarray(points)[:, :2].T
    ax.scatter(x, y, s=50, marker="x", color=DARK, linewidths=1.7, zorder=6, **options)
    return ax


def centers(
    ax: Axes, points: ArrayLike, color: str, marker: str = "o", *, size: Any = 90, **options: Any
) -> Axes:
    """Centres of the first two columns: large marks with a white edge."""
    x, y = np.asarray(points)[:, :2].T
    settings: dict[str, Any] = {"edgecolor": "white", "linewidths": 1.2, "zorder": 4, **options}
    ax.scatter(x, y, s=size, marker=marker, color=color, **settings)
    return ax


def bare(ax: Axes) -> Axes:
    """No ticks and no frame."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax
