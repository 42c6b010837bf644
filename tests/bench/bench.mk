# The benchmark. bench_scripts drives the scripts without the service, bench_mqtt a broker;
# bench_http is presenced but for one object.

$(BUILD)/bench_%: $(BUILD)/obj/tests/bench/bench_%.o $(library)
	$(link)
$(BUILD)/bench_http: $(call object,service/main.c tests/bench/bench_http.c) $(library)
	$(link)

# They set up their servers as tests do.
$(patsubst %,$(BUILD)/tests/bench/bench_%,reads outbox webhooks): $(BUILD)/tests/bench/%: $(BUILD)/obj/tests/bench/%.o \
  $(support_objects) $(library)
	$(call quiet,LD,$@)mkdir -p $(@D) && $(CC) $(link_flags) $(wrapped) -o $@ $(filter %.o %.a,$^) -lcmocka $(dependency_libs)

.PHONY: bench bench-check bench-reads
bench-reads: $(programs) $(BUILD)/tests/bench/bench_reads ## how long lists and other questions take; DEVICES=100000 LIMIT_MS=20
	@deploy/local/setup servers
	@PRESENCE_BUILD_DIR=$(CURDIR)/$(BUILD) PRESENCE_ROOT=$(CURDIR) $(BUILD)/tests/bench/bench_reads
.PHONY: bench-outbox
bench-outbox: $(programs) $(BUILD)/tests/bench/bench_outbox ## a burst of transitions to a polling consumer, rates of append, poll, claim; ROWS=50000 LIMIT_MS=3000
	@deploy/local/setup servers
	@PRESENCE_BUILD_DIR=$(CURDIR)/$(BUILD) PRESENCE_ROOT=$(CURDIR) $(BUILD)/tests/bench/bench_outbox

.PHONY: bench-webhooks
bench-webhooks: $(programs) $(BUILD)/tests/bench/bench_webhooks ## events a second to one webhook and to ten; EVENTS=10000 for each
	@deploy/local/setup servers
	@PRESENCE_BUILD_DIR=$(CURDIR)/$(BUILD) PRESENCE_ROOT=$(CURDIR) $(BUILD)/tests/bench/bench_webhooks

bench_programs := $(programs) $(patsubst %,$(BUILD)/bench_%,scripts mqtt http)
bench_setup = deploy/local/setup servers bench && { deploy/local/setup bench-npm || true; }
bench: $(bench_programs) ## the service beside webdis, etcd, mosquitto, Fastify, nginx and the bare scripts; BENCH="--rounds 5 --lanes single,webdis"
	@$(bench_setup)
	@exec tests/bench/run --build $(BUILD) $(BENCH)

bench-check: $(bench_programs) ## the same, shorter; fails where a ratio is much worse than in tests/bench/ratios
	@$(bench_setup)
	@exec tests/bench/run --build $(BUILD) --rounds 3 --seconds 2 --check tests/bench/ratios \
	  --lanes single,webdis,etcd,nginx,http,batch500,script64 $(BENCH)

.PHONY: bench-scenarios
bench-scenarios: $(programs) $(BUILD)/bench_slowlog ## 10,000 connections, rebuild, detection lag, recount, reconnect storm, 100,000 due at once; BENCH="--only lag,storm"
	@deploy/local/setup servers
	@exec tests/bench/scenarios --build $(BUILD) $(BENCH)

.PHONY: bench-scaling
bench-scaling: $(programs) $(BUILD)/bench_scripts ## cost of a heartbeat against devices, tenants, partitions, fields per bucket; memory; BENCH="--largest 300000"
	@deploy/local/setup servers
	@exec tests/bench/scaling --build $(BUILD) $(BENCH)
