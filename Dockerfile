# The image of config/stack.yml, for those with a registry: docker build -t REGISTRY/swarmstats:0.1.0 .
# (`./dev image` makes the same without one, from this machine's own build.)
FROM rust:1.88-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bins

FROM debian:bookworm-slim
COPY --from=build /src/target/release/collectord /src/target/release/shipper /src/target/release/docker-swarmstats /usr/local/bin/
# The API of a collector or router, its metrics, a shipper's metrics, a shipper's API.
EXPOSE 7770 7771 7772 7773
# Whoever runs the shipper gives it the rights it needs: see config/stack.yml.
USER 65534:65534
CMD ["collectord"]
