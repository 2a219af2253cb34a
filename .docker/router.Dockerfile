# Router, program hosts and, without a GPU, workers: what requirements/cpu.txt locks.
# It is not small: program hosts run programs in SGLang's frontend, which comes with torch.
FROM python:3.11-slim-bookworm

WORKDIR /app
COPY requirements/cpu.txt requirements/cpu.txt
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements/cpu.txt

COPY pyproject.toml README.md LICENSE ./
COPY agentserve agentserve
COPY programs programs
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && useradd --create-home --uid 1000 agentserve \
    && mkdir /data /blobs /features \
    && chown agentserve /data /blobs /features

USER agentserve
ENTRYPOINT ["agentserve"]
CMD ["--help"]
