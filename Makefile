# Equipoise. `make` alone lists what there is. Everything runs inside $(VENV); nothing outside the folder is touched.

VENV    ?= .venv
PYTHON  ?=
WORKERS ?= auto
FUZZ_N  ?= 100000
LIVE_VENV ?= examples/live_job/.venv
LIVE_MINUTES ?= 10
DEMO_LOG ?= examples/prime-rl-saturated-curriculum.log

PY      := $(VENV)/bin/python
LOCKED  := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make lock' --quiet
STAMP   := $(VENV)/.equipoise-ready
PYTEST  := $(PY) -m pytest

# Compiled modules are kept, whatever the environment says: tests start hundreds of interpreters.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup warm demo test test-fast test-most integration evaluate evaluate-quick evaluate-full fuzz bench live live-calibrate live-contest live-faults check format docs readme lock build clean

help: ## list the targets
	@printf 'usage: make TARGET [VENV=.venv] [PYTHON=python3.12]\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(STAMP): requirements.lock pyproject.toml tools/setup
	@PYTHON="$(PYTHON)" sh tools/setup "$(VENV)"
	@touch $@

setup: $(STAMP) ## make the virtual environment (Python 3.11 to 3.13; once, then instant)

demo: $(STAMP) ## advise on a bundled real log; leaves demo/report.html
	@mkdir -p demo
	@printf '$$ equipoise advise %s --html demo/report.html\n\n' "$(DEMO_LOG)"
	@$(VENV)/bin/equipoise advise "$(DEMO_LOG)" --html demo/report.html
	@printf '\nThe same answer with pictures: %s\n' "$(CURDIR)/demo/report.html"

warm: $(STAMP) ## compile the event engine once (a minute or two), so that no simulation waits for it
	@$(PY) -c 'from simulators.compiled import warm_up; warm_up()'

test: warm ## unit, laws, stories, contracts and docs tests
	$(PYTEST) tests -n $(WORKERS) -m "not integration" --durations=12

test-fast: warm ## units, contracts and docs: the part of `test` that takes under a minute
	$(PYTEST) tests/unit tests/contracts tests/docs -n $(WORKERS) -m "not integration and not slow"

test-most: warm ## all of `test` but what is slow: a minute and a half
	$(PYTEST) tests -n $(WORKERS) -m "not integration and not slow"

integration: warm ## tests with real parts: event-file writers, a browser, the built wheel
	$(PYTEST) tests -n $(WORKERS) --dist loadgroup -m integration --durations=12

evaluate: warm ## control laws on every scenario beside a clairvoyant, with floors and goals (resumable)
	@mkdir -p evaluation
	$(VENV)/bin/equipoise evaluate --record evaluation/runs.jsonl --html evaluation/report.html

evaluate-quick: warm ## the same in minutes: every scenario's beginning, one seed
	$(VENV)/bin/equipoise evaluate --quick

evaluate-full: warm ## the same in hours: whole horizons, five seeds (resumable)
	@mkdir -p evaluation
	$(VENV)/bin/equipoise evaluate --full --record evaluation/full.jsonl --html evaluation/full.html

fuzz: $(STAMP) ## 100,000 mutated inputs through the whole library path (FUZZ_N=2000: a short one)
	$(PY) -m tests.fuzz --count $(FUZZ_N)

bench: warm ## times and memory of the command line and the event engine (BENCH_HUGE=1: more of both)
	$(PY) -m benchmarks
	$(PY) -m tools.validation --write

live: warm ## a real job on CPU cores, vLLM engines and a torch trainer, under the controller (LIVE_MINUTES=10)
	@sh examples/live_job/setup "$(LIVE_VENV)"
	@$(PY) -m examples.live_job.live live/run --venv "$(LIVE_VENV)" --minutes $(LIVE_MINUTES)

live-calibrate: warm ## the same job: what the model says of settings that it has not seen, against what they then do
	@sh examples/live_job/setup "$(LIVE_VENV)"
	@$(PY) -m examples.live_job.calibrate live/calibrate --venv "$(LIVE_VENV)"

live-contest: warm ## the same job: the controller against every static setting, each really run (an hour; resumable)
	@sh examples/live_job/setup "$(LIVE_VENV)"
	@$(PY) -m examples.live_job.contest live/contest --venv "$(LIVE_VENV)" --minutes $(LIVE_MINUTES)

live-faults: warm ## the same job: engine, Prometheus, trainer and controller fail one after another
	@sh examples/live_job/setup "$(LIVE_VENV)"
	@$(PY) -m examples.live_job.faults live/faults --venv "$(LIVE_VENV)"

check: $(STAMP) ## format, lint, strict types, import walls
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: $(STAMP) ## put the code into its format and fix what the linter can
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: $(STAMP) ## write the pages and schemas under docs/ and simulators/ that come from the code anew
	$(PY) -m tools.signals --write
	$(PY) -m tools.scenarios --write
	$(PY) -m tools.case_language --write
	$(PY) -m tools.validation --write

readme: $(STAMP) ## run the commands shown in README.md and write their real output into it
	$(PY) -m tools.readme --write

lock: ## write requirements.lock anew from pyproject.toml, and that of the auditor (needs uv)
	@command -v uv >/dev/null 2>&1 || { echo 'make lock needs uv: pip install uv' >&2; exit 1; }
	uv pip compile pyproject.toml --all-extras --group dev $(LOCKED) -o requirements.lock
	uv pip compile tools/auditor.in $(LOCKED) -o tools/auditor.lock

build: $(STAMP) ## the wheel and the source archive, in dist/
	rm -rf dist
	$(PY) -m hatchling build --target sdist --target wheel

clean: ## remove what the other targets made (the environment too)
	rm -rf dist build demo live evaluation fuzz-failures .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf "$(VENV)"
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
