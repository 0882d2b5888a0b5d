# Set-up and the everyday commands; each makes the environment it needs.
PYTHON ?= python3
CANDIDATE ?= kernel:fused_triton
RUN ?= runs/demo-$(shell date -u +%Y%m%dT%H%M%SZ)
RUN := $(RUN)
BIN := .venv/bin

.PHONY: demo test slow check clean

demo: .venv/ready  ## layers 1, 2 and 3 on one kernel, then the report
	@$(BIN)/python -m verify.kernel --candidate $(CANDIDATE) --budget quick --out $(RUN) || test -f $(RUN)/kernel.json
	@$(BIN)/python -m verify.evals --arms base,pr --arm pr=$(CANDIDATE) --out $(RUN)

test: .venv/ready  ## the kernel grid and every other test
	@$(BIN)/python -m pytest -n auto

slow: .venv/ready  ## whole programs end to end, planted faults included
	@$(BIN)/python -m pytest -m slow -n auto

check: .venv/ready  ## linters and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean:  ## the environment and the caches, not the runs
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache

# pip 25.1 is the first that reads dependency groups.
.venv/ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (torch and the rest, a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group test --group lint --editable ".[evals,ray,report]"
	@touch $@
