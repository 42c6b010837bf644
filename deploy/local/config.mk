# Set-up as a part of the build: $(config) is made by deploy/local/setup and says how to compile against the libraries. make reads it
# after it was made, so a fresh checkout needs no step before `make`.

export PRESENCE_DEPS_DIR := $(or $(PRESENCE_DEPS_DIR),$(CURDIR)/.local/deps)
config := $(BUILD)/config

setup_scripts := deploy/local/setup $(wildcard deploy/local/lib/*)

$(config): $(setup_scripts) $(if $(wildcard $(PRESENCE_DEPS_DIR)/libraries.key),,always)
	@deploy/local/setup build $(if $(SYSTEM_LIBS),system-libs)
	@mkdir -p $(@D) && { \
	  printf 'dependency_cflags := %s\n' "$$(pkg-config --cflags jansson libpq)$(if $(SYSTEM_LIBS),, -isystem $(deps_later)/include)"; \
	  printf 'dependency_libs := %s\n' "$(library_archives) $$(pkg-config --libs jansson libpq openssl gnutls libxxhash zlib libcurl)"; \
	} >$@

# Written down as a variable, since the folder may be another one at the next call.
deps_later := \$$(PRESENCE_DEPS_DIR)
library_archives := $(if $(SYSTEM_LIBS),-lmicrohttpd -lhiredis_ssl -lhiredis, \
  $(addprefix $(deps_later)/lib/,libmicrohttpd.a libhiredis_ssl.a libhiredis.a))

# Targets that compile nothing do without.
ifneq ($(filter-out help clean format,$(or $(MAKECMDGOALS),all)),)
include $(config)
endif
