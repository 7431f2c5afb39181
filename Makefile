# Everything goes through .venv, which is made on first use, but test-newest and test-oldest: each
# has an environment of its own, made on first use too, and leaves .venv alone.
#
# PYTHON  interpreter that an environment is made with (3.11 to 3.13)
# ARGS    appended to the command of a target: make run ARGS='budget=quick'
# TORCH   another torch than the pinned one: make run TORCH=torch==2.12.1
#         Remembered in .venv, so that a later `make test` tests what was chosen instead of
#         replacing it. `make venv TORCH=` goes back to the pin.
#
# From PyPI, the torch of Linux is the CUDA build, several GB in each environment. The CPU build:
#   make test-newest PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
PYTHON ?= python3
TORCH_FILE := .venv/torch-requirement
CHOSEN := $(shell cat $(TORCH_FILE) 2>/dev/null)
TORCH ?= $(CHOSEN)
PINNED := $(shell grep '^torch==' constraints.txt)
LEAST := $(shell sed -n 's/^ *"torch>=\([0-9.]*\)".*/\1/p' pyproject.toml)

READY := .venv/ready
NEWEST := .venv-newest/ready
OLDEST := .venv-oldest/ready
SYSTEM := .venv/ready-for-system
ifneq ($(strip $(TORCH)),$(strip $(CHOSEN)))
$(READY): changed-torch
endif

.DEFAULT_GOAL := help
.PHONY: help venv run test test-newest test-oldest test-system check mutants bench selfcheck peers instructions claims
.PHONY: changed-torch
# `make -j2 run test` must not time anything while tests run beside it.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY) ## set up .venv and nothing else

run: $(READY) ## measure every mode here, write a report, print a table
	.venv/bin/python run.py -m experiment=modes $(ARGS)

# By file, as the tests of one share what they compiled; a core, so a thread, for each process.
test: $(READY) ## run the test suite
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n 2 --dist loadfile $(ARGS)

# The newest when .venv-newest was made: remove it to take a newer one.
test-newest: $(NEWEST) ## run it with the newest torch, installed into .venv-newest
	.venv-newest/bin/python -c 'import torch; print("torch", torch.__version__)'
	OMP_NUM_THREADS=1 .venv-newest/bin/python -m pytest -q -n 2 --dist loadfile $(ARGS)

test-oldest: $(OLDEST) ## run it with the oldest supported torch, in .venv-oldest
	.venv-oldest/bin/python -c 'import torch; print("torch", torch.__version__)'
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q -n 2 --dist loadfile $(ARGS)

test-system: $(SYSTEM) ## tests in a browser, which root's apt-get installs; else they skip
	.venv/bin/python -m pytest -q tests/system $(ARGS)

check: $(SYSTEM) ## formatter, linter and type checker, then the test suite
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n 2 --dist loadfile $(ARGS)

mutants: $(READY) ## plant faults in the harness and see that the tests kill them
	.venv/bin/python -m tests.mutants $(ARGS)

bench: $(READY) ## measure what modescope itself costs
	.venv/bin/python -m pytest -q tests/costs --benchmark-enable --benchmark-only $(ARGS)

selfcheck: $(READY) ## see how wrong modescope can be on this machine (ARGS=--thorough)
	.venv/bin/python -m bench.selfcheck $(ARGS)

peers: $(READY) ## compare modescope with other harnesses on this machine
	.venv/bin/python -m bench.peers $(ARGS)

instructions: $(READY) ## count a call's instructions in each mode (needs valgrind)
	.venv/bin/python -m bench.instructions $(ARGS)

claims: $(READY) ## put statements about PyTorch to the test on this machine
	.venv/bin/python -m bench.claims $(ARGS)

$(NEWEST): override TORCH := torch
$(NEWEST): UPGRADE := --upgrade
$(OLDEST): override TORCH := torch==$(LEAST).*

# The mark is removed first and set last: an interrupted installation is taken up again.
$(READY) $(NEWEST) $(OLDEST): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
	  found=$$($(PYTHON) -c 'import sys; print("Python %d.%d" % sys.version_info[:2])' 2>/dev/null); \
	  echo "modescope needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $${found:-not there}:" \
	    "name another, as in make $(MAKECMDGOALS) PYTHON=python3.11." >&2; exit 1; }
	@command -v "$(CXX)" >/dev/null || { \
	  echo "torch.compile needs a C++ compiler, and $(CXX) is not there: install g++, or name" \
	    "the one you have, as in export CXX=clang++." >&2; exit 1; }
	@rm -f $@
	test -x $(@D)/bin/pip || $(PYTHON) -m venv --clear $(@D)
	@grep -v '^torch==' constraints.txt >$(@D)/constraints.txt
	$(@D)/bin/pip install --disable-pip-version-check $(UPGRADE) \
	  '$(or $(strip $(TORCH)),$(PINNED))' -e '.[dev]' -c $(@D)/constraints.txt
	@echo '$(TORCH)' >$(@D)/torch-requirement
	@touch $@

$(SYSTEM): $(READY)
	.venv/bin/pip install --disable-pip-version-check -e '.[system]' -c .venv/constraints.txt
	@touch $@
