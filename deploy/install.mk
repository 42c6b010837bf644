# make install and make deb. DESTDIR is put before every path; PREFIX is where the programs will be (default /usr/local).

PREFIX ?= /usr/local
DESTDIR ?=
into = $(DESTDIR)$(PREFIX)

manual := $(BUILD)/manual
manual_pages := $(patsubst deploy/man/%,$(BUILD)/share/%,$(wildcard deploy/man/*.[1-8]))
shared_files := $(manual_pages) $(BUILD)/share/presence.bash $(BUILD)/share/presence.zsh $(BUILD)/share/presence.conf
# The day of the change that is built, so that the same sources give the same files.
source_date = $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)

$(manual): $(BUILD)/obj/service/tools/manual.o $(library)
	$(link)

# A page's line @OPTIONS@ becomes what `manual options` prints, and so on.
$(BUILD)/share/%: deploy/man/% $(manual)
	$(call quiet,MAN,$@)mkdir -p $(@D) && LC_ALL=C awk -v date="$$(LC_ALL=C TZ=UTC date -d @$(source_date) '+%B %-d, %Y')" '\
	  /^@[A-Z]+@$$/ { close(part); part = "$(manual) " tolower(substr($$0, 2, length($$0) - 2)); while ((part | getline line) > 0) print line; next } \
	  { sub(/@DATE@/, date); print }' $< >$@
$(BUILD)/share/presence.bash: deploy/completion/presence.bash $(manual)
	$(call quiet,GEN,$@)mkdir -p $(@D) && { echo '# shellcheck shell=bash'; $(manual) completion; sed 1d $<; } >$@
$(BUILD)/share/presence.zsh: deploy/completion/presence.zsh $(manual)
	$(call quiet,GEN,$@)mkdir -p $(@D) && { sed 1q $<; $(manual) completion; sed 1d $<; } >$@
$(BUILD)/share/presence.conf: $(manual)
	$(call quiet,GEN,$@)mkdir -p $(@D) && $(manual) configuration >$@

.PHONY: install deb
install: $(programs) $(shared_files) ## installs below PREFIX=/usr/local, staged in DESTDIR: programs, pages, completion, units, examples
	install -d $(into)/bin $(into)/share/man/man1 $(into)/share/man/man8 $(into)/share/bash-completion/completions \
	  $(into)/share/zsh/site-functions \
	  $(into)/lib/systemd/system $(into)/lib/sysusers.d $(into)/share/doc/presence/examples
	install -m 755 $(programs) $(into)/bin
	for page in $(manual_pages); do install -m 644 $$page $(into)/share/man/man$${page##*.}/; done
	install -m 644 $(BUILD)/share/presence.bash $(into)/share/bash-completion/completions/presencectl
	ln -sf presencectl $(into)/share/bash-completion/completions/presenced
	ln -sf presencectl $(into)/share/bash-completion/completions/presence-sim
	install -m 644 $(BUILD)/share/presence.zsh $(into)/share/zsh/site-functions/_presencectl
	sed 's|@bindir@|$(PREFIX)/bin|; /^# /d' deploy/systemd/presenced.service >$(into)/lib/systemd/system/presenced.service
	sed '/^Description=/s/$$/ (%i)/; s|^Environment=PRESENCE_CONFIG=.*|&\nEnvironmentFile=/etc/presence/%i.env|' \
	  $(into)/lib/systemd/system/presenced.service >$(into)/lib/systemd/system/presenced@.service
	install -m 644 deploy/systemd/presence.sysusers $(into)/lib/sysusers.d/presence.conf
	install -m 644 LICENSE README.md CHANGELOG.md deploy/RUNBOOK.md deploy/debian/copyright $(into)/share/doc/presence
	install -m 644 $(BUILD)/share/presence.conf $(into)/share/doc/presence/examples/presence.conf
	install -m 644 deploy/redis/presence.conf $(into)/share/doc/presence/examples/redis.conf
	install -m 644 deploy/prometheus/*.yml deploy/grafana/presence.json $(into)/share/doc/presence/examples

ifneq ($(and $(SYSTEM_LIBS),$(filter deb,$(MAKECMDGOALS))),)
$(error the Debian package is built with the pinned libraries, not with SYSTEM_LIBS=1)
endif
deb: $(programs) $(shared_files) ## builds a Debian package in build/deb
	+BUILD=$(BUILD) SOURCE_DATE_EPOCH=$(source_date) deploy/debian/build
