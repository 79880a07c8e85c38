"""Facts about the project as a whole: packaging, documents, layers, and its rules."""

import ast
import importlib
import inspect
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from runpy import run_path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fedclust
import fedclust_helpers

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedclust", "fedclust_helpers")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Three packages: the helpers below, the product on them, and on top the studies (the bench). A
# module imports only from its own layer and the layers below it, inside packages too.
CEILINGS = {  # filled lines
    "fedclust_helpers": 17_350, "fedclust": 8_530, "studies": 16_130, "tests": 27_560,
    "tools": 4_580,
}  # fmt: skip
LAYERS = {
    0: (
        "fedclust_helpers",
        "_checked",
        "_ciphers",
        "_fast",
        "_index",
        "_lazy",
        "_nearest",
        "_plain_ciphers",
        "_private",
        "_progress",
        "_state",
        "_validation",
        "accounting",
        "datasets",
    )
    + ("exact_noise", "kmeans", "mechanisms", "metrics", "secure_aggregation"),
    1: ("audit", "client_statistics", "federation"),
    2: ("program",),
    3: ("fastlloyd", "feddp_kmeans", "ldp_kmeans", "rr_cluster"),
    4: ("fedclust.describing", "fedclust.frames", "fedclust.tables", "fedclust.doubts"),
    5: ("fedclust", "fedclust.command", "fedclust.estimators", "fedclust.flower")
    + ("fedclust.ledgers",),
    6: ("studies.bench", "studies.paper_data"),
    7: ("studies.start", "studies.own_data", "studies.fastlloyd")
    + ("studies.feddp_kmeans", "studies.ldp_kmeans", "studies.rr_cluster"),
    8: ("studies.beyond", "studies.side_by_side"),
    9: ("studies", "studies.__main__", "studies.page", "studies.tables"),
}
PAPERS = LAYERS[3]
LAYER_OF = {part: layer for layer, parts in LAYERS.items() for part in parts}


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


def test_the_lock_is_a_plain_list_that_keeps_lower_bounds() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins)
    locked = dict(pin.split("==") for pin in pins)
    assert list(locked) == sorted(locked) and len(locked) == len(pins)
    for requirement in requirements("dev"):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
    extras = PYPROJECT["project"]["optional-dependencies"]
    for requirement in (r for extra in extras for r in requirements(extra)):
        assert [s.operator for s in requirement.specifier] == [">="], str(requirement)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert f"rev: v{locked['ruff']}\n" in hooks


def test_environment_yml_is_the_generated_one() -> None:
    pytest.importorskip("pyproject2conda", reason="environment.yml is generated by pyproject2conda")
    stored = (ROOT / "environment.yml").read_text(encoding="utf-8")
    generated = run_path(str(ROOT / "tools" / "lock.py"))["environment_text"]
    assert stored == generated(), "run `make lock`"


def test_one_version_everywhere() -> None:
    version = fedclust_helpers.__version__
    assert fedclust.__version__ is version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_two_packages_are_what_is_installed() -> None:
    """An empty name in `package-dir` makes a checkout importable as a whole, studies included."""
    settings = PYPROJECT["tool"]["setuptools"]
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("__init__.py")}
    assert settings["packages"] == sorted(".".join(p.relative_to(ROOT).parts) for p in folders)
    assert settings["package-dir"] == {"": "."}
    patterns = [each for listed in settings["package-data"].values() for each in listed]
    for path in tracked_files():
        if path.relative_to(ROOT).parts[0] in PACKAGES and path.suffix != ".py":
            assert any(path.match(pattern) for pattern in patterns), path.name


# --- documents -----------------------------------------------------------------------------------


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
    assert not [path.name for path in tracked_files() if path.stat().st_size > 1_000_000]


# --- the packages --------------------------------------------------------------------------------


@cache
def import_graph() -> dict[str, set[str]]:
    """For each module of packages and studies, those of them that it imports, for types too.

    ``from package import name`` leads to the module `name` where there is one, else to the package.
    """
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in (*PACKAGES, "studies")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "app" not in path.parts  # what Flower ships is a program of its own
    }
    graph = {}
    for module, path in files.items():
        package, found = path.relative_to(ROOT).parts[:-1], set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else ()
                source = ".".join([*base, *([node.module] if node.module else [])])
                names = {f"{source}.{alias.name}" for alias in node.names}
                found |= {name if name in files else source for name in names}
        graph[module] = found & set(files) - {module}
    return graph


