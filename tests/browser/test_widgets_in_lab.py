"""Every widget in a real browser: Run All in JupyterLab, move each control, see a new figure.

With two cores the next notebook runs while the controls of the one before are moved.

Needs Chromium or Chrome and the Python package playwright (`make browser-test` installs the
latter). Works on copies of the notebooks, so that the tracked files stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser_cases import running_browser  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "widgets"
RUN_TIMEOUT = 240  # seconds for all cells of a notebook on a busy machine
REDRAW_TIMEOUT = 20  # a widget answers within a second; the rest is for busy machines
SETTINGS = {
    # all cells in the page, also those out of sight; no pop-up about news
    "notebook-extension/tracker": '{"windowingMode": "none"}',
    "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
}

# The widget must be found here without anything that the real notebooks need.
SELF_TEST = """\
import matplotlib.pyplot as plt
from ipywidgets import FloatSlider, interact


def draw(slope):
    fig, ax = plt.subplots(figsize=(3, 2))
    ax.plot([0, 1], [0, slope])
    ax.set_ylim(0, 5)
    plt.show()


_ = interact(draw, slope=FloatSlider(value=1.0, min=0.0, max=5.0, step=0.5))
"""


def widget_cells(path: Path) -> list[int]:
    """Positions of the cells tagged `widget`."""
    cells = nbformat.read(path, as_version=4).cells
    return [i for i, cell in enumerate(cells) if "widget" in cell.metadata.get("tags", ())]


NOTEBOOKS = [p for p in sorted((ROOT / "notebooks").glob("*.ipynb")) if widget_cells(p)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab on a free port, serving copies of the notebooks; yields its address."""
    folder = tmp_path_factory.mktemp("lab")
    work = folder / "notebooks"
    work.mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, work)
    cell = nbformat.v4.new_code_cell(SELF_TEST, metadata={"tags": ["widget"]})
    kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernelspec})
    nbformat.write(notebook, work / "self_test.ipynb")
    for name, text in SETTINGS.items():
        target = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "MPLBACKEND"},
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }
    log = folder / "lab.log"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + 90
            while True:
                try:
                    urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    if server.poll() is not None or time.monotonic() > deadline:
                        pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")
                    time.sleep(0.5)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


# How far the notebook is: numbered prompts, kernel, living widgets, and trouble.
STATE = r"""() => {
    const all = selector => [...document.querySelectorAll('.jp-NotebookPanel ' + selector)];
    const prompts = all('.jp-InputArea-prompt').map(p => p.textContent.trim());
    return {
        done: prompts.filter(text => /^\[\d+\]:?$/.test(text)).length,
        waiting: prompts.filter(text => /^\[\*\]:?$/.test(text)).length,
        idle: all('.jp-Notebook-ExecutionIndicator[data-status="idle"]').length > 0,
        sliders: all('.noUi-handle').length,
        stderr: all('[data-mime-type$="stderr"]').length,
    };
}"""


def wait_for_kernel(page: Any) -> None:
    """Wait for an idle kernel; JupyterLab, just started, sometimes asks first which one to take."""
    status = page.locator("#jp-main-statusbar", has_text=re.compile(r"ipykernel\) \| Idle"))
    choose = page.locator(".jp-Dialog button.jp-mod-accept")
    deadline = time.monotonic() + 90
    while not status.count():
        assert time.monotonic() < deadline, "the kernel did not start"
        if choose.count():
            choose.first.click()
        page.wait_for_timeout(300)


