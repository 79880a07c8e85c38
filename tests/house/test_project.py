"""Facts about the project as a whole: packaging, documents, layers, and house rules."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shutil
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fedclust_helpers
import studies

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "fedclust_helpers"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted(
    module.name
    for package in (fedclust_helpers, studies)
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    if not module.name.endswith("__main__")
)

# Two storeys: the library below, and on top of it the studies (the bench). A module
# imports only from its own floor and the floors below it, inside packages too.
CEILINGS = {"library": 20_300, "studies": 15_200, "tests": 28_000, "tools": 3_500}  # filled lines
FLOORS = {
    0: (
        "_checked",
        "_fast",
        "_headings",
        "_lazy",
        "_nearest",
        "_private",
        "_progress",
        "_state",
        "_validation",
        "accounting",
        "datasets",
    )
    + ("kmeans", "mechanisms", "metrics", "secure_aggregation"),
    1: ("audit", "client_statistics", "federation"),
    2: ("program",),
    3: ("fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster"),
    4: ("command", "estimators", "flower"),
    5: ("studies.bench", "studies.paper_data"),
    6: ("studies.start", "studies.own_data", "studies.fastlloyd")
    + ("studies.feddp_kmeans", "studies.ldp_kmeans", "studies.rr_cluster"),
    7: ("studies.beyond", "studies.side_by_side"),
    8: ("studies", "studies.__main__", "studies.page"),
}
PAPERS = FLOORS[3]
FLOOR_OF = {part: floor for floor, parts in FLOORS.items() for part in parts}


def tracked_files() -> list[Path]:
    """Files under version control, or, outside a repository, all that are not caches."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if listed.returncode == 0:
            paths = [ROOT / name for name in listed.stdout.split("\0") if name]
            return sorted(path for path in paths if path.is_file())
    skipped = re.compile(
        r"\.venv|\.git$|__pycache__|\.egg-info|_cache$|\.hypothesis|\.cache|^look-out$"
    )
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not any(skipped.search(part) for part in path.relative_to(ROOT).parts)
    )


def tracked_text() -> Iterator[tuple[str, str]]:
    """Name and content of each text file, without the image data of notebooks."""
    for path in tracked_files():
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        if path.suffix == ".ipynb":
            text = re.sub(r'"image/[a-z+]+": ?"[^"]*"', "", text)
        yield path.relative_to(ROOT).as_posix(), text


def python_sources() -> list[Path]:
    """All Python files of ours: library, studies, notebooks, tests, tools."""
    return [path for path in tracked_files() if path.suffix == ".py"]


