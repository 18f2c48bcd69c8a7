/// The content of the app association files (`app_links`, SEC-93).
struct AppLinkSettings: Sendable {
    /// The content of `apple-app-site-association`.
    struct Apple: Sendable {
        let appIDs: [String]
        let paths: [String]
        /// Whether the app may also use this host's passwords, which https callbacks require (iOS 17.4).
        let webcredentials: Bool
    }

    /// The content of `assetlinks.json`.
    struct Android: Sendable {
        let package: String
        let fingerprints: [String]
    }

    let ios: Apple?
    let android: Android?

    init(_ section: ConfigSection) {
        ios = section.optionalSection("ios").flatMap(Self.apple)
        android = section.optionalSection("android").flatMap(Self.android)
    }

    private static func apple(_ section: ConfigSection) -> Apple? {
        let ids = section.texts("app_ids", limit: 256)
        let paths = section.texts("paths", limit: 256)
        if ids.isEmpty { section.report("app_ids", "has to hold at least one app id (`TEAMID1234.com.example.app`)") }
        if paths.isEmpty { section.report("paths", "has to hold at least one callback path (`/oauth/*`)") }
        for id in ids {
            let parts = id.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            let isWord = id.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == 0x2D || byte == 0x2E
            }
            if parts.count != 2 || parts.contains(where: \.isEmpty) || !isWord {
                section.report("app_ids", "has to hold app ids: the team id, a dot and the bundle id")
            }
        }
        for path in paths {
            let isPlain = path.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
            if !path.hasPrefix("/") || !isPlain {
                section.report("paths", "has to hold paths that begin with `/`")
            } else if path.dropFirst().allSatisfy({ $0 == "*" || $0 == "?" || $0 == "/" }) {
                section.report("paths", "has to name the callback paths: `/*` hands every link of the site to the app")
            }
        }
        return Apple(appIDs: ids, paths: paths, webcredentials: section.flag("webcredentials", default: false))
    }

    private static func android(_ section: ConfigSection) -> Android? {
        let package = section.requiredText("package", limit: 256)
        let fingerprints = section.texts("sha256_cert_fingerprints", limit: 128)
        if fingerprints.isEmpty {
            section.report("sha256_cert_fingerprints", "has to hold at least one certificate's SHA-256")
        }
        for fingerprint in fingerprints {
            let pairs = fingerprint.split(separator: ":", omittingEmptySubsequences: false)
            if pairs.count != 32 || pairs.contains(where: { $0.count != 2 || Hexadecimal.decode(String($0)) == nil }) {
                section.report(
                    "sha256_cert_fingerprints", "has to hold 32 pairs of hexadecimal digits with colons between")
            }
        }
        guard let package else { return nil }
        return Android(package: package, fingerprints: fingerprints)
    }
}
