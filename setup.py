"""What pyproject.toml cannot say: [project.urls], which follow from its setting `repository`."""

import tomllib
from pathlib import Path

from setuptools import setup

FILES = {
    "Source": "",
    "Documentation": "/blob/main/docs/using.md",
    "Changes": "/blob/main/CHANGELOG.md",
}


def urls() -> dict[str, str]:
    """Addresses of the project; none while `tool.fedclust.repository` is empty."""
    settings = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text("utf-8"))
    repository = settings["tool"]["fedclust"]["repository"]
    home = f"https://github.com/{repository}"
    return {name: home + path for name, path in FILES.items()} if repository else {}


setup(project_urls=urls())
