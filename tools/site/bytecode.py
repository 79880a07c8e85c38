"""Run by Pyodide while the book is built: compile what chapters import, once for all readers.

    bytecode.py IMPORTS TARGET

A third of the start of a chapter was compiling Python files. IMPORTS is a file of import
statements; TARGET becomes a zip of compiled files that lie beside their sources when unpacked.
"""

import importlib.util
import py_compile
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path


def main(imports: str, target: str) -> None:
    """Import, then compile every plain module of an installed package."""
    for line in Path(imports).read_text(encoding="utf-8").splitlines():
        exec(line, {})
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    root = Path(sys.modules["numpy"].__file__).parents[1]
    with zipfile.ZipFile(target, "w") as packed, tempfile.TemporaryDirectory() as place:
        for file in sorted(f for f in files if f.endswith(".py") and Path(f).is_relative_to(root)):
            compiled = Path(place) / "compiled"
            unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # the times of files differ
            py_compile.compile(file, str(compiled), doraise=True, invalidation_mode=unchecked)
            beside = Path(importlib.util.cache_from_source(file)).relative_to(root)
            info = zipfile.ZipInfo(beside.as_posix(), (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, compiled.read_bytes())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
