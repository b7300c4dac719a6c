# `make demo`, `make test` and `make docs` set everything up in .venv and then do their work.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BROWSER := .venv/.browser
FLOWER := .venv/.flower
TRUST := .venv/.trust
# Tests start many processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint pytest docs bench browser flower newcomer errors api gauntlet determinism fuzz mutants coverage load audit
.PHONY: release clean

demo: $(READY)
	$(BIN)/silobench demo

test: $(READY)
	$(MAKE) --jobs=2 lint pytest

pytest: $(READY) $(BROWSER) $(FLOWER)
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)  # the documentation site, without network; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/docs
	@echo "wrote $(CURDIR)/build/docs/index.html"

bench: $(READY)  # with DEVICE=cuda, cpu or mps: the table of devices
	$(BIN)/python benchmarks/$(if $(DEVICE),devices.py --device $(DEVICE),bench.py)

browser: $(READY)  # try again to bring what tests of pages need
	sh tests/browser/install.sh .venv/axe

flower: $(READY)  # try again to bring what tests of real silos need
	sh tests/silos/install.sh $(BIN)/python .venv/flower

newcomer:  # two pages from a clone on, in an empty folder, with pip; minutes. PAGE=docs/first-silos.md for one of them
	for page in $(or $(PAGE),docs/first-leaderboard-entry.md docs/first-silos.md); do $(PYTHON) tests/documentation/walk.py $$page || exit 1; done

errors: $(READY)  # docs/errors.md, from the table in tests/wrong_inputs
	PYTHONPATH=src:tests $(BIN)/python -m wrong_inputs

api: $(READY)  # the stored public interface, and the list of names in docs/api.md, after a change that users may see
	PYTHONPATH=src:tests $(BIN)/python -m api

# What `make test` has in short forms, at full length (docs/trust).
gauntlet: $(READY)  # kills, damaged files and disturbances; 13 to 50 minutes
	PYTHONPATH=src:tests $(BIN)/python -m gauntlet --forks

determinism: $(READY)  # the same bits: the matrix of kinds and surroundings, and the digests of all suite cells
	PYTHONPATH=src:tests $(BIN)/python -m determinism matrix
	PYTHONPATH=src:tests $(BIN)/python -m determinism check

fuzz: $(READY) $(TRUST)  # FUZZ="experiment --inputs 5000" for one target
	PYTHONPATH=src:tests $(BIN)/python -m fuzz $(FUZZ)

mutants: $(READY) $(TRUST)  # MUTANTS="codecs --sample 150" for a sample of one folder
	PYTHONPATH=src:tests $(BIN)/python -m mutants $(MUTANTS)

coverage: $(READY) $(BROWSER) $(FLOWER)  # lines and branches that tests run; it fails below 92%
	mkdir -p build/coverage
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=html:build/coverage/html --cov-report=term

load: $(READY)  # many parties, many runs, large plans
	PYTHONPATH=src:tests $(BIN)/python benchmarks/load.py

audit: $(READY)  # known vulnerabilities of the installed packages; it fails if one cannot be looked up
	sh tests/security/audit.sh $(BIN)/python .venv/audit

release: $(READY)  # build the wheel into dist/, install it with its dependencies into an empty environment, and use it there
	PYTHONPATH=src:tests $(BIN)/python -m release

$(TRUST): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[trust]' -c constraints.txt
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	# Python compiles what it imports. To compile all 20,000 files of the packages here takes a minute.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]' -c constraints.txt
	# A cross-check in tests. It asks for one version of protobuf, which onnx does not allow, and works with others.
	-$(BIN)/pip install --quiet --disable-pip-version-check --no-deps openmined-psi==2.0.6
	touch $@

$(BROWSER): $(READY)  # tried once: the second `make test` does not wait for a network that is not there
	sh tests/browser/install.sh .venv/axe
	touch $@

$(FLOWER): $(READY)  # tried once, too
	sh tests/silos/install.sh $(BIN)/python .venv/flower
	touch $@

clean:
	rm -rf .venv runs build dist
