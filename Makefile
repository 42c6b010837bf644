# Presence service. `make help` lists the targets.
#
# Variables: SANITIZER=address|undefined|thread (address brings undefined along), DEBUG=1 (failure points), CC=clang,
# SYSTEM_LIBS=1 (the distribution's libmicrohttpd and hiredis), V=1 (whole command lines), WERROR= (warnings stay warnings).

CC = gcc
DEBUG ?=
SANITIZER ?=
SYSTEM_LIBS ?=
WERROR ?= -Werror
PORT ?= 8080

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules

# Each way to build has a folder of its own: build, build/debug, build/address, …
variant := $(strip $(if $(SANITIZER),$(SANITIZER),$(if $(DEBUG),debug)) $(if $(SYSTEM_LIBS),system) $(filter-out gcc,$(notdir $(CC))))
BUILD ?= build$(if $(variant),/$(subst $() ,-,$(variant)))

include deploy/local/config.mk

## What is built. A new source file is found by its folder; nothing is listed by name but the programs.

mains := service/main.c service/cli/main.c $(wildcard service/tools/*_main.c) service/tools/embed.c service/tools/manual.c
sources := $(filter-out $(mains),$(wildcard service/*.c service/*/*.c))
library := $(BUILD)/libpresence.a
programs := $(if $(wildcard service/main.c),$(BUILD)/presenced) \
  $(if $(wildcard service/cli/main.c),$(BUILD)/presencectl) \
  $(patsubst service/tools/%_main.c,$(BUILD)/presence-%,$(wildcard service/tools/*_main.c))

scripts := $(wildcard service/redis/scripts/*.lua)
migrations := $(wildcard migrations/*.sql)
# The chart library is Debian's (libjs-chart.js), with its licence beside it; nothing of it is committed.
dashboard := $(wildcard $(addprefix service/dashboard/*.,html css js svg)) /usr/share/javascript/chart.js/chart.min.js \
  $(BUILD)/gen/chart-license.txt
documents := service/http/openapi.json
embedded := $(patsubst %,$(BUILD)/gen/embedded_%.c,scripts migrations dashboard documents)

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wconversion -Wvla -Wundef $(WERROR)
hardening := -fstack-protector-strong -fPIE $(if $(SANITIZER),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
sanitize_address := -fsanitize=address,undefined
sanitize_undefined := -fsanitize=undefined
sanitize_thread := -fsanitize=thread
sanitize_fuzzer := -fsanitize=fuzzer-no-link,address,undefined
$(if $(SANITIZER),$(if $(sanitize_$(SANITIZER)),,$(error SANITIZER is address, undefined or thread, not $(SANITIZER))))
sanitizers := $(if $(SANITIZER),$(sanitize_$(SANITIZER)) -fno-sanitize-recover=all)

CFLAGS ?= -O2 -g
compile_flags = -std=c11 -D_GNU_SOURCE $(CFLAGS) -fno-omit-frame-pointer -pthread $(hardening) $(sanitizers) $(warnings) \
  $(if $(DEBUG)$(SANITIZER),-DPRESENCE_FAILPOINTS=1,-DPRESENCE_FAILPOINTS=0) \
  -Iinclude -Iservice -I$(BUILD)/gen $(dependency_cflags)
link_flags = -pthread -pie $(sanitizers) -Wl,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)

quiet = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

.PHONY: all help run demo test lint docs format clean setup
all: $(programs) $(library) ## builds presenced, presencectl and presence-sim

## Compiling and linking

object = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
library_objects := $(call object,$(sources)) $(embedded:.c=.o)

$(BUILD)/obj/%.o: %.c $(config)
	$(call quiet,CC,$<)mkdir -p $(@D) && $(CC) $(compile_flags) -MMD -MP -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(config)
	$(call quiet,CC,$<)$(CC) $(compile_flags) -MMD -MP -c -o $@ $<

# Made anew, so that the object of a removed source does not stay in it.
$(library): $(library_objects)
	$(call quiet,AR,$@)rm -f $@ && ar rcs $@ $^

$(BUILD)/presenced: $(call object,service/main.c) $(library)
$(BUILD)/presencectl: $(call object,service/cli/main.c) $(library)
$(BUILD)/presence-%: $(BUILD)/obj/service/tools/%_main.o $(library)
	$(link)
$(BUILD)/presenced $(BUILD)/presencectl:
	$(link)
link = $(call quiet,LD,$@)mkdir -p $(@D) && $(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) $(dependency_libs)

## Made at build: the embedded files and the version

$(BUILD)/embed: service/tools/embed.c $(config)
	$(call quiet,CC,$<)mkdir -p $(@D) && $(CC) -std=c11 -O1 $(warnings) -o $@ $<

$(BUILD)/gen/embedded_scripts.c: $(scripts)
$(BUILD)/gen/embedded_migrations.c: $(migrations)
$(BUILD)/gen/embedded_dashboard.c: $(dashboard)
$(BUILD)/gen/embedded_documents.c: $(documents)
$(BUILD)/gen/chart-license.txt: /usr/share/doc/libjs-chart.js/copyright | $(BUILD)/gen/dashboard.list
	@cp $< $@
$(embedded): $(BUILD)/gen/embedded_%.c: $(BUILD)/embed $(BUILD)/gen/%.list
	$(call quiet,EMBED,$*)$(BUILD)/embed $* $($*) >$@

# The names of a group's files: changes when one is added or removed.
$(BUILD)/gen/%.list: always
	@mkdir -p $(@D) && $(call if_changed,echo '$($*)')

# gen/version.h: #define PRESENCE_VERSION
$(BUILD)/gen/version.h: always
	@mkdir -p $(@D) && $(call if_changed,printf '#define PRESENCE_VERSION "%s"\n' "$(version)")
version = $(shell deploy/version)
$(filter $(BUILD)/obj/%,$(library_objects)) $(call object,$(filter-out service/tools/embed.c service/tools/manual.c,$(mains))): | $(BUILD)/gen/version.h

if_changed = $(1) >$@.new && if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

.PHONY: always
-include $(shell find $(BUILD)/obj $(BUILD)/gen -name '*.d' 2>/dev/null)

include tests/tests.mk
include tests/bench/bench.mk
include deploy/install.mk

## For people

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST) | sort

run: ## serves on 127.0.0.1:8080 (PORT=n) with a private Redis and PostgreSQL below .local; Ctrl-C stops all of it, data stays
	@$(MAKE) --no-print-directory $(jobs) all
	@deploy/local/setup servers
	@exec deploy/local/run --build $(BUILD) --port $(PORT)

demo: ## make run with a simulated fleet that comes and goes, so that there is something to see
	@$(MAKE) --no-print-directory $(jobs) all
	@deploy/local/setup servers
	@exec deploy/local/run --build $(BUILD) --port $(PORT) --demo

docs: $(BUILD)/presenced ## writes the README's tables of options and metrics anew
	@for table in options metrics; do \
	  $(BUILD)/presenced --print-docs $$table >$(BUILD)/$$table.md; \
	  sed -i -e "/<!-- $$table -->/,/<!-- \/$$table -->/{/<!-- $$table -->/r $(BUILD)/$$table.md" -e '/<!--/!d}' README.md; \
	done

clean: ## removes what was built; libraries, servers and data below .local stay
	rm -rf build

c_files := $(shell git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null)
c_sources := $(filter %.c,$(c_files))
shell_files = $(shell git ls-files -co --exclude-standard deploy tests .ci | xargs awk 'FNR == 1 && /^\#!.*sh$$/ { print FILENAME }; { nextfile }')

lint: lint-tools lint-format lint-shell lint-cppcheck lint-tidy ## clang-format, shellcheck, cppcheck, clang-tidy
.PHONY: lint-tools lint-format lint-shell lint-cppcheck lint-tidy
lint-tools:
	@deploy/local/setup lint
lint-format: lint-tools
	$(call quiet,LINT,clang-format)clang-format --dry-run -Werror $(c_files)
lint-shell: lint-tools
	$(call quiet,LINT,shellcheck)shellcheck -x -a $(shell_files)
lint-cppcheck: lint-tools $(embedded)
	$(call quiet,LINT,cppcheck)cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability \
	  --inline-suppr --suppress=missingIncludeSystem --suppress='nullPointerRedundantCheck:tests/*' --suppress='varFuncNullUB:tests/*' \
	  --suppress='memleakOnRealloc:tests/*' -Iinclude -Iservice -Itests -I$(BUILD)/gen -D_GNU_SOURCE \
	  -DPRESENCE_FAILPOINTS=1 $(c_sources)
# A file is looked at again when it or a header that it includes changed, as its object is made again then.
lint-tidy: lint-tools $(patsubst %.c,$(BUILD)/tidy/%.ok,$(c_sources))
$(BUILD)/tidy/%.ok: %.c $(BUILD)/obj/%.o .clang-tidy | lint-tools
	$(call quiet,TIDY,$<)mkdir -p $(@D) && clang-tidy --quiet $< -- -std=c11 -D_GNU_SOURCE -DPRESENCE_FAILPOINTS=1 \
	  -Iinclude -Iservice -Itests -I$(BUILD)/gen $(dependency_cflags) 2>$@.err || { cat $@.err >&2; exit 1; }
	@rm $@.err && touch $@

format: lint-tools ## formats all C files in place
	$(call quiet,FORMAT,all)clang-format -i $(c_files)
