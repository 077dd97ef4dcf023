# `make bench` and `make test` work from a fresh clone: both make .venv first. PYTHON chooses the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
SUITE ?= default
JOBS ?= 2
# One test process more than processors: tests wait for other processes, and for time limits to pass.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
RUN_OPTIONS ?=
TEST_OPTIONS ?=
MINUTES ?= 30
FUZZ_OPTIONS ?=
# Of the kernel tests' cases, one in so many is checked.
SHARE ?= 1
SWEEP_OPTIONS ?=
# Whether a warning of the C compiler fails the build of the extension.
WERROR ?= OFF

# The build reads these; a change of any of them builds the extension anew.
NATIVE := CMakeLists.txt csrc/build_cffi.py $(shell find csrc -type f 2>/dev/null)

# run-kernels,NAME,OPTIONS,RUNNER: build the C test program in build/NAME and run it.
define run-kernels
$(BIN)/cmake -S . -B build/$(1) -G Ninja -DENGINE_PYTHON=OFF -DENGINE_TESTS=ON -DENGINE_WERROR=ON $(2)
$(BIN)/cmake --build build/$(1) --parallel $(JOBS)
$(3) build/$(1)/tests/kernels/test_kernels $(4)
endef

# on-gpu,COMMAND: run COMMAND where torch finds a CUDA device; elsewhere one line says so.
define on-gpu
@if $(BIN)/python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then $(1); else echo "not measured: no CUDA device"; fi
endef

.PHONY: help venv bench bench-full bench-models bench-gpu site site-many test test-long test-times check-all mutants messages test-triton test-gpu lint format sdist kernels kernels-arm64 sanitize sanitize-python fuzz sweep clean distclean

help:
	@echo "make bench         run the default suite (SUITE=$(SUITE)) and print its table; saved under results/"
	@echo "make bench-full    the same with more cases"
	@echo "make bench-models  the same for every model in its published size (an hour or more)"
	@echo "make bench-gpu     the suite gpu, which needs a CUDA device"
	@echo "make site          pages of the stored results in site/ (docs/publishing.md)"
	@echo "make site-many     the same of 100,000 invented records, with its time and the sizes that decide it"
	@echo "make test          lint, types, all subjects in their short form (but pages of the site in a browser)"
	@echo "make check-all     all there is: every test, the kernels with other compilers and for Arm, Triton ahead of time, speeds"
	@echo "make mutants       which of the planted faults the tests see"
	@echo "make messages      write the texts of errors and warnings that tests see to tests/messages.json"
	@echo "make test-times    where the time of the last test run went, slowest first"
	@echo "make lint          ruff and mypy alone; and the lines of each folder"
	@echo "make sdist         build the source distribution, install it into a new environment, run a saved program there"
	@echo "make test-triton   Triton kernels compiled for sm_90 at real sizes; needs no GPU"
	@echo "make test-gpu      whole models on a CUDA device, beside eager PyTorch there"
	@echo "make kernels       the kernel tests, every warning an error (CC=gcc or clang)"
	@echo "make kernels-arm64 the same, cross-compiled for 64-bit Arm and run under qemu"
	@echo "make sanitize      the kernel tests under the address and undefined-behaviour sanitizers"
	@echo "make fuzz          program files made and changed at random, for MINUTES=$(MINUTES) (docs/reliability.md)"
	@echo "make sweep         every operator of torch's database beside eager PyTorch (docs/reliability.md)"
	@echo "make venv          only make $(VENV)"
	@echo "make clean         remove built files (distclean: $(VENV) too)"

venv: $(STAMP)

# Exact versions come from constraints.txt. The build's own requirements go in first, because the build runs inside the
# environment that it is for: an isolated one would fetch them a second time and disappear under an editable install.
$(STAMP): pyproject.toml constraints.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" > $(VENV)/build-requires.txt
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet -r $(VENV)/build-requires.txt cmake ninja
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --no-build-isolation --config-settings=cmake.define.ENGINE_WERROR=$(WERROR) --editable ".[suites,gpu,peers,plots,site,dev]"
	touch $@

bench: $(STAMP)
	$(BIN)/enginebench run $(SUITE) $(RUN_OPTIONS)

bench-full: $(STAMP)
	$(BIN)/enginebench run full $(RUN_OPTIONS)

bench-models: $(STAMP)
	$(BIN)/enginebench run models $(RUN_OPTIONS)

bench-gpu: $(STAMP)
	$(call on-gpu,$(BIN)/enginebench run gpu $(RUN_OPTIONS))

