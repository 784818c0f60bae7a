# The lab's targets. Each does its work through a script that also runs alone; make only orders them.
SCENARIO ?= smoke
SESSION_S ?=
SUITES ?=
REPS ?=
OUT ?=
SHELL := /bin/sh
LAB ?= 1
export LAB PQLAB_YES BASE_IMAGE INFLUXDB_IMAGE TELEGRAF_IMAGE SITL_BINARY SITL_DEFAULTS

.DEFAULT_GOAL := help
.PHONY: help engine venv ansible-venv labgrid-venv images keys lab-up lab-status lab-down purge run report verify archive test test-fast test-pages test-windows test-arm64 lint bench bench-doc pi-emulated artifacts-windows artifacts-arm64 platforms locks clean model detectors

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  variables: LAB (1 to 4) SCENARIO SESSION_S SUITES (glob) REPS OUT BENCH; BASE_IMAGE INFLUXDB_IMAGE TELEGRAF_IMAGE SITL_BINARY SITL_DEFAULTS PQLAB_YES'

engine:
	@./bootstrap.sh engine

venv: ## make .venv, the host side's Python
	@./bootstrap.sh venv

ansible-venv: ## make .venv-ansible, what ansible-playbook runs from
	@./bootstrap.sh ansible-venv

labgrid-venv: ## make .venv-labgrid, what holds places of a shared rack (docs/PLACES.md)
	@./bootstrap.sh labgrid-venv

images: engine ## build every image whose inputs changed
	@./images/build.sh

keys: ## make the identities of both ends and of the controller (kept if there)
	@./pqtunnel keys

lab-up: engine venv ## bring the lab up, from nothing if need be
	@./compose/lab.sh free
	@./images/build.sh base liboqs ascon influxdb telegraf sitl tunnel
	@test -f keys/complete || ./pqtunnel keys
	@./compose/lab.sh up

lab-status: ## show the services and their addresses
	@./compose/lab.sh status

lab-down: ## take the lab down: no container, network or volume stays
	@./compose/lab.sh down

purge: ## take every lab down, then remove images, .venv and whatever lab-up installed
	@for lab in 1 2 3 4; do LAB=$$lab ./compose/lab.sh down || exit; done
	@./bootstrap.sh purge

run: ## run SCENARIO to a sealed bundle and its report (brings the lab up when it is down)
	@./compose/lab.sh is-up || { ./compose/lab.sh free && echo 'the lab is down: bringing it up first' && $(MAKE) --no-print-directory lab-up; }
	@./pqlab run $(SCENARIO) $(if $(SESSION_S),--session-s $(SESSION_S)) $(if $(SUITES),--suites '$(SUITES)') $(if $(REPS),--reps $(REPS)) $(if $(OUT),--out $(OUT))

report: ## write the report of the newest bundle again (OUT: where)
	@./pqlab report $(if $(OUT),--out $(OUT))

verify: ## check the newest bundle (OUT: of that results folder)
	@./pqlab verify $(if $(OUT),--out $(OUT))

archive: ## write the newest bundle to results/RUN_ID.tar.zst (OUT: another file)
	@./pqlab archive $(if $(OUT),--out $(OUT))

lint: images ## ruff, mypy --strict, shellcheck, yamllint, ansible-lint
	@.ci/in-image .ci/lint

test-fast: images ## lint and the unit tests that take little time, in the test image (some two minutes)
	@.ci/in-image .ci/lint
	@.ci/in-image .ci/unit --fast

test: engine venv ## lint and all unit tests, the pages in a browser, then the lab end to end on this machine
	@.ci/whole

test-pages: images ## reports and the live view in headless Chromium, the docs' example with pandas
	@./images/build.sh test browser
	@.ci/pages

test-windows: engine ## unit tests of what a Windows station runs, in Windows' own CPython under wine (some minutes)
	@./images/build.sh base windows-test
	@.ci/unit-windows

bench: engine ## the tunnel beside its peers, in namespaces of its own (BENCH=tiny|default|full; default about 11 minutes)
	@./images/build.sh base liboqs ascon tunnel bench
	@./bench/run $(or $(BENCH),default)

bench-doc: ## write the newest bench run's figures into docs/PEERS.md
	@./bench/document

model: images ## search the protocol's symbolic models for attacks (some minutes)
	@./tunnel/model/check.sh

detectors: engine ## train and evaluate all detectors, write models, results and the tables of docs/DETECTORS*.md (about an hour)
	@./images/build.sh base detector-train
	@./pqdetect train
	@./pqdetect evaluate
	@./pqdetect document

pi-emulated: engine ## the power sampler on a real I²C bus in an emulated machine (≤ 10 minutes, cold)
	@./emulated-pi/run

artifacts-windows: engine ## cross-build and check liboqs.dll and the wheels for Windows, into artifacts/windows-amd64
	@./images/build.sh base windows
	@./images/windows/export

ARM64 := tunnel sitl detector-xgboost detector-tst telegraf

artifacts-arm64: engine ## cross-build the drone's services for a Raspberry Pi, into artifacts/linux-arm64
	@./images/build.sh $(addsuffix -arm64,$(ARM64))
	@./images/export --platform linux/arm64 $(ARM64)

test-arm64: engine ## known answers and unit tests on arm64, by QEMU's user mode
	@.ci/unit-arm64

platforms: engine venv ## one campaign between an emulated arm64 drone and a Windows ground station (wine): function, no times
	@./platforms/run

locks: venv ## write requirements/*.txt again from the *.in files
	@requirements/lock.sh

clean: ## remove caches and logs; keys, results and .venv stay
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
	@rm -rf .state .mypy_cache .ruff_cache .pytest_cache .hypothesis
