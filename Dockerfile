# syntax=docker/dockerfile:1
# There are two stages: the toolchain builds with scripts/build-release, and a bare Debian gets the stripped binaries.

FROM swift:6.3.1-bookworm AS build
# The libraries come from the distribution, which updates them with security patches. Fixed versions would prevent these
# updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libssl-dev zlib1g-dev libsqlite3-dev libpq-dev pkg-config binutils \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# The dependencies first: they change less often than our sources.
COPY Package.swift ./
RUN swift package resolve
COPY Sources Sources
COPY Tests Tests
COPY clients/swift/Sources clients/swift/Sources
COPY Plugins Plugins
COPY openapi.yaml openapi.yaml
COPY scripts/build-release scripts/build-release
COPY scripts/embed scripts/embed
RUN scripts/build-release /out

FROM debian:12.11-slim AS run
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libssl3 libpq5 libsqlite3-0 zlib1g ca-certificates tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin coatcheck \
    && install -d -o coatcheck -g coatcheck -m 0700 /var/lib/coatcheck \
    && install -d -o root -g coatcheck -m 0750 /etc/coatcheck

FROM run AS sandbox
COPY --from=build /out/coatcheck-sandbox /usr/local/bin/coatcheck-sandbox
USER 10001
ENTRYPOINT ["coatcheck-sandbox"]
CMD ["--listen", "127.0.0.1:8089"]

FROM run AS coatcheck
COPY --from=build /out/coatcheck /usr/local/bin/coatcheck
COPY deploy/coatcheck.reference.yaml /usr/share/doc/coatcheck/coatcheck.reference.yaml
USER 10001
WORKDIR /var/lib/coatcheck
VOLUME ["/var/lib/coatcheck"]
# In a container both listeners take 0.0.0.0 (`server.listen`, `management.listen`); publish the management port nowhere.
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["coatcheck", "health", "--config", "/etc/coatcheck/coatcheck.yaml"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["coatcheck"]
CMD ["serve", "--config", "/etc/coatcheck/coatcheck.yaml"]
