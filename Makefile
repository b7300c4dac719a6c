# `make demo`, `make test` and `make docs` set everything up in .venv and then do their work.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BROWSER := .venv/.browser
FLOWER := .venv/.flower
# Tests start many processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint pytest docs bench browser flower errors clean

demo: $(READY)
	$(BIN)/silobench demo

test: $(READY) $(BROWSER) $(FLOWER)
	$(MAKE) --jobs=2 lint pytest

pytest: $(READY)
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

errors: $(READY)  # docs/errors.md, from the table in tests/wrong_inputs
	PYTHONPATH=src:tests $(BIN)/python -m wrong_inputs

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
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
	rm -rf .venv runs build
