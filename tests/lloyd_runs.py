"""Runs of the Lloyd family by name, planned and followed in one call."""

from typing import Any

from fedclust_helpers import fastlloyd
from fedclust_helpers.program import Run


def lloyd_run(method: str, federation: Any, **options: Any) -> Run:
    """Plan `method` ("fastlloyd", "glloyd", "sulloyd", "lloyd") and run it."""
    plan = fastlloyd.PLANS[method](federation, **options)
    return fastlloyd.run(federation, plan)
