# Set-up as a part of the build: $(config) is made by deploy/local/setup and says how to compile against the libraries. make reads it
# after it was made, so a fresh checkout needs no step before `make`.

$(if $(word 2,$(CURDIR)),$(error make cannot work in a path with blanks: $(CURDIR)))
export PRESENCE_DEPS_DIR := $(or $(PRESENCE_DEPS_DIR),$(CURDIR)/.local/deps)
config := $(BUILD)/config

setup_scripts := deploy/local/setup $(wildcard deploy/local/lib/*)

setup_groups := packages $(if $(SYSTEM_LIBS),system-libs,libraries)
ifdef SYSTEM_LIBS
$(info warning: with the distribution's libraries: libmicrohttpd below 1.0.3 can skip ready connections while another is suspended, below \
  1.0.10 it has request smuggling and memory faults; hiredis below 1.0 has no TLS (rediss://))
endif

$(config): $(setup_scripts) deploy/local/config.mk $(if $(wildcard $(PRESENCE_DEPS_DIR)/libraries.key),,$(if $(SYSTEM_LIBS),,always))
	@deploy/local/setup $(setup_groups)
	@mkdir -p $(@D) && { \
	  echo 'dependency_cflags := $(library_cflags)' "$$(pkg-config --cflags jansson libpq)"; \
	  echo 'dependency_libs := $(library_libs)' "$$(pkg-config --libs jansson libpq openssl gnutls libxxhash zlib libcurl)"; \
	} >$@

# Written down with the folder as a variable, since it may be another one at the next call. -isystem: their headers are not ours to warn of.
deps_later := $$(PRESENCE_DEPS_DIR)
library_cflags := $(if $(SYSTEM_LIBS),,-isystem $(deps_later)/include)
library_libs := $(if $(SYSTEM_LIBS),-lmicrohttpd $$(wildcard /usr/lib/*/libhiredis_ssl.so) -lhiredis, \
  $(addprefix $(deps_later)/lib/,libmicrohttpd.a libhiredis_ssl.a libhiredis.a))

# Targets that compile nothing do without.
ifneq ($(filter-out help clean format,$(or $(MAKECMDGOALS),all)),)
include $(config)
endif
