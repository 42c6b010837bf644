# tests/ops: what operators get (rules, dashboard, manifests, packages), checked with the debug build's tables.
ops_programs := $(patsubst %.py,build/debug/%,$(wildcard tests/ops/test_*.py))
build/debug/tests/ops/%: tests/ops/%.py
	@mkdir -p $(@D) && cp $< $@ && chmod +x $@
.PHONY: ops-ready
ops-ready: $(ops_programs)
	@deploy/local/setup ops
	@rm -rf build/debug/ops-root
	@$(MAKE) --no-print-directory DEBUG=1 deb install DESTDIR=$(CURDIR)/build/debug/ops-root PREFIX=/opt/presence >build/debug/ops-ready.log 2>&1 || \
	  { tail -n 20 build/debug/ops-ready.log >&2; exit 1; }

# tests/package: the Debian package in a bare Debian; only in test-all.
package_programs := $(patsubst %.py,build/debug/%,$(wildcard tests/package/test_*.py))
build/debug/tests/package/%: tests/package/%.py
	@mkdir -p $(@D) && cp $< $@ && chmod +x $@
.PHONY: package-ready
package-ready: ops-ready $(package_programs)
	@deploy/local/setup package
