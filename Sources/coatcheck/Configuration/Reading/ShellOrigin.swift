/// The origin of an app in a web shell (RFC 6454): the app's own scheme and a host, or `http` and a host under `.localhost`.
///
/// Origins are compared byte for byte.
enum ShellOrigin {
    /// The schemes that do not belong to an app: the schemes of the web, which have their own rules, and the schemes that every
    /// app or page can use.
    private static let others = RedirectScheme.forbidden.union(["http", "https"])

    /// Returns whether a text is the origin of an app in a web shell.
    static func isOne(_ text: String) -> Bool {
        guard text.utf8.count <= 256, let colon = text.firstRange(of: "://") else { return false }
        let scheme = text[..<colon.lowerBound]
        let host = text[colon.upperBound...]
        let isScheme =
            (scheme.utf8.first.map { (0x61...0x7A).contains($0) } ?? false)
            && scheme.utf8.allSatisfy {
                (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || "+-.".utf8.contains($0)
            }
        let isHost = host.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
                || "-._".utf8.contains($0)
        }
        guard isScheme, isHost, !host.isEmpty else { return false }
        // On Windows and Android a shell serves its pages from a name that exists only on the device
        // (`http://tauri.localhost`).
        if scheme == "http" { return host.hasSuffix(".localhost") && !host.hasPrefix(".") }
        return !others.contains(String(scheme))
    }
}
