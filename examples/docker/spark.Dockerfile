# An image for Spark on Kubernetes: Spark's own, whose entry point starts executors, with mdstorm.
#
#   docker build --file examples/docker/spark.Dockerfile --tag registry.example.org/mdstorm-spark:0.1.0 .
ARG SPARK=4.0.1-scala2.13-java17-python3-ubuntu

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM apache/spark:${SPARK}
ARG EXTRAS=s3
USER 0
# hadolint ignore=DL3013
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip3 install --no-cache-dir --find-links /wheels "mdstorm[${EXTRAS}]" "pandas>=2.2"
ENV PATH="/opt/spark/bin:${PATH}"
USER 185
