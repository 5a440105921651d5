# `lacuna serve`. Build, for CPUs: docker build -t lacuna .   Run, reachable from this machine alone:
#
#   docker run --rm -p 127.0.0.1:8080:8080 -e LACUNA_MODEL=mini-llada -e LACUNA_API_KEY=secret lacuna
#
# With CUDA: docker build --build-arg CUDA=ON -t lacuna-cuda .   Run: the same with --gpus all, which needs NVIDIA's container
# toolkit. The image has no CUDA libraries: cudart is linked statically, and the driver is the host's.
#
# Every flag of `lacuna serve` has a variable: --max-running is LACUNA_MAX_RUNNING. docs/guide/deploy.md has the rest.
FROM debian:12-slim AS build
ARG CUDA=OFF
WORKDIR /src
COPY scripts/bootstrap scripts/nvcc scripts/
# hadolint ignore=DL3008
RUN scripts/bootstrap \
    && apt-get install -y --no-install-recommends dpkg-dev file \
    && if [ "$CUDA" = ON ]; then scripts/bootstrap wheel && scripts/nvcc /opt/nvcc > /opt/nvcc_path; fi \
    && rm -rf /var/lib/apt/lists/*
COPY . .
RUN if [ "$CUDA" = ON ]; then PATH="$(cat /opt/nvcc_path):$PATH"; fi \
    && cmake --preset release -DLACUNA_CUDA="$CUDA" \
    && cmake --build --preset release \
    && cmake -E chdir build/release cpack -G DEB

FROM debian:12-slim
COPY --from=build /src/build/release/lacuna_*.deb /tmp/
# The package names the libraries that the program links.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates /tmp/lacuna_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/lacuna_*.deb \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/lacuna lacuna
USER 10001
# Models that `lacuna pull` fetches: mount a volume here to keep them.
ENV HF_HOME=/var/lib/lacuna/huggingface \
    LACUNA_HOST=0.0.0.0 \
    LACUNA_PORT=8080 \
    LACUNA_MODEL=mini-llada \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
EXPOSE 8080
# A model of several gigabytes takes minutes to load.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10m --retries=3 \
  CMD ["bash", "-c", "exec 3<> /dev/tcp/127.0.0.1/$LACUNA_PORT; printf 'GET /ready HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n 1 <&3 | grep -q ' 200 '"]
# Requests that run may finish after SIGTERM: docker stop --time 15.
ENTRYPOINT ["lacuna"]
CMD ["serve"]
