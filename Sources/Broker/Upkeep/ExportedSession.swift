/// A session as one line of an export contains it, before the line is sealed (decision 100).
package struct ExportedSession: Sendable {
    /// The version of the format that this program writes and reads.
    package static let version: Int64 = 1
    /// The longest plaintext of a line, in bytes.
    package static let maximumBytes = 1 << 20

    package var tokenDigest: Digest
    package var handle: SessionHandle
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var refreshToken: Secret?
    package var accessToken: Secret?
    package var accessExpiresAt: WallTime?
    /// The thumbprint of the device's key that the session belongs to.
    package var thumbprint: Digest?
    package var sid: String?
    package var createdAt: WallTime
    package var lastUsedAt: WallTime
    package var idleExpiresAt: WallTime
    package var expiresAt: WallTime
    package var signIn: SignInFacts
    /// The broker's own key that the provider has bound the tokens to (RFC 9449); nil for ordinary tokens.
    package var proofKey: ProofKeyPair?
}

extension ExportedSession {
    /// Creates the line of a session, with its tokens unless `tokens` is nil.
    ///
    /// An access token that needs a client certificate or another broker's proof is left out, because the refresh token brings a
    /// new one.
    init(_ row: SessionRow, _ facts: SessionFacts, _ tokens: StoredTokens?, sid: String?) {
        let set = tokens?.tokens
        let isUsable =
            set.map { set in
                !set.accessToken.isEmpty && set.credential != .mtls && (set.key == nil || set.credential == .dpop)
            } ?? false
        self.init(
            tokenDigest: row.tokenDigest, handle: row.handle, provider: facts.provider, client: facts.client,
            subject: facts.subject, identity: facts.identity, scope: facts.scope, refreshToken: set?.refreshToken,
            accessToken: isUsable ? set?.accessToken : nil, accessExpiresAt: isUsable ? set?.expiresAt : nil,
            thumbprint: facts.thumbprint, sid: sid, createdAt: row.createdAt, lastUsedAt: row.shownLastUse,
            idleExpiresAt: row.idleExpiresAt, expiresAt: row.expiresAt, signIn: facts.signIn,
            proofKey: set?.key?.pair)
    }

    /// The plaintext of the line: a JSON object.
    package var json: [UInt8] {
        var writer = JSONWriter(capacity: 2048)
        writer.object { writer in
            writer.member("v", Self.version)
            writer.member("session", Base64URL.encode(tokenDigest.bytes))
            writer.member("handle", handle.text)
            writer.member("provider", provider.text)
            writer.member("client", client.text)
            writer.member("subject", subject)
            writer.member("identity", .object(JSONObject(identity)))
            writer.member("scope", .array(scope.map { .string($0) }))
            writer.member("refresh_token", refreshToken?.reveal())
            writer.member("access_token", accessToken?.reveal())
            writer.member("access_expires_at", accessExpiresAt)
            writer.member("jkt", thumbprint.map { Base64URL.encode($0.bytes) })
            writer.member("sid", sid)
            writer.member("created_at", createdAt)
            writer.member("last_used_at", lastUsedAt)
            writer.member("idle_expires_at", idleExpiresAt)
            writer.member("expires_at", expiresAt)
            writer.member("authenticated_at", signIn.authenticatedAt.map(WallTime.init(seconds:)))
            writer.member("acr", signIn.contextClass)
            writer.member("amr", .array(signIn.methods.map { .string($0) }))
            guard let proofKey else { return }
            writer.name("proof_key")
            writer.object { writer in
                writer.member("kty", "EC")
                writer.member("crv", "P-256")
                writer.member("x", Base64URL.encode(proofKey.publicKey.x))
                writer.member("y", Base64URL.encode(proofKey.publicKey.y))
                writer.member("d", proofKey.scalar.reveal())
            }
        }
        return writer.bytes
    }
}

extension ExportedSession {
    /// The reason why an opened line is refused.
    package enum Fault: Error, Sendable, Equatable {
        /// A newer program wrote the line.
        case newer(version: Int64)
        /// The member is missing, or its value has a wrong form.
        case member(String)
    }

