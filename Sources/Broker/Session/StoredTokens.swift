/// A token set with the provider and client it belongs to, as sealed in a session or outbox row: the outbox outlives
/// the session, so the record says by itself where to revoke.
package struct StoredTokens: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var tokens: TokenSet
    /// When the access token was issued: a short-lived one is refreshed later than a minute before its end.
    package var issuedAt: WallTime
    /// The id_token of the refresh, as long as its subject is unchecked.
    package var uncheckedIDToken: Secret?
    /// Whose they are, where no session row says it: tokens of an exchange that made no session.
    package var origin: SignInOrigin?

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
    /// Returns the access token, as that of a version of the session's token set.
    func access(version: Int64) -> AccessToken {
        AccessToken(
            token: tokens.accessToken, credential: tokens.credential, expiresAt: tokens.expiresAt,
            scope: tokens.scope ?? [], version: version, issuedAt: issuedAt)
    }
}

extension StoredTokens {
    private static let format: UInt8 = 1

    /// The record to seal.
    package var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(tokens.credential.rawValue)
        writer.string(tokens.accessToken.reveal())
        writer.optional(tokens.refreshToken)
        writer.optional(tokens.idToken)
        writer.optional(tokens.scope) { $0.strings($1) }
        writer.optional(tokens.expiresAt)
        writer.optional(tokens.refreshExpiresAt)
        writer.integer(issuedAt.milliseconds)
        // Added later: readers of before stop at the time, or at the id_token.
        if uncheckedIDToken != nil || origin != nil { writer.optional(uncheckedIDToken) }
        if let origin {
            writer.string(Base64URL.encode(origin.subject.bytes))
            writer.string(origin.sid.map { Base64URL.encode($0.bytes) } ?? "")
        }
        return writer.bytes
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        let provider = ProviderName(unchecked: try reader.string())
        let client = ClientName(unchecked: try reader.string())
        guard let credential = TokenSet.Credential(rawValue: try reader.string()) else {
            throw .malformed
        }
        let tokens = TokenSet(
            credential: credential, accessToken: try reader.secret(), refreshToken: try reader.optionalSecret(),
            idToken: try reader.optionalSecret(), scope: try reader.flag() ? try reader.strings() : nil,
            expiresAt: try reader.optionalTime(), refreshExpiresAt: try reader.optionalTime())
        let issuedAt = WallTime(milliseconds: try reader.integer())
        let unchecked = reader.isAtEnd ? nil : try reader.optionalSecret()
        self.init(
            provider: provider, client: client, tokens: tokens, issuedAt: issuedAt, uncheckedIDToken: unchecked,
            origin: reader.isAtEnd ? nil : try Self.origin(&reader))
    }

    private static func origin(_ reader: inout RecordReader) throws(RecordFailure) -> SignInOrigin {
        guard let subject = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        return SignInOrigin(subject: subject, sid: Base64URL.decode(try reader.string()).flatMap(Digest.init))
    }
}
