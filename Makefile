# Everything from a fresh machine: each target makes its own virtual environment first.
#   make install what the others begin with: fpstore in $(VENV), compiled, with what its tests need
#   make demo    near-duplicate files in Python's own library, found through the command line
#   make test    every test            (PYTEST_ARGS="-k probe" for some)
#   make test-fast  without those marked slow, which every file of tests but a few has
#   make test-clients  against polars, pandas, DuckDB and Hugging Face's datasets, and the packages whose fingerprints
#                docs/compatibility.md compares, which it installs
#   make test-cluster  on Ray, and where Java is on Spark, which it installs; Spark's tests are skipped without Java
#                (CLUSTER_KEYS=1e5 for a small store)
#   make lint    ruff, mypy and clang-format
#   make bench   the benchmarks, small (tools/bench_*.py without --small for the real sizes)
#   make asan    the tests of the compiled core under the address and undefined-behaviour sanitizers (gcc)
#   make gate    what is compiled and the store, built by gcc and clang at -O0 to -O3, for arm64 under emulation, and asan
#   make fuzz    hostile segment files, a million of them, under the same sanitizers (FUZZ_ARGS="--inputs 1e7" for more)
#   make clean   remove whatever was generated, the virtual environment too

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto

# What runs the compiled core over hostile bytes; the rest of the tests is Python. The sanitizers reserve more address
# space than the tests of what is too large for memory allow.
ASAN_TESTS ?= $(wildcard $(addprefix tests/test_,$(addsuffix *.py,codec cut_short inputs_blocks joins merge_kernels minhash_signing names pending probe segment several single \
	sort tail text_joined text_packed text_passages text_simhash text_unicode)))
SANITIZERS := -fsanitize=address,undefined

# How many keys the store has that the engines of clusters are asked for.
CLUSTER_KEYS ?= 1e7

