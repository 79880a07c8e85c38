"""Widgets of the notebooks: controls, and a function that draws a new figure when they move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib.pyplot as plt

Draw = Callable[..., Any]


def redraw(draw: Draw, figsize: tuple[float, float], n_panels: int = 1) -> Callable[..., None]:
    """The function that the controls call: it draws a new figure and shows it.

    It calls ``draw(axes, **values)`` with the values of the controls by name.
    """

    def call(**values: Any) -> None:
        draw(plt.subplots(1, n_panels, figsize=figsize)[1], **values)
        plt.show()

    return call


def explore(
    draw: Draw, controls: Mapping[str, Any], figsize: tuple[float, float], n_panels: int = 1, *,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """Show the controls and the figure; returns the `redraw`, with its controls in ``.widget``.

    With a seed, `draw` takes ``seed`` too, and a button "another draw" draws with the next one:
    the same settings, other noise.
    """
    from ipywidgets import Button, interact

    for name, control in controls.items():
        control.description = control.description or name
        control.continuous_update = False
    call, fixed = redraw(draw, figsize, n_panels), {} if seed is None else {"seed": seed}
    shown = interact(lambda **values: call(**values, **fixed), **controls)
    if seed is not None:

        def again(button: Any) -> None:
            fixed["seed"] += 1
            shown.widget.update()

        button = Button(description="another draw", tooltip="other noise: costs ε again")
        button.on_click(again)
        *above, output = shown.widget.children
        shown.widget.children = (*above, button, output)
    return shown


def log_slider(value: float, low: float, high: float, **options: Any) -> Any:
    """A slider from 10^low to 10^high in steps of a tenth."""
    from ipywidgets import FloatLogSlider

    settings = {"readout_format": ".2f", **options}
    return FloatLogSlider(value=value, base=10, min=low, max=high, step=0.1, **settings)


def slider(value: float, low: float, high: float, step: float) -> Any:
    """A slider of whole numbers where `step` is one, of numbers else."""
    from ipywidgets import FloatSlider, IntSlider

    return (IntSlider if step == 1 else FloatSlider)(value=value, min=low, max=high, step=step)


def choice(options: Any, *, ordered: bool = False) -> Any:
    """One of several values, or of (name, value) pairs; ordered: a slider over them."""
    from ipywidgets import Dropdown, SelectionSlider

    return (SelectionSlider if ordered else Dropdown)(options=options)
