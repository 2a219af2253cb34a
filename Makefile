# `make` lists what there is. Every target sets the clone up first (quick when that is done).
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint gpu-check soak clean
BIN := .venv/bin
# pytest's exit code 5: no test has that mark (yet)
OR_NONE = || { code=$$?; [ $$code -eq 5 ] && echo "no tests of this kind yet"; }

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv, install Chromium, Redis and the scenarios' npm packages
	@bash .ci/setup.sh

demo: setup ## run the demo on this machine; make demo ARGS="--help" for its options
	@$(BIN)/agentserve demo $(ARGS)

test: setup ## run all tests in two processes; make test ARGS="tests/router -x -n 0" for some in one
	@$(BIN)/pytest -n 2 $(ARGS)

lint: setup ## check style and the import layers
	@failed=0; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/lint-imports || failed=1; \
	exit $$failed

# The kernels need torch, triton and flashinfer only: PYTEST="python3 -m pytest" takes the packages that
# are there, for a box that reaches no registry.
GPU_CHECK := -c /dev/null --rootdir . --noconftest -m gpu -s tests/kernels/test_gpu.py
gpu-check: ## check the kernels' numbers and their share of copy bandwidth on a GPU
	@if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then \
		echo "no GPU here: nothing checked"; \
	elif [ -n "$(PYTEST)" ]; then \
		$(PYTEST) $(GPU_CHECK) $(ARGS); \
	else \
		$(MAKE) --no-print-directory setup && $(BIN)/pytest $(GPU_CHECK) $(ARGS); \
	fi

soak: setup ## run the long tests
	@$(BIN)/pytest -m soak $(ARGS) $(OR_NONE)

train-gpu: setup ## train the nano model on a GPU (DATA, RUN, STEPS): goes on where it stopped
	@$(BIN)/agentserve nano train --data $(DATA) --run $(RUN) --steps $(STEPS) --batch 64 --checkpoint-every 60

clean: ## remove what set-up and tests have made in this clone
	rm -rf .venv scenarios/*/node_modules build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache
	find agentserve programs tests -name __pycache__ -prune -exec rm -rf {} +
