# Two stages: the second holds the binary, its ready-to-run configurations and nothing that was needed to build it.
FROM rust:1.95-slim-trixie AS build
# jemalloc is C and built with make.
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --features jemalloc

FROM debian:trixie-slim
COPY --from=build /src/target/release/rosterd /usr/local/bin/rosterd
WORKDIR /rosterd
COPY config config
USER nobody
# admin, thrift, HTTP and mesh at namerd's default ports; each binds to loopback unless the configuration says otherwise.
EXPOSE 9991 4100 4180 4321
STOPSIGNAL SIGTERM
ENTRYPOINT ["rosterd"]
CMD ["config/quickstart.yaml"]
