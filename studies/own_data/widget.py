"""Widget of the notebook on own data: how many fits a budget pays for."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from studies.bench import widgets
from studies.own_data import figures


def explore(*, delta: float) -> Any:
    """Sliders for epsilon of one fit and for the budget; returns the callback."""
    controls = {"epsilon": widgets.log_slider(1.0, -1, 0.6), "budget": widgets.slider(3, 1, 12, 1)}

    def draw(ax: Axes, epsilon: float, budget: float) -> Axes:
        return figures.months(ax, epsilon=epsilon, delta=delta, budget=budget)

    return widgets.explore(draw, controls, (6.0, 3.6))
