"""Ciphers in plain Python: the bytes of the audited library, and no place in secure mode."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers import _ciphers, _plain_ciphers
from fedclust_helpers.federation import simulate

ROOT = Path(__file__).resolve().parents[3]
KEY = st.binary(min_size=32, max_size=32)
LOW_ORDER = [bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little")]


@given(KEY, KEY)
def test_shared_secrets_are_those_of_the_library(private, other):
    public = _ciphers.x25519_public(other)
    assert _plain_ciphers.x25519_public(other) == public
    for used in (public, b"\xff" * 32):  # bit 255 is ignored, a number above the prime reduced
        assert _plain_ciphers.x25519(private, used) == _ciphers.x25519(private, used)
    for public in LOW_ORDER:  # one secret for all
        for by in (_ciphers, _plain_ciphers):
            refuses(ValueError, "", by.x25519, private, public)


@given(KEY, st.binary(max_size=200), st.binary(max_size=40), st.binary(min_size=12, max_size=12))
def test_seals_are_those_of_the_library_and_open_unchanged_alone(key, content, context, nonce):
    seal = _ciphers.sealed(key, content, context, nonce)
    assert _plain_ciphers.sealed(key, content, context, nonce) == seal
    for by in (_ciphers, _plain_ciphers):
        assert by.unsealed(key, seal, context, nonce) == content
        for wrong in ((seal[:-1], context), (seal, context + b"x"), (b"", context)):
            refuses(ValueError, "does not open", by.unsealed, key, *wrong, nonce)


BLOCKED = """
import sys
sys.modules.update(dict.fromkeys(["cryptography", "dp_accounting", "tqdm"]))
"""


def test_everything_is_imported_without_what_a_browser_lacks_or_loads_late():
    code = (
        BLOCKED
        + """
import importlib, pkgutil
import fedclust, fedclust_helpers
late = {"fedclust_helpers._ciphers", "fedclust.flower.certificates", "fedclust.command.__main__"}
heavy = ("cryptography", "dp_accounting", "tqdm", "sklearn", "pandas", "matplotlib", "numba")
for package in (fedclust_helpers, fedclust):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if found.name not in late and not found.name.startswith("fedclust.flower.app"):
            importlib.import_module(found.name)
            if package is fedclust_helpers and any(map(sys.modules.get, heavy)):
                print(found.name)
"""
    )
    assert run(code) == ""


def test_where_only_the_plain_ciphers_are_secure_mode_agrees_on_no_keys():
    code = (
        BLOCKED
        + """
import numpy as np
from fedclust_helpers.federation import simulate
from fedclust_helpers.secure_aggregation import public_key
clients = [np.zeros((3, 2)), np.ones((4, 2))]
taught = simulate(clients, "masked", seed=1, keep_payloads=True)
print(taught.transcript.messages[-1].payload.tobytes().hex())
for call in (lambda: simulate(clients, "masked", mode="secure"), lambda: public_key(bytes(32))):
    try:
        call()
    except ImportError as error:
        print(error)
simulate(clients, "masked", mode="secure", pre_shared_secret=bytes(range(32)))  # no agreement
"""
    )
    clients = [np.zeros((3, 2)), np.ones((4, 2))]
    taught = simulate(clients, "masked", noise_from="server", seed=1, keep_payloads=True)
    told = "keys need cryptography, which is not installed here"
    shown = taught.transcript.messages[-1].payload.tobytes().hex()
    assert run(code).splitlines() == [shown, told, told]


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()
