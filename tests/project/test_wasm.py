"""Pyodide's files are the listed ones or none, and the tier for 32 bits says why it is skipped."""

import shutil

import pytest

from tools import pyodide
from tools.wasm import __main__ as wasm


def test_what_cannot_be_had_is_said_and_what_is_another_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PYODIDE", str(tmp_path))
    names = [row["file"] for row in pyodide.listed()]
    with pytest.raises(pyodide.MissingError, match=f"has no {names[0]}"):
        pyodide.folder()
    for name in names:
        (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(SystemExit, match=f"{names[0]} in .* is not the file"):
        pyodide.folder()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pyodide.MissingError, match="there is no node"):
        wasm.main([])
    monkeypatch.setenv("PYODIDE", "")
    with pytest.raises(pyodide.MissingError, match="nothing is wanted"):
        pyodide.folder()


def test_answers_that_differ_are_named():
    here = {"a": [1.0, 0.0], "b": [3.0], "c": [2.0]}
    assert wasm.differences(here, here) == []
    assert wasm.differences({"a": [1 + 1e-8, 0.0], "b": [3.0, 3.0], "c": [2.0]}, here) == ["a", "b"]
