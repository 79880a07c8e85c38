"""Indices of this platform: NumPy's answers, also where they have 32 bits."""

import ast

import numpy as np
import pytest
from conftest import ROOT, refuses

from fedclust_helpers import _index


@pytest.fixture(params={np.int32, np.intp}, ids=lambda kind: kind.__name__)
def kind(request, monkeypatch):
    """What NumPy is given; a platform of 32 bits takes nothing wider."""
    monkeypatch.setattr(_index, "INDEX", request.param)
    calls = []
    for name in ("bincount", "repeat", "take"):
        real = getattr(np, name)

        def strict(*args, real=real, at=0 if name == "bincount" else 1, **kwargs):
            assert np.can_cast(args[at].dtype, request.param)
            calls.append(args[at].dtype)
            return real(*args, **kwargs)

        monkeypatch.setattr(_index.np, name, strict)
    return calls


def test_answers_are_those_of_numpy(kind):
    codes, weights = np.array([3, 0, 3, 1], dtype=np.int64), np.array([0.5, 1, 2, -1])
    assert _index.bincount(codes, minlength=6).tolist() == [1, 1, 0, 2, 0, 0]
    assert _index.bincount(codes, weights).tolist() == [1, -1, 0, 2.5]
    assert _index.bincount(codes).dtype == np.int64 and not len(_index.bincount([]))
    values = np.arange(8.0).reshape(4, 2)
    assert np.array_equal(_index.take(values, codes, 0), values[codes])
    assert np.array_equal(_index.repeat(values, codes, 0), values[[0, 0, 0, 2, 2, 2, 3]])
    assert _index.repeat([1.5], 3).tolist() == [1.5] * 3
    assert _index.sums_from(values, np.array([0, 3])).tolist() == [[6, 9], [6, 7]]
    assert len(kind) == 7


def test_what_is_no_index_is_refused_and_never_wraps_around(kind):
    for wrong in (2**31, 2**63):
        if np.iinfo(_index.INDEX).max < wrong:
            refuses(OverflowError, "cannot be as large", _index.index, np.array([wrong]))
    refuses(TypeError, "", _index.bincount, [0.5])


def test_no_array_is_asked_for_rows_by_itself():
    """Methods, which ruff cannot tell by their names: brackets, or `_index`."""
    found = []
    for path in [p for name in ("fedclust", "fedclust_helpers", "studies")
                 for p in (ROOT / name).rglob("*.py")]:  # fmt: skip
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                by_axis = node.func.attr == "take" and {k.arg for k in node.keywords} & {"axis"}
                if by_axis or node.func.attr in ("repeat", "reduceat"):
                    found.append(f"{path.name}:{node.lineno}")
    assert [name for name in found if not name.startswith("_index.py")] == []
