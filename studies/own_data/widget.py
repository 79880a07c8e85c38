"""Widget of the notebook on own data: how many fits a budget pays for."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from studies.bench import widgets
from studies.own_data import figures


def explore(*, epsilon: float, delta: float, budget: float) -> Any:
    """Sliders for epsilon of one fit and for the budget; returns the callback."""
    controls = {
        "epsilon": widgets.log_slider(epsilon, -1, 0.6),
        "budget": widgets.slider(budget, 0.5, 12, 0.5),
    }

    def draw(ax: Axes, epsilon: float, budget: float) -> Axes:
        return figures.months(ax, epsilon=epsilon, delta=delta, budget=budget)

    return widgets.explore(draw, controls, (6.0, 3.6))
