"""The tier for 32 bits says why it is skipped, and takes no file but the listed one."""

import shutil

import pytest

from tools.wasm import __main__ as wasm


def test_what_cannot_be_had_is_said_and_what_is_another_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PYODIDE", str(tmp_path))
    with pytest.raises(wasm.MissingError, match="lacks files that tools/wasm/files.tsv names"):
        wasm.files()
    names = [line.split("\t")[0] for line in (wasm.HERE / "files.tsv").read_text().splitlines()[1:]]
    for name in names:
        (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(SystemExit, match=f"{names[0]} is not the file"):
        wasm.files()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(wasm.MissingError, match="there is no node"):
        wasm.main([])


def test_answers_that_differ_are_named():
    here = {"a": [1.0, 0.0], "b": [3.0], "c": [2.0]}
    assert wasm.differences(here, here) == []
    assert wasm.differences({"a": [1 + 1e-8, 0.0], "b": [3.0, 3.0], "c": [2.0]}, here) == ["a", "b"]
