// swift-tools-version: 6.2
import PackageDescription

// The import list is the architecture (docs/decisions/0001): a module exists because it alone may import something.
// `make build` checks it with --explicit-target-dependency-import-check error, which also accepts a dependency's dependencies.
// `make lint` compares each target's imports with its declarations here, in both directions.

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]
// An asynchronous function runs on its caller's executor, which avoids a switch at each call (decision 10).
let product: [SwiftSetting] = strict + [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]

let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let hummingbirdTLS: Target.Dependency = .product(name: "HummingbirdTLS", package: "hummingbird")
let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")
let nioCore: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioTLS: Target.Dependency = .product(name: "NIOTLS", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioSSL: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let nioExtras: Target.Dependency = .product(name: "NIOExtras", package: "swift-nio-extras")
let asyncHTTPClient: Target.Dependency = .product(name: "AsyncHTTPClient", package: "async-http-client")
let jwtKit: Target.Dependency = .product(name: "JWTKit", package: "jwt-kit")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let serviceLifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let unixSignals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let yams: Target.Dependency = .product(name: "Yams", package: "Yams")
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
// The C interface of SQLite, as GRDB imports it.
let grdbSQLite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")

let package = Package(
    name: "coatcheck",
    // The platforms of the client library for apps. The programs run on Linux.
    platforms: [.iOS(.v16), .macOS(.v15)],
    products: [
        // The client library for apps. See the end of this file.
        .library(name: "Coatcheck", targets: ["Coatcheck"]),
        .executable(name: "coatcheck", targets: ["coatcheck"]),
        .executable(name: "coatcheck-sandbox", targets: ["coatcheck-sandbox"]),
    ],
    dependencies: [
        .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
        .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/vapor/jwt-kit", exact: "5.7.1"),
        .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    ],
    targets: [
        // Makes the sources that contain openapi.yaml and the playground's page (decision 96).
        .plugin(name: "Embed", capability: .buildTool()),
        // The client library's tests belong to its own package in that folder.
        .target(name: "Coatcheck", path: "clients/swift/Sources/Coatcheck"),
        .systemLibrary(name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CTimex"),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .target(name: "Broker", swiftSettings: product),
        .target(name: "BrokerVault", dependencies: ["Broker", "COpenSSL"], swiftSettings: product),
        .target(name: "BrokerStore", dependencies: ["Broker", "CLibPQ", grdb, grdbSQLite], swiftSettings: product),
        .target(
            name: "BrokerProviders",
            dependencies: [
                "Broker", "CZlib", asyncHTTPClient, nioCore, nioHTTP1, nioSSL, jwtKit, crypto, cryptoExtras,
            ],
            swiftSettings: product),
        .target(
            name: "BrokerRelay",
            dependencies: ["Broker", "BrokerWire", nioCore, nioPosix, nioHTTP1, nioSSL, httpTypes],
            swiftSettings: product),
        .target(
            name: "BrokerWire",
            dependencies: [httpTypes, nioCore, nioPosix, nioHTTP1, nioSSL, nioTLS, nioExtras],
            swiftSettings: product),
        .target(
            name: "BrokerHTTP",
            dependencies: ["Broker", "BrokerWire", "BrokerRelay", httpTypes, nioCore],
            swiftSettings: product),
        .target(
            name: "Sandbox",
            dependencies: [
                hummingbird, hummingbirdTLS, httpTypes, nioCore, nioHTTP1, nioSSL, asyncHTTPClient, jwtKit, crypto,
            ],
            // The sources of the playground's page, which the plugin embeds.
            exclude: ["Playground/Page"],
            swiftSettings: strict, plugins: ["Embed"]),
        .executableTarget(
            name: "coatcheck",
            dependencies: [
                "Broker", "BrokerWire", "BrokerHTTP", "BrokerRelay", "BrokerProviders", "BrokerVault", "BrokerStore",
                "CMalloc", "CTimex", httpTypes, nioCore, nioHTTP1, asyncHTTPClient, nioSSL, argumentParser, yams,
                logging,
                serviceLifecycle, unixSignals,
            ],
            swiftSettings: product, plugins: ["Embed"]),
        .executableTarget(
            name: "coatcheck-sandbox",
            dependencies: ["Sandbox", argumentParser, logging],
            swiftSettings: strict),
        // The shared parts of several modules' tests: the in-memory store, which is for tests only, a movable clock, a wait.
        .target(
            name: "BrokerTestSupport", dependencies: ["Broker", "BrokerStore", crypto], path: "Tests/BrokerTestSupport",
            swiftSettings: product),
        // The deterministic simulation of `Broker`, and the program that runs it with many seeds.
        .target(
            name: "BrokerSimulation", dependencies: ["Broker", "BrokerTestSupport"], path: "Tests/BrokerSimulation",
            swiftSettings: strict),
        .executableTarget(
            name: "simulate", dependencies: ["BrokerSimulation"], path: "Tests/Simulate", swiftSettings: strict),
        // A program that fills stores and measures them through their port (`make bench`).
        .executableTarget(
            name: "store-load", dependencies: ["Broker", "BrokerStore", "BrokerVault"], path: "Tests/StoreLoad",
            swiftSettings: strict),
        .testTarget(
            name: "BrokerSimulationTests", dependencies: ["BrokerSimulation"], swiftSettings: strict),
        .testTarget(
            name: "BrokerTests", dependencies: ["BrokerTestSupport", "Broker", "BrokerStore", "BrokerVault", crypto],
            swiftSettings: strict),
        .testTarget(
            name: "SandboxTests",
            dependencies: ["BrokerTestSupport", "Sandbox", asyncHTTPClient, nioCore, nioHTTP1, crypto],
            swiftSettings: strict),
        .testTarget(
            name: "BrokerWireTests",
            dependencies: ["BrokerWire", httpTypes, nioCore, nioPosix, nioHTTP1, nioSSL],
            swiftSettings: strict),
        .testTarget(name: "BrokerVaultTests", dependencies: ["Broker", "BrokerVault"], swiftSettings: strict),
        .testTarget(
            name: "BrokerStoreTests", dependencies: ["BrokerTestSupport", "Broker", "BrokerStore", grdb],
            swiftSettings: strict),
        .testTarget(
            name: "BrokerProvidersTests",
            dependencies: [
                "BrokerTestSupport", "Broker", "BrokerProviders", "BrokerVault", "Sandbox", asyncHTTPClient, nioCore,
                nioHTTP1,
                jwtKit,
                crypto,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "BrokerRelayTests",
            dependencies: [
                "BrokerTestSupport", "Broker", "BrokerRelay", "BrokerWire", nioCore, nioPosix, nioHTTP1, nioSSL,
                httpTypes,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "BrokerHTTPTests",
            dependencies: [
                "BrokerTestSupport", "Broker", "BrokerWire", "BrokerHTTP", "BrokerRelay", "BrokerVault", hummingbird,
                .product(name: "HummingbirdTesting", package: "hummingbird"), httpTypes, nioCore, nioPosix, logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "coatcheckTests",
            dependencies: [
                "BrokerTestSupport", "coatcheck", "Broker", "BrokerHTTP", "BrokerProviders", "BrokerVault",
                "BrokerWire",
                logging, yams, argumentParser, serviceLifecycle,
            ],
            swiftSettings: strict),
    ]
)

// Apps add this repository as a package for its client library, and then see only the library. The programs' dependencies
// are pinned exactly, and would conflict with the app's. SwiftPM reads a dependency's manifest at "/" or in its checkouts.
if Context.packageDirectory == "/" || Context.packageDirectory.contains("/checkouts/") {
    package.dependencies = []
    package.products.removeAll { $0.name != "Coatcheck" }
    package.targets.removeAll { $0.name != "Coatcheck" }
}
