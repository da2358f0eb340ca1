# Everything from a fresh machine: each target makes its own virtual environment first.
#   make demo    near-duplicate files in Python's own library, found through the command line
#   make test    every test            (PYTEST_ARGS="-k probe" for some)
#   make lint    ruff and mypy, and clang-format where it is installed
#   make bench   the benchmarks, small (tools/bench_*.py without --small for the real sizes)
#   make asan    the tests of the compiled core under the address and undefined-behaviour sanitizers (gcc)
#   make fuzz    hostile segment files, a million of them, under the same sanitizers (FUZZ_ARGS="--inputs 1e7" for more)
#   make clean   remove whatever was generated, the virtual environment too

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto

# What runs the compiled core over hostile bytes; the rest of the tests is Python. The sanitizers reserve more address
# space than the tests of what is too large for memory allow.
ASAN_TESTS ?= $(wildcard $(addprefix tests/test_,$(addsuffix *.py,codec cut_short joins merge_kernels pending probe segment \
	sort text_joined text_simhash text_unicode)))
SANITIZERS := -fsanitize=address,undefined

SOURCES := $(wildcard fpstore/*.pyx fpstore/*.pxd fpstore/*/*.pyx fpstore/native/*.[ch] tools/kernels.py)

C_SOURCES := $(wildcard $(foreach folder,fpstore/native tests/native tools/fuzz,$(folder)/*.c $(folder)/*.h))

.PHONY: demo test lint bench asan fuzz clean

demo: $(VENV)/.installed
	$(VENV)/bin/python tools/demo.py

test: $(VENV)/.installed
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.linters
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@if command -v clang-format >/dev/null; then clang-format --dry-run --Werror $(C_SOURCES); \
	else echo "clang-format is not installed: the C sources are not checked"; fi

bench: $(VENV)/.installed
	set -e; for script in $(wildcard tools/bench_*.py); do echo "== $$script"; $(VENV)/bin/python $$script --small; done

asan: $(VENV)/.installed
	$(VENV)/bin/python -m pip install --quiet 'setuptools>=77' 'Cython>=3.1'
	rm -rf build/asan && mkdir -p build/asan
	cp -r fpstore tests tools setup.py pyproject.toml build/asan
	find build/asan -name '*.so' -exec rm {} +
	cd build/asan && CFLAGS="-O1 -g $(SANITIZERS) -fno-sanitize-recover=undefined" LDFLAGS="$(SANITIZERS)" \
		$(abspath $(VENV))/bin/python setup.py --quiet build_ext --inplace
	cd build/asan && ASAN_OPTIONS=detect_leaks=0:handle_sigbus=0 PYTHONMALLOC=malloc \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		$(abspath $(VENV))/bin/python -m pytest -k "not for_memory" $(ASAN_TESTS)

fuzz: $(VENV)/.installed
	$(VENV)/bin/python tools/fuzz.py $(FUZZ_ARGS)

clean:
	rm -rf .venv build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find fpstore -name '*.pyx' -exec sh -c 'rm -f "$${1%.pyx}".c "$${1%.pyx}".*.so' _ {} \;
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The compiled core is built by the install, so whatever it is made of calls for another one.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml setup.py $(SOURCES)
	$(VENV)/bin/python -m pip install --quiet -e '.[test]'
	touch $@

$(VENV)/.linters: $(VENV)/.installed
	$(VENV)/bin/python -m pip install --quiet -e '.[lint]'
	touch $@
