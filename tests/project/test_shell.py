"""The shell behind a chapter in the browser, in ordinary Python: what a page is told to draw."""

import json

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

pytest.importorskip("IPython")
shell = pytest.importorskip("tools.site.shell")

PLAY = """from studies.start import widget as play
from fedclust_helpers import federation
import numpy as np
rows = [np.random.default_rng(i).uniform(-1, 1, (50, 2)) for i in range(3)]
_ = play.explore(federation.ClientData.from_clients(rows), seed=1)"""


@pytest.fixture(scope="module", autouse=True)
def running():
    backend = mpl.get_backend()
    with mpl.rc_context():
        shell.start()
        yield
    shell.Shell.clear_instance()
    plt.switch_backend(backend)


def shown(code):
    told = json.loads(shell.run(code))
    return [(one["kind"], one.get("text", "")) for one in told["outputs"]], told["failed"]


def test_outputs_come_in_their_order_and_values_as_jupyter_shows_them():
    found, failed = shown(
        "import matplotlib.pyplot as plt\n"
        "print('a'); plt.plot([1, 2]); plt.show(); print('b')\n1 + 1"
    )
    assert [kind for kind, _ in found] == ["stream", "figure", "stream"] and not failed
    assert found[0][1] == "a\n" and found[2][1] == "b\n2\n" and "data:image/png" in found[1][1]
    table = "from IPython.display import Markdown\nMarkdown('| a |\\n|---|\\n| <b>1</b> |')"
    (((kind, text),), _) = shown(table)
    assert kind == "html" and "<th>a</th>" in text and "<b>1</b>" in text
    assert shown("import sys\nprint('careful', file=sys.stderr)")[0] == [("warning", "careful\n")]
    (((kind, text),), _) = shown("for i in range(100_000): print(i)")
    assert kind == "stream" and text.endswith("99999\n") and text.count("\n") == 221
    assert "... 99,780 lines are not shown ..." in text


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("x = 1\nlen(x)", ["line 2: len(x)", "TypeError: object of type 'int' has no len()"]),
        ("def f():\n    return 1 / 0\n\nf()", ["line 4: f()", "line 2: return 1 / 0",
                                           "ZeroDivisionError: division by zero"]),
        ("input()", ["line 1: input()",
                     "RuntimeError: a page cannot be asked: write the answer into the cell"]),
    ],
)  # fmt: skip
def test_an_error_shows_the_readers_own_lines_and_the_message(code, lines):
    ((kind, text),), failed = shown(code)
    assert failed and kind == "error" and text.splitlines() == lines


def test_so_does_a_slip_of_writing_and_one_below_our_functions():
    ((_, text),), failed = shown("x = (")
    assert failed and "your cell, line 1" in text and "ipython" not in text
    wrong = "from fedclust_helpers import accounting\n\naccounting.gdp_mu(-1.0, 1e-6)"
    ((_, text),), _ = shown(wrong)
    first, last = text.splitlines()
    assert first == "line 3: accounting.gdp_mu(-1.0, 1e-6)"
    assert last.startswith("ValueError: epsilon")


def test_the_controls_of_a_widget_move_what_it_draws():
    told = json.loads(shell.run(PLAY))
    ((controls,), pictures) = ([o["controls"] for o in told["outputs"] if o["kind"] == "controls"],
                               [o for o in told["outputs"] if o["kind"] == "figure"])  # fmt: skip
    assert [(one["name"], one["form"]) for one in controls] == [
        ("epsilon", "slider"), ("k", "slider"), ("another draw", "button")
    ]  # fmt: skip
    assert controls[0]["words"][controls[0]["at"]] == "1.00" and controls[1]["words"][0] == "1"
    drawn = [pictures[0]["text"]]
    for control, at in ((controls[0], 0), (controls[1], 7), (controls[2], 0)):
        told = json.loads(shell.move(control["id"], at))
        assert not told["failed"] and [o["kind"] for o in told["outputs"]] == ["figure"]
        drawn.append(told["outputs"][0]["text"])
    assert len(set(drawn)) == 4
