# syntax=docker/dockerfile:1
# Two stages: the first has uv and installs the locked dependencies into one folder, the second gets only that folder.
# The base is named by a tag, so that a build has Debian's latest security updates. Who wants the very same base each time
# gives its digest: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:…
ARG PYTHON=python:3.11-slim-bookworm

FROM docker.io/library/${PYTHON} AS build
ARG UV_VERSION=0.13.8
# Of its wheels for x86-64 and ARM; a newer UV_VERSION needs its own: `pip download` it, and `pip hash` says them.
ARG UV_HASHES="--hash=sha256:e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984 \
--hash=sha256:0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d"
RUN echo "uv==${UV_VERSION} ${UV_HASHES}" > /tmp/uv.txt \
 && python3 -m venv /opt/uv \
 && /opt/uv/bin/pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r /tmp/uv.txt
ENV UV_PROJECT_ENVIRONMENT=/opt/turnmill UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /src
# Compiles the core; only what comes out of it gets into the second stage.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
# Dependencies first: this layer stays the same until the lock file changes. Wheels only.
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY pipeline/pyproject.toml pipeline/
RUN /opt/uv/bin/uv sync --frozen --no-dev --extra gateway --extra archive --extra otlp --no-install-workspace --no-cache --python "$(command -v python3)"
COPY turnmill ./turnmill
COPY topics ./topics
COPY pipeline ./pipeline
COPY compiled_core.py ./
RUN HATCH_BUILD_HOOKS_ENABLE=1 /opt/uv/bin/uv sync --frozen --no-dev --extra gateway --extra archive --extra otlp --no-editable --no-cache
# Parts of pyarrow that nothing here imports: a fifth of all.
RUN cd /opt/turnmill/lib/python3*/site-packages/pyarrow \
 && rm -rf include src tests libarrow_flight.so* libarrow_substrait.so* _flight.* _substrait.*

FROM docker.io/library/${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="turnmill" \
      org.opencontainers.image.description="Turns the streams of AI agents into complete, canonical conversations." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/turnmill/turnmill" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 10001 turnmill \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/turnmill --shell /usr/sbin/nologin turnmill \
 && install -d -o 10001 -g 10001 /var/lib/turnmill
COPY --from=build /opt/turnmill /opt/turnmill
ENV PATH=/opt/turnmill/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TURNMILL_HOME=/var/lib/turnmill TURNMILL_CACHE=/var/lib/turnmill/cache \
    TURNMILL_HOST=0.0.0.0 TURNMILL_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/turnmill
EXPOSE 6066 8080
# A worker's port; compose.yaml has the gateway's. Kubernetes has probes of its own and ignores this.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
  CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:6066/livez', timeout=4)"]
ENTRYPOINT ["turnmill"]
CMD ["worker"]
