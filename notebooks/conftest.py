"""What `make test` compares when it runs the notebooks: stored outputs are those of this code.

Text is compared word by word. Its numbers are those of whole runs, which processors round
differently: the assertions in the cells say how far they may lie. Only where a cell has the tag
`nbval-check-output` are they compared, up to one unit of the last printed digit. Figures are compared
by existence and size in pixels, not by pixels. Cells tagged `widget` are not run; a cell whose
output differs in every run has the tag `nbval-ignore-output`.
"""

from __future__ import annotations

import base64
import os
import re
import struct
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
HIDDEN = re.compile(r"\x1b\[[0-9;]*m|<style.*?</style>", re.DOTALL)


def last_digit(number: str) -> float:
    """The worth of one unit of the last digit of a printed number."""
    digits, _, exponent = number.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def same_text(stored: str, found: str, digits: bool) -> bool:
    """Whether two texts agree in all words; with `digits` in all numbers too, up to one last unit."""
    stored, found = HIDDEN.sub("", stored), HIDDEN.sub("", found)
    if NUMBER.sub("#", stored).split() != NUMBER.sub("#", found).split():
        return False
    if not digits:
        return True
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(found), strict=True)
    values = ((a.replace("−", "-"), b.replace("−", "-")) for a, b in pairs)
    return all(
        a == b
        or abs(float(a) - float(b)) <= 1.01 * max(last_digit(a), last_digit(b))
        for a, b in values
    )


def figure_size(encoded: str) -> tuple[int, int]:
    """Width and height in pixels of a figure as a notebook stores it (base64 of a PNG)."""
    head = base64.b64decode(encoded[:64])
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("the stored figure must be a PNG")
    width, height = struct.unpack(">II", head[16:24])
    return int(width), int(height)


def flat(outputs: Any) -> list[tuple[str, str]]:
    """(kind, content) of each output of a cell, in order; streams of one name are joined."""
    found: list[tuple[str, str]] = []
    for output in outputs:
        if output["output_type"] == "stream":
            if found and found[-1][0] == output["name"]:
                found[-1] = (output["name"], found[-1][1] + output["text"])
            else:
                found.append((output["name"], output["text"]))
        elif output["output_type"] == "error":
            found.append(("error", str(output["evalue"])))
        else:
            found += [
                (kind, str(text))
                for kind, text in sorted(output["data"].items())
            ]
    return found


def difference(stored: Any, found: Any, digits: bool = False) -> str:
    """What differs between the stored and the new outputs of a cell; empty if nothing does."""
    before, after = flat(stored), flat(found)
    if [kind for kind, _ in before] != [kind for kind, _ in after]:
        return f"outputs {[kind for kind, _ in before]} became {[kind for kind, _ in after]}"
    for (kind, old), (_, new) in zip(before, after, strict=True):
        if kind == "image/png":
            if figure_size(old) != figure_size(new):
                return f"a figure of {figure_size(old)} became one of {figure_size(new)} pixels"
        elif not same_text(old, new, digits):
            return f"{kind}: run `make notebooks`\n--- stored\n{old}\n--- now\n{new}"
    return ""


def pytest_configure(config: Any) -> None:
    """Let nbval compare the way that this file describes, and figures be readable."""
    os.environ["FEDCLUST_FIGURES"] = (
        "strict"  # kernels inherit it: see studies.bench.plots.show
    )
    try:
        from nbval.plugin import IPyNbCell
    except ImportError:
        return

    def compare_outputs(
        self: Any, test: Any, ref: Any, skip_compare: Any = None
    ) -> bool:
        digits = "nbval-check-output" in self.cell.metadata.get("tags", ())
        found = difference(ref, test, digits)
        self.comparison_traceback = [found] if found else []
        return not found

    IPyNbCell.compare_outputs = compare_outputs
