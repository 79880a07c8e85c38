# `make` lists the targets. Plain POSIX make; needs Python 3.11+ and a network, nothing else.
# Settings: make VENV=/elsewhere, PYTHON=/path/to/python3.12, N=4 (test processes),
#           LAB_FLAGS="--no-browser --port 9999", DESIGN=quick OUT=folder (results)

.POSIX:
.PHONY: help lab test test-all fast lint notebooks variations results recheck rivals bench mutants browser-test federation-test wheel-test wasm-test site lock clean

VENV = .venv
SITE = .venv-site
FEDERATION = .venv-federation
FLOWER = flwr==1.41.0
RIVALS = .venv-rivals
PYTHON =
N = 2
DESIGN = full
OUT =
EACH = 1
DRAW = 0
BENCH =
LAB_FLAGS =
RUN = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONHASHSEED=0 \
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin
# tests/offline refuses sockets to other hosts, in all processes that tests start
PYTEST = PYTHONPATH="$$PWD/tests/offline$${PYTHONPATH:+:$$PYTHONPATH}" $(RUN)/python -m pytest -q
NBVAL = $(PYTEST) -n $(N) --dist loadfile --nbval --nbval-current-env \
	--nbval-cell-timeout=900 --nbval-kernel-startup-timeout=600 --durations=5 \
	--ignore-glob='notebooks/*.py' notebooks
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check

help:          ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## /make \1	/p' Makefile | expand -t 20

lab: $(VENV)/installed          ## install and open JupyterLab on the first notebook: copies in lab/, which Git leaves alone
	$(RUN)/python tools/lab.py $(LAB_FLAGS)

test: lint          ## install what tests need and run them: lint, types, unit, notebooks (5 min, no network)
	$(PYTEST) -n $(N) -m "not thorough and not browser and not federation" --durations=10
	$(NBVAL)

test-all: lint          ## as `make test`, with those marked thorough, and real data if FEDCLUST_DATA_DIR names them
	$(PYTEST) -n $(N) --durations=10
	$(NBVAL)

fast: $(VENV)/installed          ## quick tests only: none marked slow or thorough, no notebook is executed (1 min)
	$(PYTEST) -n $(N) -m "not slow and not thorough and not browser and not federation" --durations=10

lint: $(VENV)/installed          ## ruff (rules and format), mypy and codespell
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/codespell

notebooks: $(VENV)/installed          ## regenerate and execute every notebook from its .py script
	$(RUN)/python tools/build_notebooks.py

variations: $(VENV)/installed          ## every notebook with other seeds and settings; writes data/results/variations.csv (30 min)
	$(RUN)/python -m tools.variations --jobs $(N)

results: $(VENV)/installed          ## recompute data/results (4 CPU hours; resumed); DESIGN=quick OUT=folder: tiny tables
	out='$(OUT)'; $(RUN)/python -m studies --jobs $(N) --design $(DESIGN) $${out:+--out "$$out"}

recheck: $(VENV)/installed          ## rows of all tables drawn at random, made again: EACH=1 for every method and data set, DRAW=0 which
	$(RUN)/python -m studies --check $(EACH) --draw $(DRAW) --jobs $(N)

rivals: $(VENV)/installed          ## what people use today, on our data, in environments of their own (an hour)
	$(RUN)/python -m tools.rivals --environments $(RIVALS)

bench: $(VENV)/installed          ## speed ratios as JSON, and their change; BENCH=--write stores them
	@$(RUN)/python tools/bench/run.py $(BENCH)

mutants: $(VENV)/installed          ## small wrong versions of the package: is each noticed by a test? (10 min)
	$(RUN)/python -m tools.mutants --jobs $(N)

browser-test: $(VENV)/browser-installed site          ## every page of the book and every widget in a real browser (Chromium; 4 min)
	$(PYTEST) -m browser -s tests/browser

federation-test: $(FEDERATION)/installed          ## a whole run over Flower: three clients as processes, TLS (5 min)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONHASHSEED=0 $(FEDERATION)/bin/python -m pytest -q -s \
	    -p no:cacheprovider -m federation tests/fedclust/flower

wheel-test: $(VENV)/installed          ## build the wheel, install it elsewhere, test the library there
	$(RUN)/python tools/wheel_test.py --jobs $(N)

wasm-test: $(VENV)/installed          ## quick tests of the helpers on 32 bits, in node (needs node; fetches 77 MB once)
	$(RUN)/python -m tools.wasm

site: $(SITE)/installed          ## the book as web pages, build/site (npm fetches MathJax once; then no network)
	$(SITE)/bin/cffconvert --validate
	OMP_NUM_THREADS=1 PYTHONHASHSEED=0 $(SITE)/bin/python -m tools.site

lock: $(VENV)/installed          ## renew both locks and environment.yml
	$(RUN)/python tools/lock.py

clean:          ## remove the environment and all caches
	rm -rf $(VENV) $(SITE) $(FEDERATION) $(RIVALS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# The environment: made again only when the lock or pyproject.toml changed.
$(VENV)/installed: requirements.lock pyproject.toml
	@if $(VENV)/bin/python -c 'import pip' >/dev/null 2>&1; then exit 0; fi; \
	for python in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then \
	        echo "creating $(VENV) with $$("$$python" --version)"; \
	        exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo "error: Python 3.11 or newer with the venv module was not found." >&2; \
	echo "Install it (Debian, Ubuntu: apt install python3-venv), or name one:" >&2; \
	echo "    make PYTHON=/path/to/python3.12" >&2; \
	exit 1
	$(PIP) install -q -r requirements.lock
	$(PIP) install -q --no-deps --no-build-isolation -e .
	@touch $(VENV)/installed

# Flower pins many packages: its environment is its own, with the version that was tested.
$(FEDERATION)/installed: $(VENV)/installed
	$(VENV)/bin/python -m venv --clear $(FEDERATION)
	$(FEDERATION)/bin/python -m pip --disable-pip-version-check install -q \
	    "$(FLOWER)" "pytest>=8.3" "hypothesis>=6.112" -e ".[federation]"
	@touch $(FEDERATION)/installed

$(VENV)/browser-installed: $(VENV)/installed
	$(PIP) install -q --no-build-isolation -c requirements.lock -e ".[browser]"
	@touch $(VENV)/browser-installed

# Its tools are locked apart: cffconvert needs an older jsonschema than the notebooks.
$(SITE)/installed: $(VENV)/installed requirements-site.lock
	$(VENV)/bin/python -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip --disable-pip-version-check install -q -r requirements-site.lock
	$(SITE)/bin/python -m pip --disable-pip-version-check install -q --no-deps --no-build-isolation -e .
	@touch $(SITE)/installed
