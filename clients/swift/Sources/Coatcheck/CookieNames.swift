import Foundation

/// The broker's names for its cookies.
struct CookieNames: Sendable {
    let session: String
    let login: String
    let pass: String

    /// Creates the names for a broker; on plain http the prefix is left off.
    init(_ broker: URL) {
        let prefix = broker.scheme == "https" ? "__Host-" : ""
        session = "\(prefix)coatcheck"
        login = "\(prefix)coatcheck-login"
        pass = "\(prefix)coatcheck-pass"
    }
}