def script(name: str) -> ModuleType:
    """Import one of the files under tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- packaging -----------------------------------------------------------------------------------


def requirements(extra: str | None = None) -> list[Requirement]:
    """Direct requirements of the package (and of one extra, its own extras followed)."""
    project = PYPROJECT["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    queue = [extra] if extra else []
    while queue:
        for line in project["optional-dependencies"][queue.pop()]:
            requirement = Requirement(line)
            if canonicalize_name(requirement.name) == project["name"]:
                queue.extend(sorted(requirement.extras))
            else:
                found.append(requirement)
    return found


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_lock_is_a_plain_list_of_versions() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    names = [pin.split("==")[0] for pin in pins]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins)


@pytest.mark.parametrize("requirement", requirements("dev"), ids=lambda r: r.name)
def test_lock_satisfies_the_bounds(requirement: Requirement) -> None:
    pins = locked()
    name = canonicalize_name(requirement.name)
    assert name in pins, "run `make lock`"
    assert requirement.specifier.contains(pins[name])


def test_only_lower_bounds_are_declared() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    everything = [r for extra in extras for r in requirements(extra)]
    assert everything
    for requirement in everything:
        assert [s.operator for s in requirement.specifier] == [">="], str(requirement)


def test_environment_yml_is_the_generated_one() -> None:
    pytest.importorskip("pyproject2conda", reason="environment.yml is generated by pyproject2conda")
    stored = (ROOT / "environment.yml").read_text(encoding="utf-8")
    assert stored == script("lock").environment_text(), "run `make lock`"


def test_environment_yml_names_every_dependency() -> None:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\s*- ([A-Za-z0-9_.-]+)", text, flags=re.MULTILINE))
    assert {r.name for r in requirements("test")} <= listed
    assert "name: fedclust\n" in text
    assert "nodefaults" in text


def test_one_version_everywhere() -> None:
    version = fedclust_helpers.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_pre_commit_uses_the_locked_ruff() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert f"rev: v{locked()['ruff']}\n" in text


def test_data_files_of_the_package_are_declared() -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["*"]
    folder = ROOT / PACKAGE
    data = [p for p in tracked_files() if folder in p.parents and p.suffix != ".py"]
    for path in data:
        assert any(path.match(pattern) for pattern in patterns), path.name


def test_the_library_is_what_is_installed() -> None:
    """An empty name in `package-dir` makes a checkout importable as a whole, studies included."""
    settings = PYPROJECT["tool"]["setuptools"]
    folders = {path.parent for path in (ROOT / PACKAGE).rglob("__init__.py")}
    assert settings["packages"] == sorted(".".join(p.relative_to(ROOT).parts) for p in folders)
    assert settings["package-dir"] == {"": "."}


# --- documents -----------------------------------------------------------------------------------


def test_readme_names_both_commands_and_every_notebook() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make lab" in text
    assert "make test" in text
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"notebooks/{path.name}" in text, f"{path.name} is not in the map of notebooks"


def test_makefile_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    match = re.search(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)
    assert match is not None
    targets = match.group(1).split()
    assert len(targets) <= 20
    for target in targets:
        assert re.search(rf"^{target}:.* ## \S", text, flags=re.MULTILINE), target


def test_no_machine_path_and_no_index_host() -> None:
    # written in pieces so that this file passes its own test
    folders = "|".join(("work", "root", "home", "Users", "opt" + "/wheels", "opt" + "/pypi"))
    hosts = "|".join(("pypi" + r"\.org", "python" + "hosted", "anaconda" + r"\.org/simple"))
    options = "|".join(("index" + "-url", "find" + "-links", "trusted" + "-host"))
    forbidden = re.compile(
        rf"(?<![\w.:)}}\]-])/(?:{folders})/\w|\b(?:{hosts})|--(?:extra-)?(?:{options})"
    )
    found = [
        f"{name}: {text[max(match.start() - 20, 0) : match.end() + 20]!r}"
        for name, text in tracked_text()
        for match in forbidden.finditer(text)
    ]
    assert not found


def test_no_large_file() -> None:
    large = [
        p.relative_to(ROOT).as_posix() for p in tracked_files() if p.stat().st_size > 1_000_000
    ]
    assert not large


# --- the package ---------------------------------------------------------------------------------


def public_objects(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Public classes and functions defined in a module, with the public methods of the classes.

    The members of a Protocol are left out: they are documented where they are implemented.
    """
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        yield name, value
        if inspect.isclass(value) and not getattr(value, "_is_protocol", False):
            for attribute, member in vars(value).items():
                if attribute.startswith("_"):
                    continue
                if inspect.isfunction(member) or isinstance(
                    member, property | classmethod | staticmethod
                ):
                    yield f"{name}.{attribute}", getattr(value, attribute)


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_and_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ and module.__doc__.strip()
    if name.rsplit(".", 1)[-1].startswith("_"):
        return
    undocumented = [
        public
        for public, value in public_objects(module)
        # a dataclass without a docstring gets its own signature as one
        if not (text := inspect.getdoc(value)) or text.startswith(f"{public}(")
    ]
    assert not undocumented


@pytest.mark.parametrize("name", MODULES)
def test_random_functions_take_a_generator_by_keyword(name: str) -> None:
    if name.rsplit(".", 1)[-1].startswith("_"):
        return
    module = importlib.import_module(name)
    for public, value in public_objects(module):
        if not inspect.isfunction(value):
            continue
        parameter = inspect.signature(value).parameters.get("rng")
        if parameter is not None:
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, public


def module_name(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, known: Collection[str]) -> set[str]:
    """The modules of library and studies that a file imports, anywhere, for types too.

    ``from package import name`` leads to the module `name` where there is one, else to the package.
    """
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & set(known)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            source = ".".join(base + (node.module.split(".") if node.module else []))
            for alias in node.names:
                full = f"{source}.{alias.name}"
                found |= {full if full in known else source} & set(known)
    return found


@cache
def import_graph() -> dict[str, set[str]]:
    """For each module of library and studies, the modules of these that it imports."""
    ours = [path for name in (PACKAGE, "studies") for path in sorted((ROOT / name).rglob("*.py"))]
    files = {module_name(path): path for path in ours}
    return {name: imported_modules(path, files) - {name} for name, path in files.items()}


def floor_of(module: str) -> int:
    """The floor of a module: that of the longest part of its name which has one."""
    parts = module.removeprefix(f"{PACKAGE}.").split(".")
    for length in range(len(parts), 0, -1):
        if (floor := FLOOR_OF.get(".".join(parts[:length]))) is not None:
            return floor
    raise KeyError(module)


