// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "Coatcheck",
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [.library(name: "Coatcheck", targets: ["Coatcheck"])],
    targets: [
        .target(name: "Coatcheck"),
        .testTarget(name: "CoatcheckTests", dependencies: ["Coatcheck"]),
    ],
    swiftLanguageModes: [.v6]
)
