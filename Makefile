# The two commands of the README, and what they are made of.
STUDY_CORES ?= 8
PYTHON ?= python3
BIN := .venv/bin

.PHONY: study setup test test-all

# Set up everything, run the active study, record it in DVC, write the report.
study: setup
	$(BIN)/snakemake --cores $(STUDY_CORES) --resources gpu=1
	$(BIN)/posenc record --optional
	$(BIN)/posenc report
	@$(BIN)/posenc summary

setup:
	@PYTHON=$(PYTHON) bash workflow/setup.sh

test: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/posenc schema --verify
	$(BIN)/snakefmt --check Snakefile workflow/rules && $(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# The same with ten times as many random histories of both front ends (hours).
test-all: export POSENC_HISTORIES ?= 200
test-all: test
