"""Mutants by chance in the modules that guard privacy: small changes that a rule can make.

Why no kept tool: mutmut 3.8 leaves out decorated functions, and most functions here are; cosmic-ray
8.7 starts an interpreter and imports SciPy for every mutant, and brings SQLAlchemy and aiohttp.

A draw does not move when other lines change. What `equivalents.txt` names changes nothing that
anybody could see.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.mutants.catalogue import ROOT, Edit, Mutant

QUICK = ("-m", "not thorough and not browser and not federation")
# module -> the test files that guard it, those that notice most first
GUARDS = {
    "accounting/budget": ("accounting/test_accounting.py", "accounting/test_renyi.py"),
    "accounting/discrete": ("accounting/test_discrete.py",),
    "accounting/ledger": ("accounting/test_accounting.py", "ground/test_state.py"),
    "accounting/shuffling": ("accounting/test_shuffling.py", "test_privacy_checks.py"),
    "accounting/totals": ("accounting/test_accounting.py", "accounting/test_shuffling.py"),
    "client_statistics/base": (
        "client_statistics/test_client_statistics.py", "client_statistics/test_total_statistics.py",
        "federation/test_federation_sampling.py", "federation/test_noise.py",
    ),
    "client_statistics/broadcasts": ("client_statistics/test_total_statistics.py",),
    "client_statistics/clipping": (
        "client_statistics/test_feddp_statistics.py", "client_statistics/test_total_statistics.py",
        "rr_cluster/test_rr_clients.py",
    ),
    "federation/checks": (
        "federation/test_federation_contract.py", "federation/test_federation.py",
        "federation/test_noise.py", "federation/test_federation_sampling.py",
        "ground/test_guards.py", "test_privacy_checks.py",
    ),
    "federation/noise": (
        "federation/test_noise.py", "federation/test_federation_contract.py",
        "test_privacy_checks.py",
    ),
    "federation/plan": (
        "ground/test_state.py", "ground/test_progress.py", "test_every_algorithm.py",
        "federation/test_dropping_out.py", "program/test_program.py",
    ),
    "flower/keys": ("flower/test_flower_trust.py", "flower/test_operators.py"),
    "flower/journal": ("flower/test_flower_rooms.py", "flower/test_flower_deployment.py"),
    "mechanisms": ("ground/test_mechanisms.py", "ground/test_guards.py"),
    "program/session": ("program/test_program.py",),
    "secure_aggregation": ("ground/test_secure_aggregation.py",),
    "_validation": ("ground/test_validation.py", "test_wrong_use.py"),
}  # fmt: skip
TESTS = {"fedclust_helpers": "tests/helpers", "fedclust": "tests/fedclust"}  # of each package
EQUIVALENTS = Path(__file__).with_name("equivalents.txt")

OPPOSITE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn,
    ast.And: ast.Or, ast.Add: ast.Sub, ast.Mult: ast.Div, ast.Pow: ast.Mult,
}  # fmt: skip
OPPOSITE |= {new: old for old, new in OPPOSITE.items() if new is not ast.Mult}
NAMES = {"min": "max", "floor": "ceil", "all": "any"}
NAMES |= {new: old for old, new in NAMES.items()}


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """The wrong versions of one piece of a program."""
    match node:
        case ast.Compare(left, [op], right) if type(op) in OPPOSITE:
            yield ast.Compare(left, [OPPOSITE[type(op)]()], right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OPPOSITE[type(op)](), values)
        case ast.BinOp(left, op, right) if type(op) in OPPOSITE:
            yield ast.BinOp(left, OPPOSITE[type(op)](), right)
        case ast.UnaryOp(ast.Not() | ast.USub(), inner):
            yield inner
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(float() as value):
            yield ast.Constant(2 * value or 1.0)
        case ast.Name(name) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Attribute(value, name) if name in NAMES:
            yield ast.Attribute(value, NAMES[name])
        case ast.Raise() | ast.Expr(ast.Call()):
            yield ast.Pass()


def _parts(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """All pieces that may be changed, each with the name of the function that it stands in."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        name = f"{name}.{node.name}".lstrip(".")
    yield node, name
    unread = ("annotation", "returns", "decorator_list")
    if isinstance(node, ast.Raise | ast.JoinedStr):  # words for people
        return
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in unread:
                yield from _parts(child, name)


def all_of(module: str) -> list[Mutant]:
    """Every mutant of a module that the rules make; its name says where and what."""
    package = next(name for name in TESTS if (ROOT / name / f"{module}.py").is_file())
    path = f"{package}/{module}.py"
    text = (ROOT / path).read_text(encoding="utf-8")
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    made, seen = [], Counter[str]()
    tests = (*QUICK, *(f"{TESTS[package]}/{name}" for name in GUARDS[module]))
    for node, function in _parts(ast.parse(text), ""):
        for other in changed(node) if function else ():  # outside are names and choices of numbers
            assert isinstance(node, ast.expr | ast.stmt)
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            old, new = ast.unparse(node), ast.unparse(other)
            within = f"({new})" if isinstance(node, ast.expr) else new
            whole = text.encode()[:first] + within.encode() + text.encode()[last:]
            old = old.partition("(")[0] if isinstance(node, ast.Raise) else old  # without its words
            name = f"{module} {function}: {old} -> {new}"
            seen[name] += 1
            number = f" #{seen[name]}" if seen[name] > 1 else ""
            words = f"line {node.lineno} is noticed"
            edit = Edit(path, text, whole.decode())
            made.append(Mutant(name + number, words, (edit,), tests))
    return made


def equivalents() -> set[str]:
    """Names of the mutants that are known to change nothing."""
    lines = EQUIVALENTS.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def drawn(n_each: int, seed: int) -> list[Mutant]:
    """`n_each` mutants of each module: those whose names, with the seed, have the least hashes."""

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()

    known = equivalents()
    found = ([m for m in all_of(module) if m.name not in known] for module in GUARDS)
    return [m for mutants in found for m in sorted(mutants, key=rank)[:n_each]]