site: $(STAMP)
	$(BIN)/enginebench site --out site

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python -m tests.lines

# A file at a time: its tests share what is made once. In the order of tests/conftest.py, the longest file first.
# tests/kernels takes objects of the extension that were compiled with warnings as errors, and compiles the others again.
test: WERROR = ON
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder -m "not long and not browser" $(TEST_OPTIONS)

# The tests that are marked as long, too.
test-long: TEST_OPTIONS = -m ""
test-long: test

check-all: WERROR = ON
check-all: $(STAMP)
	$(BIN)/python -m tests.stages --all --long

mutants: $(STAMP)
	$(BIN)/python -m tests.mutants --jobs $(JOBS)

# Of all tests, or of those that TEST_OPTIONS chooses.
messages: $(STAMP)
	$(if $(TEST_OPTIONS),,rm -f tests/messages.json)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(TEST_JOBS) --dist loadfile -m "" --renew-messages $(TEST_OPTIONS)

test-times: $(STAMP)
	@$(BIN)/python -m tests.times

# Not in the process of `make test`, where Triton interprets kernels. Kernels that were compiled before come from its cache.
test-triton: $(STAMP)
	TRITON_INTERPRET=0 $(BIN)/python -m pytest -n $(JOBS) tests/targets/on_triton/compiled.py tests/targets/on_triton/compiled_configurations.py $(TEST_OPTIONS)

test-gpu: $(STAMP)
	$(call on-gpu,TRITON_INTERPRET=0 $(BIN)/python -m pytest -n $(JOBS) tests/targets/on_triton/kernels_on_gpu.py tests/targets/on_triton/on_gpu.py)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Minutes: the first page of 100,000 records in its size, and how long the command takes (docs/publishing.md).
site-many: $(STAMP)
	ENGINEBENCH_TEST_LINES=100000 $(BIN)/python -m pytest tests/site/test_many_records.py
	rm -rf build/many
	$(BIN)/python -m tools.make_results build/many/results --lines 100000
	bash -c "time $(BIN)/enginebench site --results build/many/results --out build/many/site"

# In an empty folder, so that nothing is imported from this checkout. PYTHON=python3.13 tries another interpreter.
sdist: $(STAMP)
	rm -rf build/sdist && mkdir -p build/sdist/empty
	$(BIN)/python -m build --sdist --no-isolation --outdir build/sdist
	$(PYTHON) -m venv build/sdist/venv
	build/sdist/venv/bin/python -m pip install --quiet build/sdist/enginebench-*.tar.gz
	cp tests/golden/decoder-4.engine build/sdist/empty/model.engine
	cd build/sdist/empty && ../venv/bin/python -c "import engine, numpy; d = engine.load_decoder('model.engine'); print(engine.__file__, d.generate(numpy.ones((d.batch, 2), numpy.int64), 4))"

kernels: kernels-$(CC)

kernels-%: $(STAMP)
	$(call run-kernels,kernels-$*,-DCMAKE_C_COMPILER=$*)

# Without the fork test: qemu-user itself fails, now and then, when a process with threads forks.
kernels-arm64: $(STAMP)
	$(call run-kernels,kernels-arm64,-DCMAKE_TOOLCHAIN_FILE=csrc/cmake/aarch64.cmake,qemu-aarch64 -L /usr/aarch64-linux-gnu,no-fork share=$(SHARE))

# With -O1: on one core of Zen 4, -O3 took about 14 minutes to compile the checks, and -O1 takes 4.
sanitize: $(STAMP)
	$(call run-kernels,sanitize-$(CC),-DCMAKE_C_COMPILER=$(CC) -DENGINE_SANITIZE=ON -DCMAKE_C_FLAGS_RELEASE=-O1,,share=$(SHARE))

# The extension module under the sanitizers, in a folder of its own. Of gcc, whose libraries tests/fuzz/campaign.py loads
# before the interpreter.
sanitize-python: $(STAMP)
	$(BIN)/cmake -S . -B build/sanitize-python -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DCMAKE_C_COMPILER=gcc -DENGINE_SANITIZE=ON
	$(BIN)/cmake --build build/sanitize-python --parallel $(JOBS)

fuzz: sanitize-python
	$(BIN)/python -m tests.fuzz run --minutes $(MINUTES) --jobs $(JOBS) --native build/sanitize-python/_native.abi3.so $(FUZZ_OPTIONS)

sweep: $(STAMP)
	$(BIN)/python -m tests.sweep --jobs $(JOBS) $(SWEEP_OPTIONS)

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find engine suites tests scripts tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
