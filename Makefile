# Two commands are the whole set-up on a fresh Debian 12 or 13: make demo, make test. Each target installs what it needs (tools/setup.sh).
BUILD ?= build

.PHONY: all build tests demo test bench soak debian12 debian13 cross deb deb-check sanitize tidy format cppcheck
.PHONY: clang-tidy clean
all: build
build:
	@tools/setup.sh build
	@[ -f $(BUILD)/build.ninja ] || { said=$$(meson setup $(BUILD)) || { echo "$$said"; exit 1; }; }
	@ninja -C $(BUILD) --quiet
# The same with warnings as errors and with what is built only where its packages are: a build folder that is there already is
# set up once more. What only tests need is not in "all" since Meson 1.7.
tests:
	@tools/setup.sh build test
	@said=$$(meson setup $$([ ! -f $(BUILD)/build.ninja ] || echo --reconfigure) -Dwerror=true $(BUILD)) || { echo "$$said"; exit 1; }
	@ninja -C $(BUILD) --quiet all meson-test-prereq
demo: build
	@tools/setup.sh demo
	@tools/demo.sh $(BUILD)
test: tests
	@tools/test.sh $(BUILD)
bench: build
	@tools/setup.sh demo
	@tests/perf/bench.sh $(BUILD)
sanitize:
	@tools/setup.sh build test
	@tools/sanitize.sh $(BUILD)-sanitize
cross:
	@tools/setup.sh build test
	@tools/cross.sh $(BUILD)-arm
# make demo and make test on a machine with nothing but a minimal Debian; tools/clean_root.sh says how, and when it is skipped,
# which is no failure (77).
debian12:
	@tools/clean_root.sh bookworm || [ $$? = 77 ]
debian13:
	@tools/clean_root.sh trixie || [ $$? = 77 ]
# Debian packages into $(BUILD)-deb; deb-check installs and removes those: in a root that nobody needs,
# tools/deb_roots.sh makes one.
deb:
	@tools/setup.sh build deb
	@tools/deb.sh $(BUILD)-deb
deb-check:
	@tests/deb/check.sh $(BUILD)-deb
soak: tests
	@tools/setup.sh soak
	@ninja -C $(BUILD) --quiet meson-benchmark-prereq
	@meson test -C $(BUILD) --no-rebuild --benchmark --suite soak --print-errorlogs
tidy:
	@python3 tools/tidy.py
format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i
cppcheck:
	@tools/cppcheck.sh
clang-tidy:
	@tools/setup.sh build
	@tools/clang_tidy.sh $(BUILD)-clang
clean:
	@rm -rf $(BUILD) $(BUILD)-*
