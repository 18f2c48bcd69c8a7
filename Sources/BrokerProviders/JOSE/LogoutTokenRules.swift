import Broker

/// Checks the claims of a logout token whose signature was verified (OIDC Back-Channel Logout 1.0 section 2.6; SEC-66).
struct LogoutTokenRules: Sendable {
    /// The longest accepted time after `iat` of a logout token, in seconds; some servers omit `exp`
    /// (docs/providers/real-servers.md).
    static let maximumAge: Int64 = 600
    private static let event = "http://schemas.openid.net/event/backchannel-logout"

    let issuer: String
    /// Each client's name and id.
    let clients: [(name: ClientName, id: String)]
    let leeway: Duration

    /// Returns the clients that the token is for.
    ///
    /// Throws `identityRejected` in two cases: the token's issuer is another provider's; or the token's `aud` names no client
    /// of the broker.
    ///
    /// Strangers can send tokens, so this check comes before the keys for the token are fetched.
    func parties(_ claims: JSONObject) throws(ProviderFailure) -> [ClientName] {
        guard claims["iss"]?.string.map({ Array($0.utf8) }) == Array(issuer.utf8) else {
            throw .identityRejected(detail: "iss is not the issuer")
        }
        let audiences = claims["aud"]?.string.map { [$0] } ?? claims["aud"]?.array?.compactMap(\.string) ?? []
        let named = clients.filter { client in audiences.contains { $0.hasBytes(of: client.id) } }.map(\.name)
        guard !named.isEmpty else {
            throw .identityRejected(detail: "aud is no client of ours")
        }
        return named
    }

    /// Returns the subject, the `sid` or both that the token names, and the clients that it is for.
    ///
    /// Throws `identityRejected` with the first rule that the token breaks.
    func check(_ claims: JSONObject, now: WallTime) throws(ProviderFailure) -> LogoutNotice {
        let named = try parties(claims)
        let present = Double(now.milliseconds) / 1000
        let skew = Double(min(leeway, .seconds(120)).wholeMilliseconds) / 1000
        guard let issued = claims["iat"]?.double, issued <= present + skew,
            issued >= present - skew - Double(Self.maximumAge)
        else { throw .identityRejected(detail: "iat is missing or not recent") }
        if let expiry = claims.present("exp") {
            guard let seconds = expiry.double, present < seconds + skew else {
                throw .identityRejected(detail: "token is expired")
            }
        }
        guard claims.present("nonce") == nil else { throw .identityRejected(detail: "token has a nonce") }
        guard let id = claims["jti"]?.string, (1...255).contains(id.utf8.count) else {
            throw .identityRejected(detail: "jti is missing")
        }
        // PHP writes an empty object as an empty list.
        let event = claims["events"]?.object?[Self.event]
        guard event?.object != nil || event?.array?.isEmpty == true else {
            throw .identityRejected(detail: "not a logout event")
        }
        let subject = try subject(claims["sub"])
        let sid: String?
        switch SignInID.read(claims["sid"]) {
        case .absent: sid = nil
        case .id(let text): sid = text
        case .unusable: throw .identityRejected(detail: "sid is no text, or longer than 4 KiB")
        }
        guard subject != nil || sid != nil else { throw .identityRejected(detail: "neither sub nor sid") }
        let life = Duration.seconds(Self.maximumAge) + leeway + leeway
        return LogoutNotice(
            subject: subject, sid: sid, clients: named, tokenID: id, rememberUntil: now.advanced(by: life))
    }

    private func subject(_ value: JSONValue?) throws(ProviderFailure) -> String? {
        guard let value, !value.isNull else { return nil }
        guard let text = value.string, (1...255).contains(text.utf8.count) else {
            throw .identityRejected(detail: "sub is not text")
        }
        return text
    }
}