SOURCES := $(wildcard fpstore/*.pyx fpstore/*.pxd fpstore/*/*.pyx fpstore/*/*.pxd fpstore/native/*.[ch] tools/kernels.py)

# Of pip's words only its errors: what is going on is said by a line before each step.
PIP := $(VENV)/bin/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: install demo test test-fast test-clients test-cluster lint bench asan gate gate-reduced mutants fuzz clean
C_SOURCES := $(wildcard $(foreach folder,fpstore/native tests/native tools/fuzz tools/minhash,$(folder)/*.c $(folder)/*.h))

install: $(VENV)/.testers
	@echo "fpstore is installed in $(VENV)."

demo: $(VENV)/.installed
	@$(VENV)/bin/python tools/demo.py

test: $(VENV)/.testers
	@echo "Every test: a quarter of an hour on two cores ('make test-fast': some two minutes)."
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-fast: $(VENV)/.testers
	@echo "The tests that are not slow: some two minutes on two cores."
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS) -m "not slow"

test-clients: $(VENV)/.clients
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS) tests/test_compatibility.py tests/test_text_given.py \
		tests/test_clients.py tests/test_image_peers.py

# One after the other: each engine has two workers.
test-cluster: $(VENV)/.engines
	@java -version >/dev/null 2>&1 || echo "Java is not installed (Debian: openjdk-17-jre-headless): Spark is not tested."
	FPSTORE_CLUSTER_KEYS=$(CLUSTER_KEYS) $(VENV)/bin/python -m pytest -rs tests/test_cluster_ranks.py \
		tests/test_cluster_local.py tests/test_cluster_engines.py tests/test_cluster_speculation.py

lint: $(VENV)/.linters
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@$(VENV)/bin/clang-format --dry-run --Werror $(C_SOURCES)

bench: $(VENV)/.testers
	set -e; for script in $(wildcard tools/bench_*.py); do echo "== $$script"; $(VENV)/bin/python $$script --small; done

# -O1, as frames stay readable; through FPSTORE_OPTIMIZE, as setup.py's own level comes after CFLAGS.
asan: $(VENV)/.builders
	rm -rf build/asan && mkdir -p build/asan
	cp -r --preserve=timestamps fpstore tests tools setup.py pyproject.toml README.md LICENSE build/asan
	find build/asan -name '*.so' -exec rm {} +
	cd build/asan && CFLAGS="-g $(SANITIZERS) -fno-sanitize-recover=undefined" LDFLAGS="$(SANITIZERS)" FPSTORE_OPTIMIZE=-O1 \
		$(abspath $(VENV))/bin/python setup.py --quiet build_ext --inplace
	cd build/asan && ASAN_OPTIONS=detect_leaks=0:handle_sigbus=0 PYTHONMALLOC=malloc PYTHONPATH=$(abspath build/asan) \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		$(abspath $(VENV))/bin/python -m pytest -k "not for_memory" $(ASAN_TESTS)

gate: $(VENV)/.builders
	$(VENV)/bin/python tools/gate.py
	tools/gate_arm64.sh $(VENV)/bin/python
	$(MAKE) asan

gate-reduced: $(VENV)/.builders
	$(VENV)/bin/python tools/gate.py --reduced

# Every mistake of tools/mutants, one at a time, against the test that the list names for it.
mutants: $(VENV)/.builders
	$(VENV)/bin/python tools/check_mutants.py --jobs 2

fuzz: $(VENV)/.testers
	$(VENV)/bin/python tools/fuzz.py $(FUZZ_ARGS)

clean:
	rm -rf .venv build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find fpstore -name '*.pyx' -exec sh -c 'rm -f "$${1%.pyx}".c "$${1%.pyx}".*.so' _ {} \;
	rm -f fpstore/_cyutility.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@echo "A virtual environment in $(VENV): some seconds."
	@$(PYTHON) -m venv $(VENV)

# What is compiled is made by the install, so whatever it is made of calls for another one. Python compiles what it runs
# of these packages, and of what builds them, by itself: all of it takes three seconds of a core.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml setup.py $(SOURCES)
	@echo "Installing fpstore and what it needs: under a minute on two cores. It fetches four packages and compiles the"
	@echo "core; pip is silent unless something fails."
	@PIP_COMPILE=no $(PIP) -e .
	@touch $@

# By the name of what is installed there, so that pip adds what an extra asks for; `-e '.[EXTRA]'` would compile again.
$(VENV)/.testers: $(VENV)/.installed
	@echo "Installing what the tests need, some twenty packages: some seconds."
	@$(PIP) 'fpstore[test]'
	@touch $@

# What compiles the core in the source tree, as pip does in a place of its own.
$(VENV)/.builders: $(VENV)/.testers
	@echo "Installing what compiles the core in the source tree: some seconds."
	@$(PIP) 'setuptools>=77' 'Cython>=3.2.1'
	@touch $@

# In a folder of their own, without what they need: only their functions that make fingerprints are read from there.
$(VENV)/.clients: $(VENV)/.testers
	@echo "Installing what users have frames in, and other packages' simhashes, to compare with: about a minute."
	@$(PIP) 'fpstore[test-clients]'
	@$(PIP) --no-deps --upgrade --target $(VENV)/clients \
		text-dedup==0.4.0 floc-simhash==0.1.0 simhash-pybind==0.0.3
	@touch $@

$(VENV)/.engines: $(VENV)/.testers
	@if java -version >/dev/null 2>&1; then \
		echo "Installing Ray and Spark: some minutes, 700 MB."; $(PIP) 'fpstore[ray,spark]'; \
	else echo "Installing Ray: about a minute, 200 MB."; $(PIP) 'fpstore[ray]'; fi
	@touch $@

$(VENV)/.linters: $(VENV)/.testers
	@echo "Installing ruff, mypy and clang-format: about half a minute."
	@$(PIP) 'fpstore[lint]'
	@touch $@
