# Two commands are the whole set-up on a fresh Debian 12: make demo, make test. Both install what is missing (tools/setup.sh).
BUILD ?= build

.PHONY: all setup build demo test bench soak sanitize tidy format cppcheck clang-tidy clean
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
soak: build
	@meson test -C $(BUILD) --no-rebuild --benchmark --suite soak --print-errorlogs
tidy:
	@python3 tools/tidy.py
format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i
cppcheck:
	@cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr --suppressions-list=tools/cppcheck.txt \
		--std=c11 -D_GNU_SOURCE -Isrc -Iinclude src
clang-tidy: build
	@run-clang-tidy -quiet -p $(BUILD) 'src/.*\.c'
clean:
	@rm -rf $(BUILD) $(BUILD)-*
