# The image of the operator. `.ci/replay_dockerfile.py` replays each RUN step without Docker; it knows the
# instructions used here and refuses others. Paths in RUN steps are relative, so that a step runs in any folder.

FROM python:3.14-slim-trixie AS build
WORKDIR /src
COPY requirements/build.txt requirements/
RUN pip install --no-cache-dir --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
COPY manifests/components/ownership manifests/components/ownership
COPY manifests/components/device-maintenance manifests/components/device-maintenance
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist .

# `--target bridge` is the image of the node agent (docs/bridge.md).
FROM python:3.14-slim-trixie AS bridge
WORKDIR /app
COPY requirements/bridge.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement bridge.txt
COPY --from=build /src/dist dist
RUN pip install --no-cache-dir --no-deps dist/*.whl && rm -r dist bridge.txt
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The kubelet's folders, in which it makes sockets, are root's.
USER 0:0
EXPOSE 8081
ENTRYPOINT ["dra-bridge"]
CMD ["run"]

FROM python:3.14-slim-trixie
WORKDIR /app
COPY requirements/run.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement run.txt
COPY --from=build /src/dist dist
RUN pip install --no-cache-dir --no-deps dist/*.whl && rm -r dist run.txt
# Log lines unbuffered, and no .pyc files next to the code: the root file system may be read-only.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that the kubelet can check that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["dra-operator"]
CMD ["run"]
