# How tests are built and run. A file tests/FOLDER/test_X.c is one program, linked with the library and tests/support; what it
# needs of servers it starts itself.

comma := ,
test_folders := unit scripts integration replay faults
TESTS ?= $(test_folders)

test_sources := $(wildcard $(patsubst %,tests/%/test_*.c,$(test_folders) soak))
test_programs := $(patsubst %.c,$(BUILD)/%,$(test_sources))
shim_sources := $(wildcard tests/support/*shim.c)
support_objects := $(call object,$(filter-out $(shim_sources),$(wildcard tests/support/*.c)))
shims := $(patsubst tests/support/%.c,$(BUILD)/%.so,$(shim_sources))

# So that tests/support/alloc_fail.c can make an allocation of the service fail.
wrapped := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc)

$(BUILD)/obj/tests/%.o: compile_flags += -Itests
$(test_programs): $(BUILD)/%: $(BUILD)/obj/%.o $(support_objects) $(library)
	$(call quiet,LD,$@)mkdir -p $(@D) && $(CC) $(link_flags) $(wrapped) -o $@ $(filter %.o %.a,$^) -lcmocka $(dependency_libs)

# The fault run is a program of several parts.
fault_parts := $(filter-out tests/faults/test_%.c,$(wildcard tests/faults/*.c))
$(patsubst %.c,$(BUILD)/%,$(wildcard tests/faults/test_*.c)): $(call object,$(fault_parts))

.PHONY: faults
SEED ?= 1
MINUTES ?= 10
faults: ## the fault run; SEED=n MINUTES=n; the last line counts what went wrong
	@$(MAKE) --no-print-directory $(jobs) DEBUG=1 tests-built
	@deploy/local/setup servers
	@TEST_TIMEOUT_S=$$(($(MINUTES) * 60 + 300)) FAULTS_SEED=$(SEED) FAULTS_SECONDS=$$(($(MINUTES) * 60)) \
	  tests/long-run build/debug faults/test_faults '^[0-9]+ faults, '

.PHONY: soak
soak: ## serves for MINUTES=10 while nothing may grow; the last line is the verdict
	@$(MAKE) --no-print-directory $(jobs) DEBUG=1 tests-built
	@deploy/local/setup servers
	@SOAK_SECONDS=$$(($(MINUTES) * 60)) tests/long-run build/debug soak/test_soak '^soak '

.PHONY: matrix
matrix: ## the scripts' and integration tests on every Redis and Valkey release supported, a line each; SERVERS="redis7 redis8 valkey8 valkey9"
	@$(MAKE) --no-print-directory $(jobs) DEBUG=1 tests-built
	@tests/matrix build/debug $(SERVERS)

# Loaded into Redis, which may bring a libc of its own: no sanitizer, nothing needed from outside.
$(BUILD)/%.so: tests/support/%.c $(config)
	$(call quiet,CC,$<)mkdir -p $(@D) && $(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -fPIC -shared -nostdlib -fno-stack-protector -o $@ $<

.PHONY: fuzz test-all tests-built
tests-built: $(programs) $(test_programs) $(shims)
	@deploy/local/setup $(setup_groups) servers pgbouncer haproxy examples

# tests/fuzz/fuzz_X.c: a libFuzzer target (https://llvm.org/docs/LibFuzzer.html) with the corpus tests/fuzz/corpus/X, built by clang.
fuzz_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
$(fuzz_programs): $(BUILD)/%: $(BUILD)/obj/%.o $(library)
	$(call quiet,LD,$@)mkdir -p $(@D) && $(CC) $(link_flags) -fsanitize=fuzzer -o $@ $(filter %.o %.a,$^) $(dependency_libs)
.PHONY: fuzzers-built
fuzzers-built: $(fuzz_programs)
build_fuzz := CC=clang SANITIZER=fuzzer BUILD=build/fuzz

# tests/model: the rules as a model, every interleaving of it looked at by spin.
build/model/tests/model/%: tests/model/%.sh
	@mkdir -p $(@D) && cp $< $@

# tests/mutants: each protection taken out in a copy of the sources must make a test fail. MUTANTS="no_guard trim_all": only these.
mutants_program := build/mutants/tests/mutants/test_mutants
$(mutants_program): tests/mutants/test_mutants.sh
	@mkdir -p $(@D) && cp $< $@
.PHONY: mutants
mutants: ## takes each protection out, one after the other: a test must notice; MUTANTS="no_guard trim_all": only those
	@$(MAKE) --no-print-directory $(jobs) DEBUG=1 tests-built
	@$(MAKE) --no-print-directory $(mutants_program)
	@MUTANTS="$(MUTANTS)" TEST_TIMEOUT_S=3600 tests/run $(dir $(mutants_program))

# The dashboard in Chromium, against the debug build.
browser_program := build/debug/tests/browser/test_page
$(browser_program): tests/browser/test_page.sh
	@mkdir -p $(@D) && cp $< $@
.PHONY: browser-ready
browser-ready: $(browser_program)
	@deploy/local/setup browser || echo '  THE BROWSER TEST IS SKIPPED: Chromium, Node.js or playwright-core cannot be installed here'

# A round of the bench, on the debug build.
bench_program := build/debug/tests/bench/test_bench
$(bench_program): tests/bench/test_bench.sh
	@mkdir -p $(@D) && cp $< $@
.PHONY: bench-ready
bench-ready: $(BUILD)/bench_scripts $(BUILD)/bench_http $(bench_program)

include tests/ops/ops.mk

FUZZ_SECONDS ?= 60
fuzz: ## each fuzz target for FUZZ_SECONDS=60; inputs found are kept in build/fuzz/corpus
	@deploy/local/setup fuzz
	@$(MAKE) --no-print-directory $(jobs) $(build_fuzz) fuzzers-built
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run build/fuzz/tests/fuzz

# Without SANITIZER: the tests as they are, then once more under address and undefined behaviour sanitizers. One closing line.
test_builds := $(or $(SANITIZER),debug address)
build_debug := DEBUG=1
build_address := SANITIZER=address
build_undefined := SANITIZER=undefined
build_thread := SANITIZER=thread

# Only in the whole run.
fuzz_too := $(if $(SANITIZER)$(filter-out $(TESTS),$(test_folders)),,$(wildcard tests/fuzz/fuzz_*.c))

model_too := $(if $(fuzz_too),build/model/tests/model/test_model)
browser_too := $(if $(fuzz_too),$(browser_program))
ops_too := $(if $(fuzz_too),$(ops_programs))

# As many jobs as there are cores, where the caller has not said how many.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

test: ## all tests, once more under sanitizers, short fuzzing; SANITIZER=address|undefined|thread: only so; TESTS="unit scripts": only those
	@$(foreach build,$(test_builds),$(MAKE) --no-print-directory $(jobs) $(build_$(build)) tests-built;)
	@$(if $(browser_too),$(MAKE) --no-print-directory browser-ready)
	@$(if $(ops_too),$(MAKE) --no-print-directory ops-ready)
	@$(if $(fuzz_too),deploy/local/setup fuzz; $(MAKE) --no-print-directory $(jobs) $(build_fuzz) fuzzers-built)
	@$(if $(model_too),deploy/local/setup model; $(MAKE) --no-print-directory $(model_too))
	@FUZZ_SECONDS=5 tests/run $(sort $(dir $(model_too) $(browser_too) $(ops_too))) $(foreach build,$(test_builds),$(patsubst %,build/$(build)/tests/%,$(TESTS))) \
	  $(if $(fuzz_too),build/fuzz/tests/fuzz)

test-all: ## also thread sanitizer, valgrind, mutants, soak, the matrix, what takes long, a minute of fuzzing each, the Debian package in a bare Debian
	@$(foreach build,debug address thread,$(MAKE) --no-print-directory $(jobs) $(build_$(build)) tests-built;)
	@$(MAKE) --no-print-directory browser-ready package-ready
	@$(MAKE) --no-print-directory $(jobs) $(build_debug) bench-ready
	@deploy/local/setup fuzz valgrind model; $(MAKE) --no-print-directory build/model/tests/model/test_model $(mutants_program)
	@$(MAKE) --no-print-directory $(jobs) $(build_fuzz) fuzzers-built
	@TEST_WHOLE=1 TEST_TIMEOUT_S=1800 FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run build/model/tests/model build/debug/tests/soak \
	  $(sort $(dir $(browser_program) $(bench_program) $(ops_programs) $(package_programs) $(mutants_program))) \
	  $(foreach build,debug address thread,$(patsubst %,build/$(build)/tests/%,$(test_folders))) \
	  valgrind:build/debug/tests/unit valgrind:build/debug/tests/scripts build/fuzz/tests/fuzz
	@tests/matrix build/debug
