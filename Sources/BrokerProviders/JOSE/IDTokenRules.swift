import Broker
import Crypto
import FoundationEssentials

/// Checks the claims of an id_token whose signature was verified (OpenID Connect Core 3.1.3.7; SEC-28 … SEC-31).
///
/// The checks are pure functions.
struct IDTokenRules: Sendable {
    let issuer: String
    let clientID: String
    /// The client's `trusted_audiences`: further client ids that count as this client's own.
    ///
    /// A native SDK may return a token whose `aud` is the id of the operator's other registration at the provider.
    var otherClientIDs: [String] = []
    let settings: IDTokenSettings

    /// The expected values for one token.
    struct Expectation: Sendable {
        var nonce: IdentityContext.NonceExpectation
        var accessToken: Secret?
        /// The demands of the authorization request on the sign-in.
        var demands: SignInDemands
        /// Whether a token with an old `iat` is refused; true at a sign-in, false after a refresh.
        var isFresh: Bool
    }

    /// Throws `identityRejected` with the first rule that the token breaks.
    func check(_ token: CompactToken, _ expected: Expectation, now: WallTime) throws(ProviderFailure) {
        let claims = token.claims
        try checkIssuer(claims)
        try checkAudience(claims)
        try checkTimes(claims, isFresh: expected.isFresh, maximumAge: expected.demands.maximumAge, now: now)
        try checkNonce(claims.present("nonce"), expected.nonce)
        if let hash = claims.present("at_hash"), let accessToken = expected.accessToken {
            guard let text = hash.string, Self.halfHashes(accessToken.bytes(), token.algorithm).contains(text) else {
                throw .identityRejected(detail: "at_hash is not the access token's")
            }
        }
        try checkDemands(claims, expected.demands)
        // A logout token is never an id_token, even if its `typ` is an id_token's (SEC-31).
        guard claims.present("events") == nil else { throw .identityRejected(detail: "token has events") }
        _ = try IdentityMapper.subject(claims, at: "/sub", acceptsNumbers: false)
    }

    /// Returns whether the claims of an unverified token that an app sent name the issuer and the client.
    func isFor(_ claims: JSONObject) -> Bool {
        do throws(ProviderFailure) { try checkIssuer(claims) } catch { return false }
        let audiences = claims["aud"]?.string.map { [$0] } ?? claims["aud"]?.array?.compactMap(\.string) ?? []
        let own = [clientID] + otherClientIDs + settings.trustedAudiences
        return audiences.contains { audience in own.contains { $0.hasBytes(of: audience) } }
    }

    /// Returns the reason why a refreshed token with a valid signature does not belong to the session; nil if it does (OpenID
    /// Connect Core 12.2).
    ///
    /// The reason is another issuer, another client, or the nonce of another sign-in. The caller compares the subjects.
    func faultOfRefreshed(_ token: CompactToken, before: Secret?) -> String? {
        do throws(ProviderFailure) { try checkIssuer(token.claims) } catch { return error.detail }
        let audiences = token.claims["aud"]?.string.map { [$0] } ?? token.claims["aud"]?.array?.compactMap(\.string)
        guard audiences?.contains(where: { $0.hasBytes(of: clientID) }) == true else { return "aud is not this client" }
        let first = before.flatMap { try? CompactToken($0.reveal(), allowed: settings.algorithms, types: ["jwt"]) }
        if let issuer = first?.claims["iss"]?.string, token.claims["iss"]?.string?.hasBytes(of: issuer) != true {
            return "iss is not the login's"
        }
        // The nonce may be missing, but if there is a nonce, it must be the login's nonce.
        if let nonce = token.claims.present("nonce"), let first {
            guard let text = nonce.string, first.claims["nonce"]?.string?.hasBytes(of: text) == true else {
                return "nonce is not the login's"
            }
        }
        return nil
    }

    /// The end of the year 9999.
    private static let endOfCalendars: Double = 253_402_300_800

    /// Checks that the token has the essential claims that were requested, including `acr` (OpenID Connect Core 5.5.1.1).
    private func checkDemands(_ claims: JSONObject, _ demands: SignInDemands) throws(ProviderFailure) {
        if !demands.contextClasses.isEmpty {
            guard let reached = claims["acr"]?.string,
                demands.contextClasses.contains(where: { $0.hasBytes(of: reached) })
            else { throw .identityRejected(detail: "acr is none of those that were asked for") }
        }
        for wanted in demands.essentialClaims {
            guard let value = claims[wanted.name], !value.isNull,
                wanted.values.isEmpty || wanted.values.contains(where: { Self.isSame($0, value) })
            else { throw .identityRejected(detail: "an essential claim is missing or has another value") }
        }
    }

    private static func isSame(_ left: JSONValue, _ right: JSONValue) -> Bool {
        if let one = left.string, let other = right.string { return one.hasBytes(of: other) }
        return left == right
    }

