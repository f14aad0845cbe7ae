# Thin by design: the logic is in tools/dev.py. `make help` lists the targets.
.PHONY: help quickstart test test-fast lint types generate soak fuzz clean distclean
.DEFAULT_GOAL := help
export PYTHON

help:       ## list the targets
	@grep -E '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+): *## /  make \1\t/' | expand -t 20

quickstart: ## install everything, train on digits, validate the backends
	@tools/run $@

test:       ## lint, types and all tests, with all set-up
	@tools/run $@

test-fast:  ## ruff and a choice of the tests, for while you work
	@tools/run $@

lint:       ## ruff
	@tools/run $@

types:      ## mypy --strict
	@tools/run $@

generate:   ## functions, stubs and reference from the operator records
	@tools/run $@

soak:       ## ten minutes of everything at once; memory must not grow
	@tools/run $@

fuzz:       ## random calls against references, a minute long
	@tools/run $@

clean:      ## remove caches and build outputs
	@tools/run $@

distclean:  ## clean, and remove the virtual environments
	@tools/run $@
