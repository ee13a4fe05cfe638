# syntax=docker/dockerfile:1
# One image for the head and the workers of a cluster on Kubernetes:
#
#     docker build -t REGISTRY/vse:0.2.0 .                                 torch with CUDA, as pip's default index has it
#     docker build --build-arg ACCELERATOR=cpu --secret id=pip,src=pip.conf -t REGISTRY/vse:0.2.0-cpu .
#
# The secret is a pip.conf of your own. It names the index that has torch for CPUs, a mirror, or nothing.
# docs/operations/kubernetes.md says more.
FROM debian:bookworm-slim

ARG ACCELERATOR=cuda
# extras of pyproject.toml, with commas, such as optuna,encoders
ARG EXTRAS=optuna,encoders
ENV PATH=/opt/vse/bin:$PATH LANG=C.UTF-8 PYTHONUNBUFFERED=1 \
    RAY_USAGE_STATS_ENABLED=0 VSE_CACHE=/var/cache/vse

# wget is what KubeRay's probes of a Ray container call.
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends ca-certificates python3 python3-venv wget && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --uid 1000 --create-home --shell /bin/bash vse && \
    install -d -o vse -g vse /var/cache/vse && \
    python3 -m venv /opt/vse

# Dependencies first: they are gigabytes, and a change of the code leaves their layer as it is. A package without code
# stands in for this one.
WORKDIR /srv/vse
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    mkdir -p platform/vse jobs search_spaces && echo '__version__ = "0"' > platform/vse/__init__.py && \
    python -m pip install --quiet --no-cache-dir --disable-pip-version-check -c constraints.txt ".${EXTRAS:+[$EXTRAS]}" && \
    python -m pip uninstall --quiet --yes vse-platform && rm -rf platform jobs search_spaces build

# A build that asked for one kind of torch does not end with the other.
RUN ACCELERATOR="$ACCELERATOR" python -c "import os, sys, torch; wanted = os.environ['ACCELERATOR']; \
    built = 'cuda' if torch.version.cuda else 'cpu'; \
    sys.exit(None if wanted == built else f'ACCELERATOR={wanted}: pip installed torch {torch.__version__}, which is for {built}')"

COPY platform platform
COPY jobs jobs
COPY search_spaces search_spaces
COPY monitoring monitoring
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps -c constraints.txt . && \
    rm -rf build && vse --version && ray --version

USER vse
WORKDIR /home/vse
CMD ["vse", "--help"]
