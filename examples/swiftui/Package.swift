// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "Shop",
    platforms: [.iOS(.v17), .macOS(.v14)],
    dependencies: [.package(name: "Coatcheck", path: "../../clients/swift")],
    targets: [
        .executableTarget(name: "Shop", dependencies: [.product(name: "Coatcheck", package: "Coatcheck")])
    ],
    swiftLanguageModes: [.v6]
)