    private func checkIssuer(_ claims: JSONObject) throws(ProviderFailure) {
        var expected = issuer
        if let template = settings.issuerTemplate, IssuerTemplate.covers(issuer, template) {
            guard let tenant = claims["tid"]?.string, !tenant.isEmpty, tenant.utf8.count <= 64,
                tenant.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D }),
                IssuerTemplate.isTenant(tenant), settings.tenants.isEmpty || settings.tenants.contains(tenant)
            else { throw .identityRejected(detail: "tenant not allowed") }
            expected = template.replacing("{tenantid}", with: tenant)
        }
        guard claims["iss"]?.string.map({ Array($0.utf8) }) == Array(expected.utf8) else {
            throw .identityRejected(detail: "iss is not the issuer")
        }
    }

    private func checkAudience(_ claims: JSONObject) throws(ProviderFailure) {
        let audiences: [String]
        switch claims["aud"] {
        case .string(let one): audiences = [one]
        case .array(let items):
            audiences = items.compactMap(\.string)
            guard audiences.count == items.count else { throw .identityRejected(detail: "aud is not text") }
        default: throw .identityRejected(detail: "aud is missing")
        }
        func isOurs(_ text: String) -> Bool {
            text.hasBytes(of: clientID) || otherClientIDs.contains { $0.hasBytes(of: text) }
        }
        guard audiences.contains(where: isOurs) else { throw .identityRejected(detail: "aud is not this client") }
        let trusted = settings.trustedAudiences
        func isTrusted(_ text: String) -> Bool { isOurs(text) || trusted.contains { $0.hasBytes(of: text) } }
        guard audiences.allSatisfy(isTrusted) else {
            throw .identityRejected(detail: "aud has an audience that is not trusted")
        }
        let party = claims.present("azp")
        if party != nil || audiences.count > 1 {
            guard let text = party?.string, isTrusted(text) else {
                throw .identityRejected(detail: "azp is not this client")
            }
        }
    }

    private func checkTimes(
        _ claims: JSONObject, isFresh: Bool, maximumAge: Int64?, now: WallTime
    ) throws(ProviderFailure) {
        let present = Double(now.milliseconds) / 1000
        let leeway = Double(min(settings.leeway, .seconds(120)).wholeMilliseconds) / 1000
        guard let expiry = claims["exp"]?.double else { throw .identityRejected(detail: "exp is missing") }
        guard expiry < Self.endOfCalendars else { throw .identityRejected(detail: "exp is beyond every calendar") }
        guard present < expiry + leeway else { throw .identityRejected(detail: "token is expired") }
        guard let issued = claims["iat"]?.double else { throw .identityRejected(detail: "iat is missing") }
        guard issued <= present + leeway else { throw .identityRejected(detail: "iat is in the future") }
        if isFresh {
            let oldest = present - leeway - Double(settings.maximumAge.wholeMilliseconds) / 1000
            guard issued >= oldest else { throw .identityRejected(detail: "iat is too long ago") }
        }
        if let start = claims.present("nbf") {
            guard let seconds = start.double, seconds <= present + leeway else {
                throw .identityRejected(detail: "token is not valid yet")
            }
        }
        if let maximumAge {
            guard let signedIn = claims["auth_time"]?.double, signedIn <= present + leeway,
                present - signedIn <= Double(maximumAge) + leeway
            else { throw .identityRejected(detail: "auth_time does not meet max_age") }
        }
    }

    private func checkNonce(
        _ claim: JSONValue?, _ expected: IdentityContext.NonceExpectation
    ) throws(ProviderFailure) {
        let accepted: [[UInt8]]
        switch expected {
        case .none: return
        case .absent:
            guard claim == nil else { throw .identityRejected(detail: "token has a nonce that nobody handed over") }
            return
        case .exactly(let nonce): accepted = [nonce.bytes()]
        case .rawOrSHA256(let nonce):
            let hash = Array(SHA256.hash(data: nonce.bytes()))
            accepted = [nonce.bytes(), Array(Base64URL.encode(hash).utf8), Array(Self.hexadecimal(hash).utf8)]
        }
        guard let text = claim?.string, !text.isEmpty, accepted.contains(Array(text.utf8)) else {
            throw .identityRejected(detail: "nonce is not the login's")
        }
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Returns the accepted values of `at_hash`: the left half of the algorithm's hash of the bytes, in base64url (Core
    /// 3.1.3.6).
    ///
    /// For EdDSA, the standard leaves the hash open. Servers use SHA-512, which Ed25519 itself uses, or SHA-256.
    static func halfHashes(_ bytes: [UInt8], _ algorithm: SignatureAlgorithm) -> [String] {
        let hashes: [[UInt8]] =
            switch algorithm {
            case .rs256, .ps256, .es256: [Array(SHA256.hash(data: bytes))]
            case .rs384, .ps384, .es384: [Array(SHA384.hash(data: bytes))]
            case .rs512, .ps512, .es512: [Array(SHA512.hash(data: bytes))]
            case .edDSA: [Array(SHA512.hash(data: bytes)), Array(SHA256.hash(data: bytes))]
            }
        return hashes.map { Base64URL.encode($0.prefix($0.count / 2)) }
    }
}
