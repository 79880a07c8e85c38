"""pytest, with the tests that its arguments name; what the platform lacks is skipped."""

import os
import re
import sys
from collections.abc import Generator
from typing import Any

import pytest

LACKS = "cryptography|start new thread|Function not implemented"  # keys; threads; processes


class Lacking:
    """A test that meets what is not there is skipped with the message."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except (ImportError, OSError, Warning) as error:
            if re.search(LACKS, str(error)) is None:
                raise
            pytest.skip(str(error))


os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
sys.exit(int(pytest.main(sys.argv[1:], plugins=[Lacking()])))
