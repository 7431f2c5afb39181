# All targets use .venv, which is made on first use, except test-newest, test-oldest and test-full:
# each makes and uses an environment of its own. That of test-full shares the packages of .venv.
#
# PYTHON  interpreter that an environment is made with (3.11 to 3.13)
# ARGS    appended to the command of a target: make run ARGS='budget=quick'
# TORCH   another torch than the pinned one: make run TORCH=torch==2.12.1
#         Remembered in .venv, so that a later `make test` uses the same torch.
#         `make venv TORCH=` goes back to the pinned one.
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
HF := .venv-hf/ready
SYSTEM := .venv/ready-for-system
DOCS := .venv/ready-for-docs
# mypy runs here, where links lay out the package as in a wheel, since it follows no __path__.
TYPED := .venv/layout
PACKAGE := bench models analysis run.py $(wildcard modescope/*.py) modescope/py.typed
ifneq ($(strip $(TORCH)),$(strip $(CHOSEN)))
$(READY): changed-torch
endif

BY_FILE := -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help venv run test golden test-full test-newest test-oldest test-system check docs weigh mutants bench selfcheck instructions claims gpu
.PHONY: changed-torch
# With `make -j2 run test`, tests would disturb the timing.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY) ## set up .venv and nothing else

run: $(READY) ## measure every mode here, write a report, print a table
	.venv/bin/python -m modescope run -m experiment=modes $(ARGS)

# The tests of a file share compiled code. One process per core, one thread per process.
test: $(READY) ## run the tests that need seconds, in minutes
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q $(BY_FILE) $(ARGS)

golden: $(READY) ## write the reviewed outputs in tests/golden anew: read their diff
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q tests/golden --regen-all $(ARGS)

test-full: $(HF) $(SYSTEM) ## run the tests that compile, start many processes or need transformers
	OMP_NUM_THREADS=1 .venv-hf/bin/python -m pytest -q $(BY_FILE) -m full $(ARGS)
	.venv/bin/python -m pytest -q tests/system -m full $(ARGS)

# The newest torch when .venv-newest was made; remove .venv-newest to update it.
test-newest: $(NEWEST) ## run test and test-full with the newest torch, in .venv-newest
	.venv-newest/bin/python -c 'import torch; print("torch", torch.__version__)'
	OMP_NUM_THREADS=1 .venv-newest/bin/python -m pytest -q $(BY_FILE) -m '' $(ARGS)

test-oldest: $(OLDEST) ## run test and test-full with the oldest supported torch, in .venv-oldest
	.venv-oldest/bin/python -c 'import torch; print("torch", torch.__version__)'
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q $(BY_FILE) -m '' $(ARGS)

test-system: $(SYSTEM) ## run tests with a browser and a Slurm, which root's apt-get installs; else skip
	.venv/bin/python -m pytest -q tests/system $(ARGS)

check: $(SYSTEM) ## formatter, linter and type checker, then `make test`
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	@rm -rf $(TYPED) && mkdir -p $(TYPED)/modescope && ln -s "$(CURDIR)/tests" $(TYPED)/tests
	@for each in $(PACKAGE); do ln -s "$(CURDIR)/$$each" $(TYPED)/modescope; done
	cd $(TYPED) && ../bin/mypy --config-file ../../pyproject.toml
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q $(BY_FILE) $(ARGS)

docs: $(DOCS) ## build the site of docs/: site/index.html
	@rm -rf site
	.venv/bin/python -m sphinx -W --keep-going -q -E -d .venv/doctrees -c docs/website . site $(ARGS)
	@echo site/index.html

weigh: $(READY) ## count lines and files of each room (ARGS=REVISION: the change since then)
	@.venv/bin/python -m tests.helpers.weigh $(ARGS)

mutants: $(READY) ## plant faults drawn at random: which do the tests notice? (ARGS='--seed 7')
	.venv/bin/python -m tests.mutation $(ARGS)

bench: $(READY) ## measure what modescope itself costs
	.venv/bin/python -m pytest -q tests/costs -m full --benchmark-enable $(ARGS)

selfcheck: $(READY) ## check how accurate modescope is on this machine (ARGS=--thorough)
	.venv/bin/python -m modescope selfcheck $(ARGS)

instructions: $(READY) ## count a call's instructions in each mode (needs valgrind)
	.venv/bin/python -m modescope instructions $(ARGS)

claims: $(READY) ## test statements about PyTorch on this machine
	.venv/bin/python -m modescope claims $(ARGS)

# A Python that is named is used as it is, with what it lacks from WHEELS; else that of .venv.
ifeq ($(origin PYTHON),file)
GPU_PYTHON := .venv/bin/python
gpu: $(READY)
else
GPU_PYTHON := $(PYTHON)
endif
GPU_ARGS = $(if $(BUDGET_S),--budget-s $(BUDGET_S)) $(if $(CALL_S),--call-s $(CALL_S))
GPU_ARGS += $(if $(OUT),--out '$(OUT)') $(if $(WHEELS),--wheels '$(WHEELS)') $(if $(PRETEND),--pretend)

gpu: ## show on a GPU what only a GPU can show (BUDGET_S=660; PRETEND=1 without one)
	$(GPU_PYTHON) -m tests.gpu $(GPU_ARGS) $(ARGS)

$(NEWEST): override TORCH := torch
$(NEWEST): UPGRADE := --upgrade
$(OLDEST): override TORCH := torch==$(LEAST).*

# The file `ready` is removed first and made last, so that an interrupted installation is repeated.
$(READY) $(NEWEST) $(OLDEST): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
	  version=$$($(PYTHON) -c 'import sys; print("Python %d.%d" % sys.version_info[:2])' 2>/dev/null); \
	  echo "modescope needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $${version:-not installed}:" \
	    "choose another, as in make $(MAKECMDGOALS) PYTHON=python3.11." >&2; exit 1; }
	@command -v "$(CXX)" >/dev/null || { \
	  echo "torch.compile needs a C++ compiler, and $(CXX) is not installed: install g++, or set" \
	    "CXX to the one you have, as in export CXX=clang++." >&2; exit 1; }
	@rm -f $@
	test -x $(@D)/bin/pip || $(PYTHON) -m venv --clear $(@D)
	@grep -v '^torch==' constraints.txt >$(@D)/constraints.txt
	$(@D)/bin/pip install --disable-pip-version-check $(UPGRADE) \
	  '$(or $(strip $(TORCH)),$(PINNED))' -e '.[dev]' -c $(@D)/constraints.txt
	@echo '$(TORCH)' >$(@D)/torch-requirement
	@touch $@

# Finds the packages of .venv as well, so that only those of the extra are installed.
SHARED := import sysconfig; lib = sysconfig.get_path("purelib")
SHARED += ; open(lib + "/shared.pth", "w").write(lib.replace("/.venv-hf/", "/.venv/"))
$(HF): $(READY)
	@rm -f $@
	test -x $(@D)/bin/pip || .venv/bin/python -m venv --clear $(@D)
	@$(@D)/bin/python -c '$(SHARED)'
	$(@D)/bin/pip install --disable-pip-version-check -e '.[hf]' -c .venv/constraints.txt
	@touch $@

$(SYSTEM) $(DOCS): $(READY)
	.venv/bin/pip install --disable-pip-version-check -e '.[$(@:.venv/ready-for-%=%)]' \
	  -c .venv/constraints.txt
	@touch $@
