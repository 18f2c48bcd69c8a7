/// A token set with its provider and client, as sealed in a session or outbox row.
///
/// An outbox row outlives its session, so the record itself names the provider and client that the revocation needs.
package struct StoredTokens: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var tokens: TokenSet
    /// The time at which the access token was issued.
    ///
    /// The time decides when a short-lived token is refreshed.
    package var issuedAt: WallTime
    /// The id_token of the last refresh, while its subject is unchecked.
    package var uncheckedIDToken: Secret?
    /// The owner of the tokens, in an outbox row whose session no longer has these tokens, or never had them.
    package var origin: SignInOrigin?
    /// The version of the access token; nil if it is the row's token version.
    ///
    /// The row's version can be higher, because a refresh for another API raises it and leaves this access token unchanged.
    package var accessVersion: Int64?

    package init(
        provider: ProviderName, client: ClientName, tokens: TokenSet, issuedAt: WallTime,
        uncheckedIDToken: Secret? = nil, origin: SignInOrigin? = nil
    ) {
        self.origin = origin
        self.uncheckedIDToken = uncheckedIDToken
        self.provider = provider
        self.client = client
        self.tokens = tokens
        self.issuedAt = issuedAt
    }

    /// Returns the access token.
    ///
    /// `version` is the version of the whole token set. It is used if the access token has no version of its own.
    func access(version: Int64) -> AccessToken {
        AccessToken(
            token: tokens.accessToken, credential: tokens.credential, key: tokens.key?.pair,
            certificate: tokens.certificate,
            expiresAt: tokens.expiresAt, scope: tokens.scope ?? [], version: accessVersion ?? version,
            issuedAt: issuedAt)
    }

    /// The pause before the next refresh, if the provider returned an unbound access token although binding is required.
    private static let pause = Duration.seconds(30)
    /// The largest tolerated lead of another process's clock.
    private static let skew = Duration.seconds(60)

    /// Returns the rest of the pause after the provider left the access token unbound; nil if a refresh may be made.
    func withheldFor(at now: WallTime) -> Duration? {
        guard tokens.isWithheld else { return nil }
        let age = now.since(issuedAt)
        // Another process may have set `issuedAt`, and its clock may be ahead by up to a minute. If `issuedAt` is further in the
        // future, this process's clock was set back. The pause is then ignored, because it would last too long.
        return age > .zero - Self.skew && age < Self.pause ? Self.pause - max(age, .zero) : nil
    }
}

extension StoredTokens {
    private static let format: UInt8 = 1
    /// The format of tokens that are bound to a key.
    ///
    /// An older release refuses this format. Otherwise, it would send the tokens without a proof, or treat them as damaged.
    private static let keyedFormat: UInt8 = 2
    /// The format of tokens that are bound to a certificate.
    ///
    /// A release without support for certificates refuses this format. Otherwise, it would send the refresh token in vain, and
    /// some servers end the grant for such a call.
    private static let certifiedFormat: UInt8 = 3

    /// The record to seal.
    package var record: [UInt8] {
        var writer: RecordWriter
        if let key = tokens.key {
            writer = RecordWriter(format: Self.keyedFormat)
            writer.key(key.pair)
            writer.flag(key.usesNonces)
        } else if let certificate = tokens.certificate {
            writer = RecordWriter(format: Self.certifiedFormat)
            writer.string(certificate)
        } else {
            writer = RecordWriter(format: Self.format)
        }
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(tokens.credential.rawValue)
        writer.string(tokens.accessToken.reveal())
        writer.optional(tokens.refreshToken)
        writer.optional(tokens.idToken.flatMap { $0.isKeptIDToken ? $0 : nil })
        writer.optional(tokens.scope) { $0.strings($1) }
        writer.optional(tokens.expiresAt)
        writer.optional(tokens.refreshExpiresAt)
        writer.integer(issuedAt.milliseconds)
        // Older releases stop reading after `issuedAt`, or after `uncheckedIDToken`.
        let unchecked = uncheckedIDToken.flatMap { $0.isKeptIDToken ? $0 : nil }
        if unchecked != nil || origin != nil { writer.optional(unchecked) }
        if let origin {
            writer.string(Base64URL.encode(origin.subject.bytes))
            writer.string(origin.sid.map { Base64URL.encode($0.bytes) } ?? "")
            // An older release stops reading after `origin`. So this member is written after `origin`, and only together with it.
            if let accessVersion { writer.optional(accessVersion) }
        }
        return writer.bytes
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        let format =
            bytes.first.flatMap { [Self.keyedFormat, Self.certifiedFormat].contains($0) ? $0 : nil } ?? Self.format
        var reader = try RecordReader(bytes, format: format)
        let key =
            format == Self.keyedFormat ? TokenKey(pair: try reader.key(), usesNonces: try reader.flag()) : nil
        let certificate = format == Self.certifiedFormat ? try reader.string() : nil
        let provider = ProviderName(unchecked: try reader.string())
        let client = ClientName(unchecked: try reader.string())
        guard let credential = TokenSet.Credential(rawValue: try reader.string()) else {
            throw .malformed
        }
        var tokens = TokenSet(
            credential: credential, accessToken: try reader.secret(), refreshToken: try reader.optionalSecret(),
            idToken: try reader.optionalSecret(), scope: try reader.flag() ? try reader.strings() : nil,
            expiresAt: try reader.optionalTime(), refreshExpiresAt: try reader.optionalTime())
        tokens.key = key
        tokens.certificate = certificate
        let issuedAt = WallTime(milliseconds: try reader.integer())
        let unchecked = reader.isAtEnd ? nil : try reader.optionalSecret()
        self.init(
            provider: provider, client: client, tokens: tokens, issuedAt: issuedAt, uncheckedIDToken: unchecked,
            origin: reader.isAtEnd ? nil : try Self.origin(&reader))
        accessVersion = reader.isAtEnd ? nil : try reader.optionalInteger()
    }

    private static func origin(_ reader: inout RecordReader) throws(RecordFailure) -> SignInOrigin {
        guard let subject = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        return SignInOrigin(subject: subject, sid: Base64URL.decode(try reader.string()).flatMap(Digest.init))
    }
}