def test_the_drawing_of_the_house_names_every_package() -> None:
    drawn = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```")[1]
    parts = {part.removeprefix("studies.") for part in FLOOR_OF if not part.startswith("_")}
    assert {p for p in parts if not re.search(rf"\b{p}\b", drawn)} <= {"__main__"}


def test_every_module_has_a_floor() -> None:
    names = [name.removeprefix(f"{PACKAGE}.") for name in import_graph() if name != PACKAGE]
    firsts = {name.split(".")[0] for name in names}
    assert firsts == {part.split(".")[0] for part in FLOOR_OF}, "give the new module a floor"
    assert {".".join(n.split(".")[:2]) for n in names if n.startswith("studies")} <= set(FLOOR_OF)


def test_modules_do_not_import_from_floors_above() -> None:
    upward = [
        f"{module} (floor {floor_of(module)}) imports {target} (floor {floor_of(target)})"
        for module, targets in import_graph().items()
        for target in targets
        if PACKAGE not in (module, target) and floor_of(target) > floor_of(module)
    ]
    assert not upward


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph = dict(import_graph())
    while graph:
        free = [module for module, targets in graph.items() if not targets & set(graph)]
        assert free, f"circle among {sorted(graph)}"
        for module in free:
            del graph[module]


def test_the_library_does_not_import_the_studies() -> None:
    for path in (ROOT / PACKAGE).rglob("*.py"):
        assert not re.search(r"(?:import|from) studies\b", path.read_text("utf-8")), path.name


def test_no_library_module_serves_notebooks_alone() -> None:
    """What only a lesson calls belongs to the studies: the library is what others build on."""
    graph = import_graph()
    used = {target for targets in graph.values() for target in targets}
    fronts = {f"{PACKAGE}.{name}" for name in ("audit", "command", "estimators", *PAPERS)}
    fronts |= {f"{PACKAGE}.flower{name}" for name in ("", ".engine", ".__main__")}
    library = {name for name in graph if name.startswith(f"{PACKAGE}.")}
    assert library - used <= fronts


def filled(folder: str) -> dict[str, int]:
    """Lines that are not blank, docstrings included, of every module below a folder."""
    return {
        path.relative_to(ROOT / folder).as_posix(): sum(
            bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines()
        )
        for path in (ROOT / folder).rglob("*.py")
    }


def test_modules_are_short() -> None:
    assert not {name: n for name, n in (filled(PACKAGE) | filled("studies")).items() if n > 400}


def test_the_house_does_not_grow_unseen() -> None:
    """Ceilings: what needs more room takes something away, or raises one in CONTRIBUTING too."""
    folders = {"library": PACKAGE, "studies": "studies", "tests": "tests", "tools": "tools"}
    sizes = {name: sum(filled(folder).values()) for name, folder in folders.items()}
    assert not {name: n for name, n in sizes.items() if n > CEILINGS[name]}
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(f"{name} {most:,}" in said for name, most in CEILINGS.items())


def test_package_does_not_import_its_tests_or_notebooks_tools() -> None:
    heavy = re.compile(r"^\s*(?:import|from) (?:pytest|hypothesis|jupytext|nbformat|tests)\b", re.M)
    for path in (ROOT / PACKAGE).rglob("*.py"):
        assert not heavy.search(path.read_text(encoding="utf-8")), path.name


# --- randomness ----------------------------------------------------------------------------------

NEW_STYLE = {"BitGenerator", "Generator", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence"}
NEW_STYLE |= {"MT19937", "default_rng"}


def global_randomness(tree: ast.AST) -> list[str]:
    """Uses of numpy's global generator, its legacy class, or the standard library's `random`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            owner = node.value
            is_numpy = isinstance(owner.value, ast.Name) and owner.value.id in {"np", "numpy"}
            if is_numpy and owner.attr == "random" and node.attr not in NEW_STYLE:
                found.append(f"line {node.lineno}: np.random.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in {"numpy.random", "random"}:
            names = {alias.name for alias in node.names}
            if node.module == "random" or names - NEW_STYLE:
                found.append(f"line {node.lineno}: from {node.module} import {sorted(names)}")
        elif isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            found.append(f"line {node.lineno}: import random")
    return found


@pytest.mark.parametrize(
    "path", python_sources(), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_no_global_randomness(path: Path) -> None:
    if path.parent.name == "notebooks":  # magics are comments in the percent format
        cells = jupytext.read(path, fmt="py:percent").cells
        source = "\n".join(c.source for c in cells if c.cell_type == "code")
        source = re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE)
    else:
        source = path.read_text(encoding="utf-8")
    found = global_randomness(ast.parse(source))
    if path.relative_to(ROOT).parts[0] in (
        "tests",
        "tools",
    ):  # as a value to be refused, an old generator may appear there
        found = [use for use in found if not use.endswith("np.random.RandomState")]
    assert not found


@pytest.mark.parametrize(
    "source",
    ["np.random.seed(1)", "x = numpy.random.normal()", "from numpy.random import rand"]
    + ["import random", "from random import shuffle", "np.random.RandomState(3)"],
)
def test_global_randomness_is_recognised(source: str) -> None:
    assert global_randomness(ast.parse(source))


def test_generators_are_not_mistaken_for_global_randomness() -> None:
    source = "rng = np.random.default_rng(1)\nrng.normal()\nx: np.random.Generator"
    assert not global_randomness(ast.parse(source))
