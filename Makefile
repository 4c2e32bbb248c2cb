# make help lists the targets. One set of build flags everywhere: another set
# would compile the model clients and SQLite once more.
TAGS := sqlite_omit_load_extension,netgo,osusergo
export GOFLAGS := -buildvcs=false -trimpath -tags=$(TAGS)
export CGO_ENABLED := 1

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL := go tool -modfile=tools.mod
FUZZTIME ?= 20s
with = -tags=$(TAGS),$(1)

.DEFAULT_GOAL := build
.PHONY: build test lint fmt check demo bench fuzz soak help

build: ## bin/rally
	go build -ldflags '$(LDFLAGS)' -o bin/rally ./cmd/rally

# crashtest adds a hook to the session file that ends the process at a chosen
# write, and the tests that use it.
test: ## all tests with the race detector; no network
	$(TOOL) gotestsum --format=pkgname-and-test-fails -- -race -timeout=10m -tags=$(TAGS),crashtest ./...

lint: ## linters, and that everything is formatted
	$(TOOL) golangci-lint run ./...
	$(TOOL) golangci-lint fmt --diff ./...

fmt: ## format in place
	$(TOOL) golangci-lint fmt ./...

check: build lint test ## what CI runs, and the build

demo: build ## the scripted tour with its parts visible, then its session exported
	@PATH="$(CURDIR)/bin:$$PATH" ./testdata/demo.sh

bench: ## benchmarks; keep what they say in docs/bench.md
	go test -run=NONE -bench=. -benchmem -count=$(or $(COUNT),1) ./...

fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$(go list ./...); do \
	  for target in $$(go test -list='^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; go test -run=NONE -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) $$pkg; \
	  done; done

soak: ## long tests: kill -9 at random moments of long turns
	go test -tags=$(TAGS),soak -run=Soak -timeout=60m -v ./internal/session/loop

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