def layer_of(module: str) -> int:
    """The layer of a module: that of the longest part of its name which has one."""
    parts = module.removeprefix("fedclust_helpers.").split(".")
    for length in range(len(parts), 0, -1):
        if (layer := LAYER_OF.get(".".join(parts[:length]))) is not None:
            return layer
    raise KeyError(module)


def test_the_drawing_names_every_package() -> None:
    drawn = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```")[1]
    parts = {part.rpartition(".")[2] for part in LAYER_OF if not part.startswith("_")}
    assert {p for p in parts if not re.search(rf"\b{p}\b", drawn)} <= {"__main__"}


def test_every_module_has_a_layer() -> None:
    names = {".".join(name.split(".")[:2]) for name in import_graph()}
    parts = {name.removeprefix("fedclust_helpers.") for name in names}
    assert parts == set(LAYER_OF), "give the new module a layer"


def test_the_helpers_import_nothing_of_the_product() -> None:
    helpers = {m: found for m, found in import_graph().items() if m.startswith("fedclust_helpers")}
    used = {target.partition(".")[0] for targets in helpers.values() for target in targets}
    assert used == {"fedclust_helpers"}


def test_modules_do_not_import_from_layers_above() -> None:
    upward = [
        f"{module} (layer {layer_of(module)}) imports {target} (layer {layer_of(target)})"
        for module, targets in import_graph().items()
        for target in targets
        if layer_of(target) > layer_of(module)
    ]
    assert not upward


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph = dict(import_graph())
    while graph:
        free = [module for module, targets in graph.items() if not targets & set(graph)]
        assert free, f"circle among {sorted(graph)}"
        for module in free:
            del graph[module]


def test_random_functions_take_a_generator_by_keyword() -> None:
    for name in import_graph():
        if "._" in name:
            continue
        for public, value in vars(importlib.import_module(name)).items():
            if public[0] != "_" and inspect.isfunction(value) and value.__module__ == name:
                parameter = inspect.signature(value).parameters.get("rng")
                assert parameter is None or parameter.kind is parameter.KEYWORD_ONLY, public


def test_no_module_of_the_packages_serves_notebooks_alone() -> None:
    """What only a lesson calls belongs to the studies: the packages are what others build on."""
    graph = import_graph()
    used = {target for targets in graph.values() for target in targets}
    fronts = {f"fedclust_helpers.{name}" for name in ("audit", *PAPERS)}
    fronts |= {f"fedclust.{name}" for name in ("estimators", "command", "command.__main__")}
    fronts |= {"fedclust", "fedclust_helpers", "fedclust.flower"}
    packages = {name for name in graph if name.split(".")[0] in PACKAGES}
    assert packages - used <= fronts


def filled(folder: str) -> dict[str, int]:
    """Lines that are not blank, docstrings included, of every module below a folder."""
    return {
        path.relative_to(ROOT / folder).as_posix(): sum(
            bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines()
        )
        for path in (ROOT / folder).rglob("*.py")
    }


def test_modules_are_short() -> None:
    for folder in (*PACKAGES, "studies"):
        assert not {name: n for name, n in filled(folder).items() if n > 400}


def test_the_project_does_not_grow_unseen() -> None:
    """Ceilings: what needs more room takes something away, or raises one in CONTRIBUTING too."""
    sizes = {folder: sum(filled(folder).values()) for folder in CEILINGS}
    assert not {name: n for name, n in sizes.items() if n > CEILINGS[name]}
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(f"{name} {most:,}" in said for name, most in CEILINGS.items())


def test_public_names_are_few() -> None:
    """What the manual shows: lists in the packages and in the modules of the ground."""
    helpers = [ROOT / "fedclust_helpers" / p for p in ("*.py", "*/__init__.py")]
    found = {}
    for path in sorted(p for pattern in helpers for p in ROOT.glob(str(pattern.relative_to(ROOT)))):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[module] = getattr(importlib.import_module(module), "__all__", [])
    assert sum(map(len, found.values())) <= 100 and len(fedclust.__all__) <= 15
    for module, names in found.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names), module
