"""Stored ratios, `tools/bench/results.json`, with facts about the machine they were taken on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("results.json")


def machine() -> dict[str, Any]:
    """Processor, versions, whether the compiled loops ran, and how busy the machine was."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    found: dict[str, Any] = {
        "processor": names[0] if names else platform.machine(), "cores": os.cpu_count(),
        "threads_used": 1, "python": platform.python_version(),
    }  # fmt: skip
    for name in ("numpy", "scipy", "scikit-learn", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    if os.environ.get("FEDCLUST_FAST") == "0":
        found["numba"] = None
    if hasattr(os, "getloadavg"):
        found["load_average"] = [round(x, 1) for x in os.getloadavg()]
    return found


def stored() -> dict[str, Any]:
    """Name of a setting ("numpy", "fast") -> machine and ratios."""
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


def setting(facts: Mapping[str, Any]) -> str:
    """Under which name ratios of such a machine are stored."""
    return "fast" if facts["numba"] else "numpy"


def changes(ratios: Mapping[str, float], facts: Mapping[str, Any]) -> list[str]:
    """A line for each ratio: now, stored, and the change in per cent."""
    before = stored().get(setting(facts), {}).get("ratios", {})
    out = []
    for name, now in ratios.items():
        then = before.get(name)
        change = "new" if not then else f"{then:10.3f}  {100 * (now / then - 1):+6.1f} %"
        out.append(f"{name:58s} {now:10.3f}  {change}")
    return out


def write(ratios: Mapping[str, float], facts: Mapping[str, Any]) -> None:
    """Replace these ratios, and keep the others of this setting; the load is the last one's."""
    everything = stored()
    before = everything.get(setting(facts), {}).get("ratios", {})
    everything[setting(facts)] = {"machine": dict(facts), "ratios": {**before, **ratios}}
    STORED.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
