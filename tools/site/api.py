"""The reference: one page for each package and each estimator, from docstrings.

A package of the helpers shows what it lists in `__all__`; one of the product what it exports, and
below, each of its modules, what is public and not exported above.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType

PACKAGES = ("fedclust", "fedclust_helpers")


def module_names() -> list[str]:
    """The public modules of both packages."""
    names = []
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            parts = found.name.split(".")[1:]
            if not any(part.startswith("_") for part in parts):
                names.append(found.name)
    return sorted(names)


def defined_in(module: ModuleType) -> list[str]:
    """Public classes and functions that a module defines, in the order of its source."""
    found = []
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value) or inspect.isfunction(value):
            found.append(name)
    return found


def offered(package: ModuleType) -> list[str]:
    """Public classes and functions of ours that a package lists, or else imports."""
    names = getattr(package, "__all__", dir(package))
    return sorted(
        name
        for name, value in ((name, getattr(package, name)) for name in names)
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith(PACKAGES)
    )


def members(name: str) -> list[str]:
    """What the page of a module lists: of the helpers what `__all__` names, and nothing else."""
    module = importlib.import_module(name)
    if hasattr(module, "__path__") or hasattr(module, "__all__"):
        return offered(module)
    if name.startswith("fedclust_helpers."):
        return []
    above = importlib.import_module(name.rpartition(".")[0])
    taken = {item for item in offered(above) if hasattr(module, item)}
    return [item for item in defined_in(module) if item not in taken]


def private(kind: type) -> bool:
    """Whether a class is one of ours that has no place in the reference."""
    return kind.__module__.startswith(PACKAGES) and kind.__name__.startswith("_")


def shown(kind: type, name: str) -> bool:
    """Whether a member stands on the page of a class: its own, or of a base with no page."""
    owner = next((base for base in kind.__mro__ if name in vars(base)), kind)
    return owner is kind or private(owner)


@cache
def places() -> dict[type, str]:
    """The classes of the reference, and the names under which it lists them."""
    found = {}
    for module in module_names():
        for name in members(module):
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value):
                found.setdefault(value, f"{module}.{name}")
    return found


def described(kind: type) -> set[str]:
    """The attributes that the docstring of a class lists."""
    text = inspect.getdoc(kind) or ""
    part = re.search(r"^Attributes\n-+\n(.*?)(?=^\w[^\n]*\n--|\Z)", text, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^\w[\w, ]*", part[1], re.MULTILINE) if part else []
    return {name for head in heads for name in re.findall(r"\w+", head)}


def entry(module: str, name: str) -> list[str]:
    """The directive of one class or function."""
    value = getattr(importlib.import_module(module), name)
    if not inspect.isclass(value):
        return [f".. autofunction:: {module}.{name}", ""]
    lines = [f".. autoclass:: {module}.{name}", "   :members:"]
    hidden = set(getattr(value, "_fields", ()))  # of a named tuple: described in its docstring
    if any(map(private, value.__mro__)):  # a reader finds no page of theirs
        lines.append("   :inherited-members:")
        hidden |= {n for n in dir(value) if not shown(value, n)}
    hidden |= {n for n in dir(value) if re.fullmatch("set_.*_request", n)}  # scikit-learn's
    hidden |= {n for n in described(value) if hasattr(value, n)}
    hidden = {n for n in hidden if not n.startswith("_")}
    if hidden:
        lines.append(f"   :exclude-members: {', '.join(sorted(hidden))}")
    above = next((places()[base] for base in value.__mro__[1:] if base in places()), None)
    if above is not None:
        lines += ["", f"   Inherits from :py:class:`~{above}`."]
    return [*lines, ""]


def estimators(package: str) -> list[str]:
    """The estimators that a package offers: each has a page of its own."""
    module = importlib.import_module(package)
    if not hasattr(module, "__path__"):
        return []
    return [name for name in offered(module) if hasattr(getattr(module, name), "fit")]


def section(name: str, title: str, line: str, without: list[str]) -> list[str]:
    """A heading, the docstring of a module, and what it lists."""
    lines = [title, line * len(title), "", f".. automodule:: {name}", "   :no-members:", ""]
    for member in members(name):
        lines += [] if member in without else entry(name, member)
    return lines


def first_line(value: object) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(value) or "").split("\n")[0]


def example(value: object) -> list[str]:
    """The first example of a docstring, to stand before a long signature."""
    found = re.search(r"^>>> .*?(?=\n\n|\Z)", inspect.getdoc(value) or "", re.M | re.S)
    lines = found[0].split("\n") if found else []
    return [".. code-block:: pycon", "", *(f"   {x}" for x in lines), ""] if lines else []


def stage(source: Path) -> None:
    """Write a page for each package and each estimator."""
    folder = source / "api"
    folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, tuple[str, list[str]]] = {}
    for top in [name for name in module_names() if name.count(".") == 1]:
        short, own, parts = top.partition(".")[2], estimators(top), [top]
        parts += [name for name in module_names() if name.startswith(f"{top}.") and members(name)]
        lines = section(top, short, "=", own)
        for name in parts[1:]:
            lines += section(name, name.partition(".")[2], "-", [])
        if members(top) or parts[1:]:
            pages[short] = first_line(importlib.import_module(top)), lines
        for estimator in own:
            value = getattr(importlib.import_module(top), estimator)
            lines = [estimator, "=" * len(estimator), "", first_line(value), "", *example(value)]
            lines += entry(top, estimator)
            pages[estimator] = first_line(value), lines
    for name, (_, lines) in pages.items():
        (folder / f"{name}.rst").write_text("\n".join(lines), encoding="utf-8")
    order = sorted(pages, key=lambda name: (name.islower(), name))
    lines = ["API reference", "=============", ""]
    lines += [
        "``fedclust`` is what a stranger calls on own data, estimators first;",
        "``fedclust_helpers`` is what it and the lessons are made of.",
        "What only the checks, tables and figures of the papers need lives in",
        "``studies`` and is not listed here.",
        "",
    ]
    lines += [f"* :doc:`{name}`: {pages[name][0]}" for name in order]
    lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in order)]
    (folder / "index.rst").write_text("\n".join(lines) + "\n", encoding="utf-8")