def press_run_all(page: Any) -> None:
    """Let all cells run."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def wait_for_all(page: Any, n_code_cells: int) -> None:
    """Wait until the last cell is done and the kernel is idle; no cell ends in an error."""
    deadline = time.monotonic() + RUN_TIMEOUT
    while True:
        state = page.evaluate(STATE)
        if state["stderr"] or (
            state["done"] == n_code_cells and state["idle"] and state["sliders"]
        ):
            break
        assert time.monotonic() < deadline, f"the notebook did not finish: {state}"
        page.wait_for_timeout(300)
    errors = page.locator('.jp-Notebook [data-mime-type="application/vnd.jupyter.error"]')
    assert errors.count() == 0, errors.first.inner_text()


def images(cell: Any) -> list[str]:
    """The figures in the output of one cell, as data addresses, equal when the bytes are equal."""
    return cell.locator(".jp-OutputArea img").evaluate_all("all => all.map(image => image.src)")


def wait_for_change(page: Any, cell: Any, before: list[str], start: float) -> float | None:
    """Seconds from `start` until the figures differ from `before`; None if they never do."""
    while time.monotonic() < start + REDRAW_TIMEOUT:
        now = images(cell)
        # while a widget redraws there is a moment without any image
        if len(now) == len(before) and now != before:
            return time.monotonic() - start
        page.wait_for_timeout(20)
    return None


def settled_images(page: Any, cell: Any) -> list[str]:
    """The figures of a cell once there are some and they have not changed for a second."""
    deadline = time.monotonic() + REDRAW_TIMEOUT
    last: list[str] = []
    since = time.monotonic()
    while time.monotonic() < deadline:
        now = images(cell)
        if now != last:
            last, since = now, time.monotonic()
        elif now and time.monotonic() - since > 1.0:
            return now
        page.wait_for_timeout(100)
    assert last, "the widget shows no figure"
    return last


def move(page: Any, cell: Any, number: int, before: list[str]) -> tuple[str, float | None]:
    """Move one slider of a cell; what it shows then, and the seconds until the new figure."""
    handle = cell.locator(".noUi-handle").nth(number)
    readout = cell.locator(".widget-readout").nth(number)
    shown = readout.inner_text()
    handle.scroll_into_view_if_needed()
    handle.focus()
    start = time.monotonic()
    page.keyboard.press("ArrowRight")
    if readout.inner_text() == shown:  # it stands at its end
        start = time.monotonic()
        page.keyboard.press("ArrowLeft")
    return readout.inner_text(), wait_for_change(page, cell, before, start)


def choose(page: Any, cell: Any, number: int, before: list[str]) -> tuple[str, float | None]:
    """Take another entry of one list of a cell."""
    box = cell.locator(".widget-dropdown select").nth(number)
    names = box.locator("option").all_inner_texts()
    at = box.evaluate("box => box.selectedIndex")
    start = time.monotonic()
    box.select_option(index=(at + 1) % len(names))
    return names[(at + 1) % len(names)], wait_for_change(page, cell, before, start)


def press(page: Any, cell: Any, number: int, before: list[str]) -> tuple[str, float | None]:
    """Press one button of a cell."""
    button = cell.locator(".widget-button").nth(number)
    start = time.monotonic()
    button.click()
    return button.inner_text(), wait_for_change(page, cell, before, start)


class Desk:
    """Notebooks in JupyterLab, each in a tab and with a kernel of its own."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address
        self.tabs: dict[str, Any] = {}

    def start(self, name: str) -> Any:
        """Open a notebook and let it run, unless it does already; returns its tab."""
        if name not in self.tabs:
            page = self.browser.new_page(viewport={"width": 1300, "height": 950})
            self.tabs[name] = page
            path = f"lab/workspaces/{name}/tree/notebooks/{name}.ipynb"
            page.goto(f"{self.address}/{path}?token={TOKEN}&reset")
            page.wait_for_selector(".jp-NotebookPanel .jp-Notebook .jp-Cell", timeout=90_000)
            wait_for_kernel(page)
            press_run_all(page)
        return self.tabs[name]

    def clear(self, name: str) -> None:
        """Stop a kernel and close its tab."""
        page = self.tabs.pop(name)
        page.get_by_role("menuitem", name="Kernel", exact=True).click()
        page.get_by_role("menuitem", name=re.compile(r"^Shut Down Kernel")).click()
        page.close()


@pytest.fixture(scope="module")
def desk(browser: Any, lab: str) -> Iterator[Desk]:
    found = Desk(browser, lab)
    yield found
    for page in found.tabs.values():
        page.close()


def check_widgets(desk: Desk, name: str, path: Path | None, following: Path | None) -> None:
    """Run one notebook and move every control of each widget cell; the next one runs meanwhile."""
    if path is None:
        positions, n_code_cells = [0], 1
    else:
        positions = widget_cells(path)
        cells = nbformat.read(path, as_version=4).cells
        code = [c for c in cells if c.cell_type == "code" and c.source.strip()]
        folded = [c for c in code if c.metadata.get("jupyter", {}).get("source_hidden")]
        n_code_cells = len(code) - len(folded)  # a folded cell has no numbered prompt
    page = desk.start(name)
    if following is not None and (os.cpu_count() or 1) > 1:
        desk.start(following.stem)
    wait_for_all(page, n_code_cells)
    if path is not None:  # the code of figures is folded
        hidden = page.locator(".jp-CodeCell .jp-Cell-inputWrapper .jp-Placeholder:visible")
        assert hidden.count() == len(folded) > 0
    for position in positions:
        cell = page.locator(".jp-Notebook .jp-Cell").nth(position)
        cell.locator(".noUi-handle").first.wait_for(timeout=30_000)
        n_sliders = cell.locator(".noUi-handle").count()
        n_lists = cell.locator(".widget-dropdown select").count()
        moves = [(move, i) for i in range(n_sliders)] + [(choose, i) for i in range(n_lists)]
        moves += [(press, i) for i in range(cell.locator(".widget-button").count())]
        for act, number in moves:
            before = settled_images(page, cell)
            shown, seconds = act(page, cell, number, before)
            control = f"{name}, cell {position + 1}, {act.__name__} {number + 1}: {shown}"
            assert seconds is not None, f"{control}: the figure did not change"
            print(f"\n{control}, redrawn in {seconds:.2f} s")
    traceback = page.locator('.jp-Notebook [data-mime-type="application/vnd.jupyter.stderr"]')
    assert traceback.count() == 0, traceback.first.inner_text()
    desk.clear(name)


def test_the_check_itself(desk: Desk) -> None:
    check_widgets(desk, "self_test", None, NOTEBOOKS[0])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_widget_redraws_its_figure(path: Path, desk: Desk) -> None:
    at = NOTEBOOKS.index(path) + 1
    check_widgets(desk, path.stem, path, NOTEBOOKS[at] if at < len(NOTEBOOKS) else None)
