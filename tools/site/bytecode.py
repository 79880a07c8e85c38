"""Run by Pyodide while the book is built: compile what chapters import, once for all readers.

    bytecode.py IMPORTS

A third of the start of a chapter was compiling Python files. IMPORTS is a file of import
statements. Beside it come `python_stdlib.zip`, Python's own library with compiled files beside the
sources, and `bytecode.zip`, to be unpacked over the packages.
"""

import importlib.util
import marshal
import shutil
import sys
import warnings
import zipfile
from pathlib import Path

HEAD = importlib.util.MAGIC_NUMBER + bytes([1, *bytes(11)])  # used unchecked: times of files differ
FONTS = "matplotlib/fontlist.json"  # made anew here: that of the package is of another version


def add(target: zipfile.ZipFile, path: Path, content: bytes) -> None:
    """Put a file into an archive that is the same every time."""
    info = zipfile.ZipInfo(path.as_posix(), (1980, 1, 1, 0, 0, 0))
    target.writestr(info, content, zipfile.ZIP_DEFLATED, 9)


def main(imports: str) -> None:
    """Import, then compile every plain module of the library and of an installed package."""
    for line in Path(imports).read_text(encoding="utf-8").splitlines():
        exec(line, {})
    library, root = Path(shutil.__file__).parent, Path(sys.modules["numpy"].__file__).parents[1]
    shutil.copyfile(library, "python_stdlib.zip")
    specs = filter(None, (getattr(module, "__spec__", None) for module in [*sys.modules.values()]))
    plain = {spec.origin: spec for spec in specs if (spec.origin or "").endswith(".py")}
    own, others = (zipfile.ZipFile(f"{name}.zip", "a") for name in ("python_stdlib", "bytecode"))
    with own, others:
        for file, spec in sorted(plain.items()):
            content = HEAD + marshal.dumps(spec.loader.get_code(spec.name))
            if Path(file).is_relative_to(root):
                beside = Path(importlib.util.cache_from_source(file))
                add(others, beside.relative_to(root), content)
            elif Path(file).is_relative_to(library):
                add(own, Path(file).relative_to(library).with_suffix(".pyc"), content)
        add(others, Path(FONTS), (root / FONTS).read_bytes())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
