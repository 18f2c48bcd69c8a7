FLAGS := --explicit-target-dependency-import-check error

.PHONY: build
build: ## Build everything (debug), tests included
	swift build --build-tests $(FLAGS)
