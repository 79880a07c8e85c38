"""The Python behind a chapter that runs in the browser: cells as Jupyter runs them, outputs as the
book shows them.

A worker of the page imports this module and calls `run` and `move`; both answer with JSON.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import Any

import matplotlib as mpl
import numpy as np
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type

from tools.site.drawn import drawn

VIEW = "application/vnd.jupyter.widget-view+json"
MOST = 400  # positions of a slider
FIRST, LAST = 200, 20  # lines that are shown of a longer text

shown: list[dict[str, Any]] = []  # what the running cell has shown so far, in order


def show(kind: str, **what: Any) -> None:
    """Add one output; pieces of one stream are one."""
    if kind in ("stream", "warning") and shown and shown[-1]["kind"] == kind:
        shown[-1]["text"] += what["text"]
    else:
        shown.append({"kind": kind, **what})


class Stream(TextIOBase):
    """Where a cell prints to."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def write(self, text: str) -> int:
        """Show it."""
        if text:
            show(self.kind, text=text)
        return len(text)


def publish(data: dict[str, Any], told: dict[str, Any]) -> None:
    """Show the richest form that a page can draw."""
    if VIEW in data:
        show("controls", view=data[VIEW]["model_id"])
    elif "image/png" in data:
        png = data["image/png"]
        content = base64.b64decode(png) if isinstance(png, str) else png
        source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        show("figure", text=drawn(source, content, told.get("image/png", {})))
    elif "text/html" in data:
        show("html", text=data["text/html"])
    elif "text/markdown" in data:
        from markdown_it import MarkdownIt

        show("html", text=MarkdownIt("commonmark").enable("table").render(data["text/markdown"]))
    else:
        show("stream", text=data.get("text/plain", "") + "\n")


class Publisher(DisplayPublisher):
    """What `display` calls."""

    def publish(self, data: Any, metadata: Any = None, **_: Any) -> None:  # type: ignore[override]
        """Show it."""
        publish(data, metadata or {})

    def clear_output(self, wait: bool = False) -> None:
        """Forget what the cell has shown."""
        shown.clear()


class Hook(DisplayHook):
    """What the value of a cell's last line goes through."""

    def write_output_prompt(self) -> None:
        """A page has no numbers of cells."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        """Show it."""
        publish(format_dict, md_dict or {})

    def finish_displayhook(self) -> None:
        """Nothing follows."""


class Shell(InteractiveShell):
    """IPython, writing to the page."""

    display_pub_class = Type(Publisher)
    displayhook_class = Type(Hook)

    def enable_gui(self, gui: Any = None) -> None:
        """There is none."""

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        """The reader's own lines, and the message: not those of libraries."""
        frames = traceback.extract_tb(evalue.__traceback__)
        own = [frame for frame in frames if "ipython-input" in frame.filename]
        lines = [f"line {frame.lineno}: {frame.line}\n" for frame in own]
        said = "".join(traceback.format_exception_only(evalue))
        said = re.sub(r'File "<ipython-input[^"]*"', "your cell", said)
        show("error", text="".join([*lines, said]))


def ask(_: object = "") -> str:
    """Stands for `input`."""
    raise RuntimeError("a page cannot be asked: write the answer into the cell")


def start() -> Shell:
    """The shell of a page."""
    if np.lib.NumpyVersion(np.__version__) < "2.3.0" and np.dtype(np.intp).itemsize < 8:
        old = np.bincount  # NumPy 2.3 takes whole numbers of 64 bits here by itself

        def bincount(x: Any, *args: Any, **options: Any) -> Any:
            return old(np.asarray(x).astype(np.intp, copy=False), *args, **options)

        np.bincount = bincount  # type: ignore[assignment]
    HistoryManager.enabled = False
    mpl.use("module://matplotlib_inline.backend_inline")
    shell = Shell.instance(colors="nocolor")
    shell.user_ns["input"] = ask
    shell.run_line_magic("matplotlib", "inline")
    return shell


def told(act: Callable[[], bool]) -> str:
    """What this shows, whether it failed, and its seconds, as JSON."""
    shown.clear()
    begin = time.perf_counter()
    with redirect_stdout(Stream("stream")), redirect_stderr(Stream("warning")):
        works = act()
    for one in shown:
        lines = one.get("text", "").splitlines(keepends=True)
        if one["kind"] in ("stream", "warning", "error") and len(lines) > FIRST + LAST:
            left = f"... {len(lines) - FIRST - LAST:,} lines are not shown ...\n"
            one["text"] = "".join([*lines[:FIRST], left, *lines[-LAST:]])
        if one["kind"] == "controls":  # described last: the cell may still have added some
            one["controls"] = [described(widget) for widget in leaves(known(one["view"]))]
    seconds = time.perf_counter() - begin
    return json.dumps({"outputs": shown, "failed": not works, "seconds": seconds})


def run(code: str) -> str:
    """Run the text of a cell."""
    shell = Shell.instance()
    return told(lambda: bool(shell.run_cell(code, store_history=False).success))


# --- sliders --------------------------------------------------------------------------------------


def known(name: str) -> Any:
    """The widget of this name."""
    import ipywidgets

    return ipywidgets.widgets.widget._instances[name]


def leaves(widget: Any) -> Iterator[Any]:
    """The controls below a widget."""
    if hasattr(widget, "children"):
        for child in widget.children:
            yield from leaves(child)
    elif hasattr(widget, "click") or hasattr(widget, "readout") or hasattr(widget, "options"):
        yield widget


def positions(widget: Any) -> list[Any]:
    """The values that a slider stops at, or the options of a choice."""
    if hasattr(widget, "options"):
        return list(range(len(widget.options)))
    n = round((widget.max - widget.min) / widget.step)
    if n > MOST:
        raise ValueError(f"a slider of the page may have at most {MOST} positions, got {n}")
    values = [widget.min + i * (widget.max - widget.min) / n for i in range(n + 1)]
    if hasattr(widget, "base"):
        return [widget.base**value for value in values]
    return [type(widget.value)(round(value, 9)) for value in values]


def described(widget: Any) -> dict[str, Any]:
    """A control for the page: a button, a list or a slider, each position with its words."""
    about = {"id": widget.model_id, "name": widget.description}
    if hasattr(widget, "click"):
        return {**about, "form": "button", "tip": widget.tooltip}
    if hasattr(widget, "options"):
        form = "list" if type(widget).__name__ == "Dropdown" else "slider"
        return {**about, "form": form, "at": widget.index, "words": list(widget._options_labels)}
    values = positions(widget)
    at = min(range(len(values)), key=lambda i: abs(values[i] - widget.value))
    return {**about, "form": "slider", "at": at,
            "words": [format(value, widget.readout_format) for value in values]}  # fmt: skip


def move(name: str, at: int) -> str:
    """Move the control of this name to a position, or press it: what is drawn then."""
    widget = known(name)

    def act() -> bool:
        try:
            if hasattr(widget, "click"):
                widget.click()
            elif hasattr(widget, "options"):
                widget.index = at
            else:
                widget.value = positions(widget)[at]
        except Exception:  # shown like that of a cell
            Shell.instance()._showtraceback(*sys.exc_info())
            return False
        return True

    return told(act)
