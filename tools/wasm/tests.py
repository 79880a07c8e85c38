"""pytest, with the tests that its arguments name."""

import os
import sys

import pytest

os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
sys.exit(int(pytest.main(sys.argv[1:])))
