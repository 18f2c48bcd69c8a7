package import Broker

/// A session's access token with the way an upstream takes it.
package struct RelayToken: Sendable {
    package let credential: TokenSet.Credential
    package let secret: Secret

    package init(credential: TokenSet.Credential = .bearer, secret: Secret) {
        self.credential = credential
        self.secret = secret
    }

    /// Returns the field that carries it, or nil when its bytes have no place in a field (SEC-78).
    func field() -> (name: String, value: String)? {
        let text = secret.reveal()
        guard !text.isEmpty else { return nil }
        switch credential {
        case .bearer:
            guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x2C }) else { return nil }
            return ("Authorization", "Bearer " + text)
        case .zephrCookie:
            // RFC 6265's cookie-octet: anything else could begin another cookie.
            guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && ![0x22, 0x2C, 0x3B, 0x5C].contains($0) }) else {
                return nil
            }
            return ("Cookie", "blaize_session=" + text)
        }
    }
}
