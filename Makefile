# Two commands are the whole set-up on a fresh Debian 12: make demo, make test. Both install what is missing (tools/setup.sh).
BUILD ?= build

.PHONY: all setup build demo test bench soak cross sanitize tidy format cppcheck clang-tidy clean
all: build
setup:
	@tools/setup.sh
build: setup
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) >/dev/null
	@ninja -C $(BUILD) --quiet
demo: build
	@tools/demo.sh $(BUILD)
test: build
	@tools/test.sh $(BUILD)
bench: build
	@tests/perf/bench.sh $(BUILD)
sanitize: setup
	@tools/sanitize.sh $(BUILD)-sanitize
cross: setup
	@tools/cross.sh $(BUILD)-arm
soak: build
	@meson test -C $(BUILD) --no-rebuild --benchmark --suite soak --print-errorlogs
tidy:
	@python3 tools/tidy.py
format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i
cppcheck:
	@tools/cppcheck.sh
clang-tidy: setup
	@tools/clang_tidy.sh $(BUILD)-clang
clean:
	@rm -rf $(BUILD) $(BUILD)-*
