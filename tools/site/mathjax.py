"""MathJax and its font, fetched once by npm, checked against their hashes, kept, and unpacked.

Kept in the user's cache folder (`pooch.os_cache("fedclust")/site`), or in the folder named by
`FEDCLUST_SITE_CACHE`. With both archives there, nothing is fetched and no network is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

import pooch

UNUSED = re.compile(  # scripts and faces that no formula here is written in; a page would say so
    r"dynamic/(cyr|heb|ara|deva|cher|brai|phon|greek-ss|sans-serif-|monospace-|latin-b|PUA)"
    r"|mjx-ncm-(cy|he|ar|dv|ch|br|ph|gkss|ss.*x|lib|sslib|ssli|pu)\w*\.woff2"
)


class Archive(NamedTuple):
    """One package of npm: name with version, file, SHA-256, and what is taken out of it."""

    package: str
    file: str
    sha256: str
    members: tuple[str, ...]
    folder: str


ARCHIVES = (
    Archive(
        "mathjax@4.1.3",
        "mathjax-4.1.3.tgz",
        "b7109f516f3d842de62b95d653e35fa0976dc223706a2a77440e7f7723f0c54d",
        ("tex-chtml.js", "LICENSE"),
        ".",
    ),
    Archive(
        "@mathjax/mathjax-newcm-font@4.1.3",
        "mathjax-mathjax-newcm-font-4.1.3.tgz",
        "87d7b869c6a2a6169d9a53acc4eab6c846a9cbe11752738226461bb5070c8b88",
        ("chtml/",),
        "mathjax-newcm-font",
    ),
)


def cache_folder() -> Path:
    """Where the archives are kept."""
    named = os.environ.get("FEDCLUST_SITE_CACHE")
    return Path(named) if named else Path(pooch.os_cache("fedclust")) / "site"


def fetch(archive: Archive, folder: Path) -> Path:
    """The archive in `folder`, fetched if it is not there.

    Raises
    ------
    SystemExit
        If it is missing and npm cannot fetch it, or if its bytes are not the expected ones.
    """
    path = folder / archive.file
    if not path.is_file():
        hint = f"put {archive.file} (npm package {archive.package}) into {folder}"
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(f"the book needs MathJax once: install npm, or {hint}")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", "--silent", archive.package, "--pack-destination", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not path.is_file():
            raise SystemExit(f"npm could not fetch {archive.package}; with a network, or {hint}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != archive.sha256:
        path.unlink()
        raise SystemExit(f"{archive.file} has the SHA-256 {found}, not {archive.sha256}: removed")
    return path


def unpack(target: Path) -> None:
    """Lay what a page needs into the folder `target`."""
    for archive in ARCHIVES:
        with tarfile.open(fetch(archive, cache_folder())) as packed:
            for member in packed.getmembers():
                name = member.name.removeprefix("package/")
                if (
                    not member.isfile()
                    or not name.startswith(archive.members)
                    or UNUSED.search(name)
                ):
                    continue
                path = target / archive.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                content = packed.extractfile(member)
                assert content is not None
                path.write_bytes(content.read())
