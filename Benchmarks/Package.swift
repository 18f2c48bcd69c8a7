// swift-tools-version: 6.2
import PackageDescription

// The programs that the broker is compared with. They use the same libraries as the broker, but do none of its work. A separate
// package keeps these programs out of the broker's package.
let package = Package(
    name: "benchmarks",
    dependencies: [
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    ],
    targets: [
        .executableTarget(
            name: "BenchPeers",
            dependencies: [
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
            ])
    ]
)
