# The benchmark. tests/bench/bench_scripts.c drives the scripts without the service.

$(BUILD)/bench_%: $(BUILD)/obj/tests/bench/bench_%.o $(library)
	$(link)

.PHONY: bench
bench: $(programs) $(BUILD)/bench_scripts ## the service beside webdis and nginx, and beside the bare scripts; BENCH="--rounds 5"
	@deploy/local/setup servers bench
	@exec tests/bench/run --build $(BUILD) $(BENCH)
