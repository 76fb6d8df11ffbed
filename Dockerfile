# The first answer and the tests on a clean machine, from a checkout:
#   docker build --tag dse .                  installs everything and computes the first answer
#   docker run --rm dse                       prints it again; any other command: docker run --rm dse .venv/bin/dse …
#   docker build --target test .              runs all tests
#   docker build --target cluster --tag REGISTRY/dse .   for the pods of deploy/kuberay-*.yaml
FROM python:3.11-slim AS answer
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libstdc++6 make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /dse
COPY pyproject.toml README.md LICENSE Makefile ./
COPY actors actors
COPY dse dse
COPY hardware hardware
COPY policies policies
RUN make run
CMD [".venv/bin/dse", "codesign", "bert-large"]

FROM answer AS test
# Pages are rendered, too; without a browser those tests are skipped.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends chromium \
 && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make test

# KubeRay starts Ray by its name and asks with wget whether it is well.
FROM answer AS cluster
RUN apt-get update \
 && apt-get install --yes --no-install-recommends wget \
 && rm -rf /var/lib/apt/lists/*
ENV PATH=/dse/.venv/bin:$PATH

# The last stage is what is built by default.
FROM answer