    /// Reads an opened line.
    package init(json bytes: [UInt8]) throws(Fault) {
        let object: JSONObject
        do throws(JSONFailure) {
            object = try JSONParser.parseObject(bytes, maximumBytes: Self.maximumBytes)
        } catch { throw .member("") }
        guard let version = object["v"]?.integer, version >= Self.version else { throw .member("v") }
        guard version == Self.version else { throw .newer(version: version) }
        let members = Members(object: object)
        let digest: Digest? = try members.digest("session")
        let handle: SessionHandle? = try members.text("handle").map { text throws(Fault) in
            guard let handle = SessionHandle(text) else { throw .member("handle") }
            return handle
        }
        guard let provider = try members.text("provider").flatMap({ ProviderName($0) }) else {
            throw .member("provider")
        }
        guard let client = try members.text("client").flatMap({ ClientName($0) }) else { throw .member("client") }
        guard let subject = try members.text("subject"), !subject.isEmpty else { throw .member("subject") }
        self.init(
            tokenDigest: try members.required(digest, "session"), handle: try members.required(handle, "handle"),
            provider: provider, client: client, subject: subject, identity: try members.identity(),
            scope: try members.texts("scope"), refreshToken: try members.secret("refresh_token"),
            accessToken: try members.secret("access_token"), accessExpiresAt: try members.time("access_expires_at"),
            thumbprint: try members.digest("jkt"), sid: try members.text("sid"),
            createdAt: try members.required(members.time("created_at"), "created_at"),
            lastUsedAt: try members.required(members.time("last_used_at"), "last_used_at"),
            idleExpiresAt: try members.required(members.time("idle_expires_at"), "idle_expires_at"),
            expiresAt: try members.required(members.time("expires_at"), "expires_at"),
            signIn: SignInFacts(
                contextClass: try members.text("acr"), methods: try members.texts("amr"),
                authenticatedAt: try members.time("authenticated_at")?.seconds),
            proofKey: try members.proofKey())
    }

    /// Reads the members of a line; a null member counts as absent.
    private struct Members {
        let object: JSONObject

        func required<Value>(_ value: Value?, _ name: String) throws(Fault) -> Value {
            guard let value else { throw .member(name) }
            return value
        }

        func text(_ name: String) throws(Fault) -> String? {
            guard let value = object.present(name) else { return nil }
            return try required(value.string, name)
        }

        func secret(_ name: String) throws(Fault) -> Secret? {
            guard let text = try text(name) else { return nil }
            guard !text.isEmpty else { throw .member(name) }
            return Secret(text)
        }

        func texts(_ name: String) throws(Fault) -> [String] {
            guard let value = object.present(name) else { return [] }
            let items = try required(value.array, name)
            let texts = items.compactMap(\.string)
            guard texts.count == items.count else { throw .member(name) }
            return texts
        }

        func time(_ name: String) throws(Fault) -> WallTime? {
            guard let text = try text(name) else { return nil }
            return try required(WallTime(rfc3339: text), name)
        }

        func digest(_ name: String) throws(Fault) -> Digest? {
            guard let text = try text(name) else { return nil }
            return try required(Base64URL.decode(text).flatMap { Digest($0) }, name)
        }

        func identity() throws(Fault) -> [(name: String, value: JSONValue)] {
            guard let value = object.present("identity") else { return [] }
            let claims = try required(value.object, "identity").members
            for claim in claims {
                switch claim.value {
                case .string, .number, .bool: break
                case .array(let items) where items.allSatisfy({ $0.string != nil }): break
                case .object, .array, .null: throw .member("identity")
                }
            }
            return claims
        }

        func proofKey() throws(Fault) -> ProofKeyPair? {
            guard let value = object.present("proof_key") else { return nil }
            let key = try required(value.object, "proof_key")
            guard key["kty"]?.string == "EC", key["crv"]?.string == "P-256",
                let x = key["x"]?.string.flatMap({ Base64URL.decode($0) }),
                let y = key["y"]?.string.flatMap({ Base64URL.decode($0) }), let point = ProofKey(x: x, y: y),
                let scalar = key["d"]?.string, Base64URL.decode(scalar)?.count == 32
            else { throw .member("proof_key") }
            return ProofKeyPair(publicKey: point, scalar: Secret(scalar))
        }
    }
}
