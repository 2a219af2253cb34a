# A worker on an NVIDIA GPU. The kernels are compiled on their first use: hence nvcc.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04

RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv python3-dev build-essential ninja-build \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /venv
ENV PATH=/venv/bin:$PATH

WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY agentserve agentserve
RUN pip install --no-cache-dir '.[engine]'

ENTRYPOINT ["agentserve"]
CMD ["--help"]
