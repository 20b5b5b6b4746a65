# SPDX-License-Identifier: Apache-2.0
# Two commands for a newcomer: `make demo` and `make check`. Meson does the work; see HACKING.md.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
HOURS ?= 1
SECONDS ?=
SEED ?=
NAME = all

.PHONY: all demo check conformance page page-pictures soak bench ptx install deb rpm image packages vm cluster long cross clean help

all: $(BUILD)/build.ninja
	meson compile -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix=$(PREFIX)

demo:
	tools/setup build
	tools/demo

check:
	tools/setup build check
	tools/check

conformance:
	tools/setup build check conformance
	$(MAKE) all
	tests/conformance/run

page:
	tools/setup build check page
	$(MAKE) all
	tests/page/run --build $(BUILD)

page-pictures:
	tools/setup build check page
	$(MAKE) all
	tests/page/run --build $(BUILD) --pictures doc/images pictures

soak: all
	tests/soak/soak.py --build $(BUILD) $(if $(SECONDS),--seconds $(SECONDS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED))

bench: all
	meson test -C $(BUILD) --no-rebuild --benchmark --verbose

# The texts of the kernels, which lie in the tree; only after a change of their sources (clang 14).
ptx:
	tools/ptx

# Builds as the caller and only copies afterwards, so `sudo make install` compiles nothing as root.
install:
	meson setup $(BUILD) $(if $(wildcard $(BUILD)/build.ninja),--reconfigure) --prefix=$(PREFIX)
	meson compile -C $(BUILD)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

deb:
	tools/setup packages
	tools/deb

rpm:
	tools/setup packages
	tools/rpm

image:
	tools/setup packages
	tools/image

packages:
	tools/setup check packages
	tests/packages/run

vm: deb
	tools/setup vm
	tests/vm/run

cluster:
	tools/setup build check packages cluster
	$(MAKE) all
	tests/cluster/run up
	tests/cluster/run scenario all; status=$$?; tests/cluster/run down && exit $$status

# What takes hours; its records go into doc/measurements.md, to be committed.
long: all
	tools/setup check
	tools/long $(NAME)

cross:
	tools/setup build cross
	tools/cross aarch64

clean:
	rm -rf $(BUILD) build-asan

help:
	@echo 'make               build into $(BUILD)/'
	@echo 'make demo          install what is missing, build, run jobs on the GPUs of this machine or on simulated ones'
	@echo 'make check         all fast tests and house rules, also under sanitizers; at most 15 minutes'
	@echo 'make conformance   programs that others wrote read the simulated machine, speak gRPC, take GPUs (needs the network)'
	@echo 'make page          the web page in chromium (needs the network); make page-pictures makes those of the README'
	@echo 'make soak HOURS=N  a seeded storm; SECONDS=N and SEED=N as well'
	@echo 'make bench         measurements and their gates'
	@echo 'make ptx           the PTX texts of our kernels anew from src/bench/gpu/kernels (clang 14)'
	@echo 'make install       PREFIX=/usr/local DESTDIR='
	@echo 'make deb           the package of Debian, below build/deb'
	@echo 'make rpm           the package of Fedora and RHEL, below build/rpm'
	@echo 'make image         the container image of the service, with podman; an archive below build/image'
	@echo 'make packages      builds the packages and tests them: in a bare Debian 12, as root (needs the network)'
	@echo 'make vm            emulated Debian 12 with systemd: the package, quotas, isolation, a reboot, power cuts, SELinux, RDMA in software; as root (needs the network)'
	@echo 'make cluster       a Kubernetes cluster on this machine with simulated GPUs, and the service on it (root, Go, the network)'
	@echo 'make long NAME=N   the long tests of tests/long/table, each with its record in doc/measurements.md'
	@echo 'make cross         programs and unit tests for aarch64, emulated (the network once)'
	@echo 'make clean         remove the build trees'
