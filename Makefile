PY ?= python3
BIN := .venv/bin

# Modules are compiled when they are first imported; most never are.
PIP := -m pip install -q --disable-pip-version-check --no-compile

.PHONY: demo docs figures test tests test-fast test-interop test-release lint coverage peers mutants trial clean

# The package and what it needs alone; where the tools of development are, they serve too.
DEMO := $(if $(wildcard .venv/.stamp),.venv,.venv-demo)
UV := $(shell command -v uv)

demo: $(DEMO)/.stamp
	$(DEMO)/bin/tarpon demo

figures: .venv/.stamp
	$(BIN)/tarpon reproduce all --quick

# The site, in docs/_build/html; the tests run the code of its pages.
docs: .venv/.stamp
	$(BIN)/python -m sphinx -n -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Types are checked on one processor while tests begin on the other.
test: .venv/.stamp
	+$(MAKE) -j2 --no-print-directory lint tests

# One process more than the two processors that CI has: many tests wait for programs they started.
tests: .venv/.stamp
	$(BIN)/python -m pytest -q -n 3

test-fast: lint
	$(BIN)/python -m pytest -q -n 3 -m "not slow"

lint: .venv/.stamp
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy

# Bytecode that is kept spares the hundreds of processes under test a second of compiling each.
export PYTHONDONTWRITEBYTECODE :=

# Several processes run tests: threads of the linear algebra would wait for each other.
export OMP_NUM_THREADS := 1

INTEROP := tests/interop tests/test_torch.py tests/test_torch_fields.py tests/test_torch_files.py tests/test_jax.py src/tarpon/adapters src/tarpon/backends

# Tests and timings against other packages of the field, in an environment of their own.
peers: .venv-peers/.stamp
	.venv-peers/bin/python -m pytest -q tests -m peers --peers
	.venv-peers/bin/python benchmarks/speed.py

# The adapters against the packages that draws come from, in an environment of their own; what is
# missing there fails. Small networks are many times as slow on two threads of a busy machine.
test-interop: .venv-interop/.stamp
	KERAS_BACKEND=torch .venv-interop/bin/python -m pytest -q -n 2 --dist loadfile --interop $(INTEROP)

# Trains estimators that are not in experiments/networks/networks.json yet, tests them, and writes
# docs/networks.md. It can be stopped, and resumes after the last network.
trial: .venv-interop/.stamp
	nice -n 19 .venv-interop/bin/python experiments/networks

# The lines that tests run, in all their processes and in both environments. Kernels are compiled
# anew, or what builds them would not run.
coverage: export NUMBA_CACHE_DIR := $(CURDIR)/.coverage.kernels
coverage: .venv/.stamp .venv-interop/.stamp
	rm -rf .coverage .coverage.*
	$(BIN)/coverage run -m pytest -q -n 2
	KERAS_BACKEND=torch .venv-interop/bin/coverage run -m pytest -q -n 2 --dist loadfile --interop $(INTEROP)
	rm -rf $(NUMBA_CACHE_DIR)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --show-missing --fail-under=95

# Builds the wheel and the source archive, and installs them as users do: bare, with each extra
# alone, in the oldest versions, on other Pythons. What could not be tested is listed at the end.
test-release: .venv/.stamp
	$(BIN)/python -m pytest -q -rs -n 2 --dist loadfile --release tests/release

# Small changes to what is exact, one at a time: does a test fail? Writes docs/mutants.md.
mutants: .venv-mutants/.stamp
	.venv-mutants/bin/python tests/mutants.py --write

.venv/.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PY) -m venv .venv
	$(BIN)/python $(PIP) -U "pip>=25.1"
	$(BIN)/python $(PIP) -c constraints.txt -e . --group dev --group release
	touch $@

.venv-demo/.stamp: pyproject.toml constraints.txt
	$(if $(UV),uv venv -q --clear -p $(PY) .venv-demo,test -x .venv-demo/bin/python || $(PY) -m venv .venv-demo)
	$(if $(UV),uv pip install -q -p .venv-demo,.venv-demo/bin/python $(PIP)) -c constraints.txt -e .
	touch $@

# torch comes first: what depends on it would otherwise pull in a build for GPUs.
.venv-peers/.stamp: pyproject.toml
	test -x .venv-peers/bin/python || $(PY) -m venv .venv-peers
	.venv-peers/bin/python $(PIP) -U "pip>=25.1"
	.venv-peers/bin/python $(PIP) torch==2.13.0
	.venv-peers/bin/python $(PIP) -e . lampe==0.9.0 sbi==0.27.0 tarp==0.1.1 caustics==1.7.1 deprecation pytest hypothesis xarray scikit-learn
	touch $@

# torch first, as above. The source of the reference package holds its tests.
.venv-interop/.stamp: pyproject.toml constraints-interop.txt
	test -x .venv-interop/bin/python || $(PY) -m venv .venv-interop
	.venv-interop/bin/python $(PIP) -U "pip>=25.1"
	.venv-interop/bin/python $(PIP) -c constraints-interop.txt torch
	.venv-interop/bin/python $(PIP) -c constraints-interop.txt -e . --group interop
	.venv-interop/bin/python -m pip download -q --no-deps --no-binary tarp -d .venv-interop/sdists tarp==0.1.1
	touch $@

.venv-mutants/.stamp: pyproject.toml
	test -x .venv-mutants/bin/python || $(PY) -m venv .venv-mutants
	.venv-mutants/bin/python $(PIP) -U "pip>=25.1"
	.venv-mutants/bin/python $(PIP) -e . --group mutants
	touch $@

clean:
	rm -rf .venv .venv-demo .venv-peers .venv-interop .venv-mutants .mutants
