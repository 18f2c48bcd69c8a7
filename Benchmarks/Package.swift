// swift-tools-version: 6.2
import PackageDescription

// The programs that the broker is compared with. They use the same libraries, but have none of the broker's work. They are a
// separate package, so that the broker's package does not contain them.
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
