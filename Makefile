# Two commands do everything: `make run` shows the model that ships answering, `make test` passes the tests.
# Each installs what is missing (scripts/bootstrap), configures and builds first.

JOBS ?= $(shell nproc)
STORY ?= Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?

.PHONY: run test slow-test bench results asan tsan lint format train train-test clean

run: build/release/lacuna
	build/release/lacuna run -m mini-llada -p "$(STORY)" --gen-length 32

test: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -LE slow -j $(JOBS)

slow-test: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -j $(JOBS)

bench: build/release/lacuna
	build/release/lacuna bench matmul
	build/release/lacuna bench step -m random:llada-8b,layers=4 --canvas 1024 --rows 1024,512,256,128

results: build/release/lacuna
	build/release/lacuna report frontier
	build/release/lacuna report masked
	build/release/lacuna report refusion
	build/release/lacuna report uniform
	build/release/lacuna report mage
	build/release/lacuna report zoo
	build/release/lacuna report claims

asan tsan: %: build/%/build.ninja
	cmake --build --preset $@ -j $(JOBS)
	ctest --preset $@ -LE slow -j $(JOBS)

lint: build/dev/build.ninja
	scripts/lint

format:
	scripts/sources | xargs clang-format -i

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

build/release/lacuna: build/release/build.ninja FORCE
	cmake --build --preset release -j $(JOBS)

build/%/build.ninja: CMakePresets.json scripts/bootstrap
	scripts/bootstrap
	cmake --preset $*

FORCE:
