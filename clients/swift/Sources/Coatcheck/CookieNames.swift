import Foundation

/// The names of the broker's cookies.
struct CookieNames: Sendable {
    let session: String
    let login: String
    let pass: String

    /// Creates the names for a broker.
    ///
    /// With plain http, the names have no `__Host-` prefix.
    init(_ broker: URL) {
        let prefix = broker.scheme == "https" ? "__Host-" : ""
        session = "\(prefix)coatcheck"
        login = "\(prefix)coatcheck-login"
        pass = "\(prefix)coatcheck-pass"
    }
}
