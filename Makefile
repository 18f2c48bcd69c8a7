# The commands of this project. `make help` lists them.

FLAGS := --explicit-target-dependency-import-check error

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

.PHONY: run
run: ## Build, start broker and sandbox on free ports, print curl lines and the playground's address; Ctrl-C stops both
	@scripts/run

.PHONY: test
test: ## Everything: debug build and tests, lint, release build, black-box tests, fuzzed contract
	@scripts/test

.PHONY: simulate
simulate: ## Simulate the broker over SEEDS=1000, or replay SEED=n and print what happens
	@scripts/setup build
	@scripts/simulate $(if $(SEED),seed $(SEED),$(or $(SEEDS),1000))

.PHONY: mutants
mutants: ## Plant the faults of Tests/mutants/list.toml (ONLY=name), and print which tests see each
	@scripts/setup build
	@python3 Tests/mutants/run.py $(if $(ONLY),--only '$(ONLY)')

.PHONY: build
build: ## Build everything (debug), tests included, with the import check
	@scripts/setup build
	swift build --build-tests $(FLAGS)

.PHONY: release
release: ## Build the release binaries with exactly the container's flags
	@scripts/setup build
	@scripts/build-release

.PHONY: prove-container
prove-container: ## Build the Dockerfile without a daemon (as root, with buildah), and run its images
	@scripts/setup test
	@scripts/prove-container build
	@scripts/prove-container run

.PHONY: prove-upgrade
prove-upgrade: ## Upgrade from the release before this one and back, under traffic (builds that one once)
	@scripts/setup test
	@scripts/prove-upgrade

.PHONY: prove-postgresql
prove-postgresql: ## Run the store's suites and the replicas' scenario on PostgreSQL 15, 17 and 18 (VERSIONS="15 18" chooses)
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@swift build --build-tests $(FLAGS)
	@COATCHECK=$(CURDIR)/.build/dist/coatcheck COATCHECK_SANDBOX=$(CURDIR)/.build/dist/coatcheck-sandbox scripts/prove-postgresql $(VERSIONS)

.PHONY: prove-patroni
prove-patroni: ## Kill the leader of a Patroni cluster of three nodes under load, KILLS=20 times (wants the machine for itself)
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@COATCHECK=$(CURDIR)/.build/dist/coatcheck COATCHECK_SANDBOX=$(CURDIR)/.build/dist/coatcheck-sandbox \
	    .venv/bin/python Tests/scenarios/apart/patroni.py --kills $(or $(KILLS),20)

.PHONY: prove-outbox-pace
prove-outbox-pace: ## Revoke ROWS=10000 tokens at a fast provider, next to sign-ins and a failing provider (wants the machine for itself)
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@COATCHECK=$(CURDIR)/.build/dist/coatcheck COATCHECK_SANDBOX=$(CURDIR)/.build/dist/coatcheck-sandbox \
	    .venv/bin/python Tests/scenarios/apart/outbox-pace.py

.PHONY: prove-moving-in
prove-moving-in: ## Let PHONES=10000 phones move in at three replicas, which are killed in turns (wants the machine for itself)
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@COATCHECK=$(CURDIR)/.build/dist/coatcheck COATCHECK_SANDBOX=$(CURDIR)/.build/dist/coatcheck-sandbox \
	    .venv/bin/python Tests/scenarios/apart/moving-in.py

.PHONY: prove-small-chunks
prove-small-chunks: ## Send bodies of one-byte chunks from an address, a /56 and a /48, and read the memory (wants the machine for itself)
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@COATCHECK=$(CURDIR)/.build/dist/coatcheck COATCHECK_SANDBOX=$(CURDIR)/.build/dist/coatcheck-sandbox \
	    .venv/bin/python Tests/scenarios/apart/small-chunks.py

.PHONY: prove-clocks
prove-clocks: ## Move a machine's clock for three weeks: with all evidence of the time, with providers' Date alone, with none
	@scripts/setup build
	@swift test $(FLAGS) --disable-xctest --enable-swift-testing --filter ThreeWeeksTests 2>&1 | tee .build/clocks.log
	@grep -qE 'Test run with [1-9].* passed' .build/clocks.log

.PHONY: dist
dist: ## Pack binaries, documents, deploy/ and a bill of materials into an archive, and the images into another, the same bytes each time
	@scripts/setup build
	@scripts/dist

.PHONY: deb
deb: ## Build two Debian packages, the broker's and the sandbox's, in .build/deb
	@scripts/setup build
	@scripts/build-release
	@scripts/deb

.PHONY: prove-images
prove-images: ## Make the archives of `make dist` from the release build, and run the images' by its page's commands (as root, with podman)
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@scripts/dist .build/dist
	@Tests/scenarios/apart/image-archive.sh .build/archive

.PHONY: prove-deb
prove-deb: ## Install, use, upgrade, remove and purge the Debian packages on a booted, bare Debian; run lintian on them
	@scripts/setup test
	@[ -x .build/dist/coatcheck ] || scripts/build-release
	@Tests/scenarios/apart/debian-package.sh .build/dist

.PHONY: bench
bench: ## Measure side by side with nginx, Apache and pgbench; prints ratios
	@scripts/bench

.PHONY: soak
soak: ## Keep the release build under load for SOAK_MINUTES=30; fails on growth or a leak
	@scripts/soak

.PHONY: chaos
chaos: ## Kill replicas, PostgreSQL and the provider under load (CHAOS_SECONDS=120); counts what must be zero
	@scripts/chaos

.PHONY: lint
lint: ## Check house rules and format
	@scripts/lint

.PHONY: format
format: ## Format the sources in place
	swift format --in-place --recursive --parallel Sources Plugins Tests Package.swift clients/swift/Package.swift clients/swift/Sources clients/swift/Tests examples/swiftui/Package.swift examples/swiftui/Sources

.PHONY: fuzz
fuzz: ## Fuzz the parsers (FUZZ_RUNS=1000000 each, FUZZ_SECONDS=60 at most)
	@scripts/fuzz

.PHONY: sanitize
sanitize: ## Run our own modules' tests under ThreadSanitizer and AddressSanitizer (builds of their own)
	@scripts/sanitize
